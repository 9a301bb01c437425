"""Bodies in and out: JSON, or XML where it is asked for or sent; paging and links.

`body()` is this request's body as values by the schema that its route takes; `read(schema)` the same
for a schema at hand; `answer(value, status)` a response in the format that the caller accepts.
"""

from collections.abc import Collection, Sequence
from typing import Any
from xml.parsers.expat import ExpatError

import marshmallow
import orjson
from flask import Response, current_app, g, request

from web.http import errors, xml

JSON = "application/json"
XML = "application/xml"
# What answers can be, the first of what is wanted alike.
CONTENT_TYPES = (JSON, XML, "text/xml")


def build_response(value: Any, status: int = 200) -> Response:
    """A response with this value; None with 204 has no body at all."""
    if status == 204:
        response = Response(status=204)
        response.headers.pop("Content-Type", None)
        return response
    kind = choose_content_type()
    if kind != JSON:
        return Response(xml.render(value), status, mimetype=kind)
    text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)
    return Response(text, status, mimetype=JSON)


def choose_content_type() -> str:
    """The kind of answer that this request wants most. JSON, too, for who has no wish or none that can be
    met: an answer in the other form says more than a refusal.
    """
    preferences = [
        (preference.partition(";")[0].strip().lower(), quality)
        for preference, quality in request.accept_mimetypes
    ]
    return max(CONTENT_TYPES, key=lambda kind: _get_preference(kind, preferences))


def _get_preference(kind: str, preferences: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """How much it is wanted, by the most precise wish that it meets, and how precise that is."""
    type_range = f"{kind.partition('/')[0]}/*"
    for precision, name in ((3, kind), (2, type_range), (1, "*/*")):
        found = [quality for preference, quality in preferences if preference == name]
        if found:
            return max(found), precision if max(found) else 0
    return 0.0, 0


def accepts_json(accept: str) -> bool:
    """Whether who accepts this wants JSON, seen at a glance; who is not sure asks `accepted`."""
    return not (";" in accept or "text/*" in accept or "xml" in accept.lower())


def read_bytes() -> bytes:
    """The body as it came, whole. TooLarge when it is longer than the request may be.

    A body that comes in chunks says nothing of its length, and is cut at the limit without a word.
    """
    data = request.get_data(cache=False)
    limit = request.max_content_length
    if request.content_length is None and limit is not None and len(data) >= limit:
        raise errors.TooLarge
    if request.content_length is not None and len(data) < request.content_length:
        # The sender went away, or was cut off, in the middle.
        raise errors.BadRequest({"body": ["This is not all of it."]})
    return data


def parse_body() -> Any:
    """The body as plain values; {} when there is none. BadRequest when it cannot be read."""
    data = read_bytes()
    if not data.strip():
        return {}
    try:
        if request.mimetype in CONTENT_TYPES[1:]:
            return xml.parse(data, request.mimetype_params.get("charset"))
        return orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    # LookupError: an encoding that nobody knows.
    except (ValueError, LookupError, ExpatError, RecursionError) as error:
        raise errors.BadRequest({"body": ["This is no JSON (or XML) that can be read."]}) from error


def read_as(schema: marshmallow.Schema, *, partial: bool | Collection[str] = False) -> dict[str, Any]:
    """The body as this schema understands it. BadRequest names the fields that are wrong.

    `partial`: True when any field may be missing, or the names of those that may.
    """
    return load(schema, parse_body(), partial=partial)


def load(
    schema: marshmallow.Schema, value: Any, *, partial: bool | Collection[str] = False
) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = schema.load(
            value, partial=partial if isinstance(partial, bool) else tuple(partial)
        )
    except marshmallow.ValidationError as error:
        raise errors.BadRequest(errors.flatten(error.messages)) from None
    return loaded


def read_body() -> dict[str, Any]:
    """The body by the schema that this request's route declares."""
    return read_as(g.route.body)


def build_url(path: str) -> str:
    """An absolute address of ours. Only the setting says where we are; no header does."""
    return f"{current_app.config['SETTINGS'].public_url}{path}"
