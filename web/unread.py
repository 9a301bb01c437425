"""Bodies that no view has read are read before the answer goes.

The published clients send one with every GET. The server ends a connection on which a request has come of
which a part was never read, without a word, and a client that goes on over it is left without an answer.
"""

from collections.abc import Callable, Iterable
from typing import Any

# Who sends more than this in vain may connect again.
MOST_BYTES = 1024 * 1024

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Unread:
    """A WSGI application around another one."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"]
        answer = self._application(environ, start)
        if _may_be_read(environ):
            body.read(MOST_BYTES)
        return answer


def _may_be_read(environ: dict[str, Any]) -> bool:
    said = environ.get("CONTENT_LENGTH") or ""
    if said.isascii() and said.isdecimal():
        return 0 < int(said) <= MOST_BYTES
    return "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
