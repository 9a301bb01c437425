"""Read what no view has read of a request body, before the answer is sent.

The published clients send a body with every GET. If a part of a request was not read, the server closes the
connection without a message. The client's next request on this connection would then get no answer.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

# After a larger body that no view reads, the client must connect again.
MAX_BYTES = 1024 * 1024


class DrainBody:
    """WSGI middleware that reads the rest of the request body."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"]
        answer = self._application(environ, start_response)
        if _should_drain(environ):
            body.read(MAX_BYTES)
        return answer


def _should_drain(environ: WSGIEnvironment) -> bool:
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isascii() and length.isdecimal():
        return 0 < int(length) <= MAX_BYTES
    return "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
