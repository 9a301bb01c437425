"""Read request bodies and build responses: JSON, or XML if the request sends or accepts it.

`read_body()` returns the values of the request's body by the schema of its route, `read_as(schema)` by
another schema. `build_response(value, status)` returns a response in the format that the client accepts.
"""

from collections.abc import Collection, Sequence
from typing import Any
from xml.parsers.expat import ExpatError

import marshmallow
import orjson
from flask import Response, current_app, g, request
from werkzeug.wrappers import Request as BaseRequest

from web.http import errors, xml

JSON = "application/json"
XML = "application/xml"
# The content types of answers. If the client accepts several equally, the first of them is used.
CONTENT_TYPES = (JSON, XML, "text/xml")
HTML = "text/html"
# Objects and lists of a body, with the brackets in its texts. To build 250,000 of them takes 0.1 s and more,
# in which no other thread can run. A payload for simulate or rules/try may have many.
MAX_CONTAINERS = 100_000

# The quality of the entry of the header Accept that matches a type, and how specific the entry is.
Preference = tuple[float, int]
EXACT = 3


def build_response(value: object, status: int = 200) -> Response:
    """Build a response with this value. A response with status 204 has no body."""
    if status == 204:
        response = Response(status=204)
        response.headers.pop("Content-Type", None)
        return response
    kind = choose_content_type()
    if kind != JSON:
        return Response(xml.render(value), status, mimetype=kind)
    return Response(dump_json(value), status, mimetype=JSON)


def dump_json(value: object) -> bytes:
    """Return a value as JSON. Times end with Z."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)


def choose_content_type() -> str:
    """Return the content type that the request prefers.

    JSON if it prefers none or only unsupported ones: an answer in JSON is more useful than an error.
    """
    preferences = _list_preferences(request)
    return max(CONTENT_TYPES, key=lambda kind: _get_preference(kind, preferences))


def is_browser(asked: BaseRequest) -> bool:
    """Return whether a request is that of a browser, which shows a page better than JSON or XML.

    It names HTML, prefers it to JSON, does not prefer XML to it, and neither has a token nor sends JSON or
    XML. Some HTTP libraries also name HTML first by default, so the header Accept alone is not enough.
    """
    if "Authorization" in asked.headers or asked.mimetype in CONTENT_TYPES:
        return False
    html, json, xml = _get_preferences_of_kinds(asked)
    return html[1] == EXACT and html > json and html >= xml


def prefers_data() -> bool:
    """Return whether the request has a token, or names JSON or XML and prefers it to HTML."""
    if "Authorization" in request.headers:
        return True
    html, *others = _get_preferences_of_kinds(request)
    return any(other[1] == EXACT and other > html for other in others)


def _get_preferences_of_kinds(asked: BaseRequest) -> tuple[Preference, Preference, Preference]:
    """Return the preferences of a request for HTML, JSON and XML."""
    preferences = _list_preferences(asked)
    html, json, *xml = (_get_preference(kind, preferences) for kind in (HTML, *CONTENT_TYPES))
    return html, json, max(xml)


def _list_preferences(asked: BaseRequest) -> list[tuple[str, float]]:
    return [
        (preference.partition(";")[0].strip().lower(), quality)
        for preference, quality in asked.accept_mimetypes
    ]


def _get_preference(kind: str, preferences: Sequence[tuple[str, float]]) -> Preference:
    """Return the quality of the most specific entry that matches this type, and how specific it is."""
    type_range = f"{kind.partition('/')[0]}/*"
    for precision, name in ((EXACT, kind), (2, type_range), (1, "*/*")):
        found = [quality for preference, quality in preferences if preference == name]
        if found:
            return max(found), precision if max(found) else 0
    return 0.0, 0


def read_bytes() -> bytes:
    """Return the raw body. TooLarge if it exceeds the limit of the request.

    A chunked body has no Content-Length, and the library truncates it at the limit without an error.
    """
    data = request.get_data(cache=False)
    limit = request.max_content_length
    if request.content_length is None and limit is not None and len(data) >= limit:
        raise errors.TooLarge
    if request.content_length is not None and len(data) < request.content_length:
        # The sender closed the connection, or lost it, before the end of the body.
        raise errors.BadRequest({"body": ["The body is shorter than its Content-Length."]})
    return data


def parse_body() -> Any:
    """Return the body as plain values; {} without one. BadRequest if it cannot be parsed, as only blanks."""
    data = read_bytes()
    if not data:
        return {}
    try:
        if request.mimetype in CONTENT_TYPES[1:]:
            return xml.parse(data, request.mimetype_params.get("charset"))
        if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
            raise errors.BadRequest({"body": [f"Has more than {MAX_CONTAINERS:,} objects and lists."]})
        return orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    # LookupError: an unknown encoding.
    except (ValueError, LookupError, ExpatError, RecursionError) as error:
        raise errors.BadRequest({"body": ["This is not valid JSON or XML."]}) from error


def read_as(schema: marshmallow.Schema, *, partial: bool | Collection[str] = False) -> dict[str, Any]:
    """Return the values of the body by this schema, as load() does."""
    return load(schema, REQUEST_BODY, partial=partial)


class RequestBody:
    """The body of this request. It is parsed where its values are needed: after the check of permissions."""


REQUEST_BODY = RequestBody()


def load(
    schema: marshmallow.Schema, value: Any, *, partial: bool | Collection[str] = False
) -> dict[str, Any]:
    """Return these values by this schema. BadRequest names the wrong fields.

    `partial`: True if all fields may be missing, or the names of the fields that may be missing.
    """
    if isinstance(value, RequestBody):
        value = parse_body()
    try:
        loaded: dict[str, Any] = schema.load(
            value, partial=partial if isinstance(partial, bool) else tuple(partial)
        )
    except marshmallow.ValidationError as error:
        raise errors.BadRequest(errors.flatten(error.messages)) from None
    return loaded


def read_body() -> dict[str, Any]:
    """Return the values of the body by the schema of this request's route."""
    return read_as(g.route.body)


def build_url(path: str) -> str:
    """Return the absolute URL of a path. The base is the setting TOCSIN_PUBLIC_URL, never a header."""
    return f"{current_app.config['SETTINGS'].public_url}{path}"
