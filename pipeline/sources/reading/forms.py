"""Turn a form into the JSON object that a source reads, so that what is stored has one form.

Fields are counted before they are parsed. A value that is JSON itself, such as that of `payload`, is decoded.
"""

import msgspec

from pipeline.sources.reading.body import FORM, MAX_FORM_FIELDS, BadBody, RequestBody
from pipeline.sources.reading.multipart import TYPE, read_parts

HEADER = "content-type"
# A longer value stays a text.
MAX_JSON = 64 * 1024


def read_form(raw: bytes, content_type: str | None) -> bytes | None:
    """Return the fields of a form as a JSON object; None: the body is no form. Raises BadBody.

    Many clients name the type of a form if nobody tells them another one, so that JSON stays JSON.
    """
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind not in (FORM, TYPE) or raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    body = RequestBody(raw, {HEADER: content_type or ""})
    if kind == TYPE:
        return encode_fields(read_parts(body) or {})
    if raw.count(b"&") >= MAX_FORM_FIELDS:
        raise BadBody("", f"is a form with more than {MAX_FORM_FIELDS} fields")
    return encode_fields(body.decode_form())


def encode_fields(fields: "dict[str, str] | dict[str, object]") -> bytes:
    """Return fields by name as a JSON object. Raises BadBody if there is none."""
    if not fields:
        raise BadBody("", "is a form without fields")
    return msgspec.json.encode({_clean(name): _decode(value) for name, value in fields.items()})


def _decode(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] in ("{", "[") and len(text) <= MAX_JSON:
        try:
            return msgspec.json.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
    return _clean(value)


def _clean(text: str) -> str:
    """Return a text that can be encoded: forms have no lone surrogates, but percent signs can make them."""
    return text.encode("utf-8", "replace").decode()
