"""Bound what headers, addresses and forms may cost, before they are parsed.

A header of 60 KB with 15,000 parts took up to 37 ms of CPU, and a form of 1 MiB with 500,000 fields 290 ms
and 25 MiB: anybody can send both, without a key or a cookie.
"""

import io
from collections.abc import Iterable
from typing import IO
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Request
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.exceptions import UnsupportedMediaType
from werkzeug.formparser import FormDataParser

from web.http import response_headers, serialization
from web.http.errors import BadRequest, TooLarge

# The longest body of a page. A note, the longest text of nearly all pages, has at most 4,000 characters.
PAGE_BYTES = 64 * 1024
# Of a form. The largest one, the list of incidents, has 50 boxes and a dozen filters.
MAX_FIELDS = 200
# Parts of a header or of a query, and where they are. No browser and no tool sends a quarter of them.
MAX_PARTS = 200
_SEPARATORS = {
    "QUERY_STRING": "&",
    "CONTENT_TYPE": ";",
    "HTTP_ACCEPT": ",;",
    "HTTP_AUTHORIZATION": ",",
    "HTTP_COOKIE": ";",
    "HTTP_IF_NONE_MATCH": ",",
    "HTTP_PREFER": ",;",
}
FORM = "application/x-www-form-urlencoded"

_TOO_MANY = b'{"detail":"A header or the query of the request has too many parts."}'
_HEADERS = [
    ("Content-Type", serialization.JSON),
    ("Content-Length", str(len(_TOO_MANY))),
    *response_headers.HEADERS.items(),
]


def limit_headers(application: WSGIApplication) -> WSGIApplication:
    """Refuse requests whose headers or query have too many parts. The answer is JSON: it parses no Accept."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if any(_has_too_many(environ.get(name), signs) for name, signs in _SEPARATORS.items()):
            start_response("431 REQUEST HEADER FIELDS TOO LARGE", _HEADERS)
            return (_TOO_MANY,)
        return application(environ, start_response)

    return serve


def _has_too_many(value: str | None, signs: str) -> bool:
    # A shorter text cannot have so many.
    if not value or len(value) <= MAX_PARTS:
        return False
    return sum(map(value.count, signs)) > MAX_PARTS


class _FormParser(FormDataParser):
    def parse(
        self,
        stream: IO[bytes],
        mimetype: str,
        content_length: int | None,
        options: dict[str, str] | None = None,
    ) -> tuple[IO[bytes], MultiDict[str, str], MultiDict[str, FileStorage]]:
        """Count the fields of a form, then parse it. A form with parts is refused: no page expects a file."""
        if mimetype == "multipart/form-data":
            raise UnsupportedMediaType
        if mimetype != FORM:
            return super().parse(stream, mimetype, content_length, options)
        body = stream.read()
        # The stream ends at the limit without an error if the length of the body was not known before.
        if content_length is None and self.max_content_length and len(body) >= self.max_content_length:
            raise TooLarge
        if body.count(b"&") >= MAX_FIELDS:
            raise BadRequest({"body": [f"The form has more than {MAX_FIELDS} fields."]})
        return super().parse(io.BytesIO(body), mimetype, content_length, options)


class LimitedRequest(Request):
    """A request whose form has a bounded number of fields."""

    form_data_parser_class = _FormParser
