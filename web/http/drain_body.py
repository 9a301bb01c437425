"""Bodies that no view has read are read before the answer goes.

The published clients send one with every GET. The server ends a connection on which a request has come of
which a part was never read, without a word, and a client that goes on over it is left without an answer.
"""

from collections.abc import Callable, Iterable
from typing import Any

# Who sends more than this in vain may connect again.
MAX_BYTES = 1024 * 1024

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class DrainBody:
    """A WSGI application around another one."""

    def __init__(self, application: WsgiApp) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"]
        answer = self._application(environ, start_response)
        if _should_drain(environ):
            body.read(MAX_BYTES)
        return answer


def _should_drain(environ: dict[str, Any]) -> bool:
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isascii() and length.isdecimal():
        return 0 < int(length) <= MAX_BYTES
    return "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
