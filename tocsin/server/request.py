"""One HTTP request: receive its body without a thread, then call the application in a thread of its share.

A large body is received only when the application asks for it: before, the application has checked the token,
the session or the key, as it does in each request. So it is called twice, the first time without the body.

The application is a WSGI application (PEP 3333). Plain alerts are taken over before (`Accept`): they need no
thread, since one thread commits and answers many of them.
"""

import io
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from wsgiref.types import WSGIApplication, WSGIEnvironment

import orjson
import structlog

from runtime.metrics import count_refused
from tocsin.server.bodies import MAX_BYTES, SMALL_BYTES, Bodies, is_too_fragmented
from tocsin.server.shares import Shares
from web.server_interface import (
    ALERT_PATHS,
    ARRIVED_AT,
    CALLBACK_BYTES,
    CALLBACK_PATHS,
    CLIENT_CHECK,
    Accept,
    BodyNeeded,
    BuildRefusal,
    Headers,
    UnreceivedBody,
)

log = structlog.get_logger()


class HeaderMap(Protocol):
    def items(self) -> Headers: ...


class Scope(Protocol):
    """The first line and the headers of a request, by granian."""

    path: str
    method: str
    query_string: str
    client: str
    authority: str | None
    headers: HeaderMap


class Future(Protocol):
    """A result of granian that comes later."""

    def cancel(self) -> object: ...
    def cancelled(self) -> bool: ...
    def result(self) -> bytes: ...
    def add_done_callback(self, callback: Callable[["Future"], None]) -> object: ...


class Connection(Protocol):
    """Receives the body, whole or in chunks, and sends the answer; by granian."""

    def __call__(self) -> Future: ...
    def __aiter__(self) -> object: ...
    def __anext__(self) -> Future: ...
    def client_disconnect(self) -> Future: ...
    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...


class Watcher(Protocol):
    """A request as granian passes it."""

    scope: Scope
    proto: Connection


JSON = ("Content-Type", "application/json")
# What a request gets that this process cannot serve now.
RETRY_AFTER = ("Retry-After", "1")
# The rest of a body is not read, so the connection cannot be used again.
CLOSE = ("Connection", "close")

TEXTS = {
    400: "This request can not be processed.",
    408: "The body of the request did not arrive in time.",
    500: "Something went wrong on our side.",
    503: "The service is temporarily unavailable.",
}

# Fixed parts of the environment (PEP 3333). The input ends with the body, also without a Content-Length.
_BASE = {
    "SCRIPT_NAME": "",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.input_terminated": True,
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
    "wsgi.errors": sys.stderr,
}


class _Answer:
    """What the application calls with the status and the headers (start_response of PEP 3333)."""

    __slots__ = ("headers", "status")

    def __call__(
        self, status: str, headers: Headers, exc_info: object = None, /
    ) -> Callable[[bytes], object]:
        self.status, self.headers = int(status[:3]), headers
        return _write


def _write(_: bytes) -> None:
    raise NotImplementedError("the application must return the body")


@dataclass(frozen=True, slots=True)
class Serving:
    """What all requests of a process share.

    `server`: the parts of the environment that name the server. `active`: the clients (IP:PORT) that get an
    answer now.
    """

    app: WSGIApplication
    server: Mapping[str, str]
    bodies: Bodies
    shares: Shares
    active: set[str]
    accept: Accept
    build_refusal: BuildRefusal


class Request:
    """A request from its headers to its answer. Its methods run one after the other, in any threads.

    `client` is the address of the client, as IP:PORT.
    """

    __slots__ = (
        "_arrived_at",
        "_cancelled_with",
        "_chunks",
        "_environ",
        "_expected",
        "_future",
        "_headers",
        "_is_asked_for",
        "_is_gone",
        "_is_large",
        "_max_bytes",
        "_path",
        "_proto",
        "_scope",
        "_serving",
        "_size",
        "client",
    )  # fmt: skip

    def __init__(self, scope: Scope, proto: Connection, serving: Serving) -> None:
        self._scope, self._proto, self._serving = scope, proto, serving
        self._environ: WSGIEnvironment | None = None
        self._path: str = scope.path
        self._max_bytes = CALLBACK_BYTES if self._path.startswith(CALLBACK_PATHS) else MAX_BYTES
        self._headers: Headers = scope.headers.items()
        self._future: Future | None = None
        self._expected: int | None = None
        self._is_large = self._is_gone = False
        # Whether the application wants this large body.
        self._is_asked_for = False
        # The status of the answer, once the body was cancelled.
        self._cancelled_with: int | None = None
        self.client: str = scope.client
        self._arrived_at = 0.0
        self._chunks: list[bytes] = []
        self._size = 0

    # --- the body ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to receive the body; without a body, answer."""
        length, is_chunked = _measure_body(self._headers)
        if length is None and not is_chunked:
            self._admit()
        elif length is not None and length > self._max_bytes:
            # The application refuses it by its Content-Length, without reading it.
            self._admit()
        elif length is not None and length <= SMALL_BYTES:
            self._expected = length
            self._serving.bodies.add(self, is_large=False)
            self._future = self._proto()
            self._future.add_done_callback(self._end_small)
        else:
            self._expected = length
            self._is_large = True
            if length is None:
                # Most bodies of unknown length are small.
                self._receive_large()
            else:
                self._ask()

    def _ask(self) -> None:
        """Let the application check the request before its large body is received."""
        self._future = None
        self._serving.bodies.discard(self)
        self._serving.active.add(self.client)
        share = self._serving.shares.choose(self._path, self._scope.method) or self._serving.shares.others
        share.run(_Question(self))

    def ask(self) -> None:
        """Call the application without the body. It answers, or wants the body: then receive it."""
        self._arrived_at = time.monotonic()
        environ = self._build_environment()
        environ["wsgi.input"] = UnreceivedBody()
        try:
            self._answer(environ, CLOSE)
        except BodyNeeded:
            if self._future is not None:
                # The check whether the client has left. The application starts it again if it needs it.
                self._future.cancel()
            self._is_asked_for, self._is_gone = True, False
            self._serving.active.discard(self.client)
            self._receive_large()

    def _receive_large(self) -> None:
        self._serving.bodies.add(self, is_large=True)
        if not self._chunks:
            self._proto.__aiter__()
        self._receive_chunk()

    def cancel(self, status: int = 408) -> None:
        """Answer with this status if the body is not complete. The callback of the future follows in this
        thread.
        """
        self._cancelled_with = status
        future = self._future
        if future is not None:
            future.cancel()

    def _end_small(self, future: Future) -> None:
        self._serving.bodies.discard(self)
        if self._cancelled_with is not None and future.cancelled():
            self._end_error(self._cancelled_with)
            return
        try:
            self._chunks.append(future.result())
        except Exception:
            # The client ended the connection, or the chunks are invalid.
            self._end(400, CLOSE)
            return
        self._admit()

    def _receive_chunk(self) -> None:
        self._future = self._proto.__anext__()
        self._future.add_done_callback(self._end_chunk)

    def _end_chunk(self, future: Future) -> None:
        if self._cancelled_with is not None:
            self._end_large(self._cancelled_with)
            return
        chunk: bytes = future.result()
        if not chunk:
            self._end_large(None if self._is_complete() else 400)
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if not self._serving.bodies.reserve(len(chunk)):
            self._size -= len(chunk)
            self._end_large(503)
        elif is_too_fragmented(len(self._chunks), self._size):
            self._end_large(400)
        elif self._size > self._max_bytes:
            # More than the operation accepts: the application refuses it.
            self._end_large(None)
        elif not self._is_asked_for and self._size > SMALL_BYTES:
            self._ask()
        else:
            self._receive_chunk()

    def _end_error(self, status: int) -> None:
        self._end(status, CLOSE, *((RETRY_AFTER,) if status == 503 else ()))

    def _end_large(self, error: int | None) -> None:
        self._serving.bodies.discard(self)
        if error is None:
            self._admit()
        else:
            self._end_error(error)

    def _is_complete(self) -> bool:
        """Return whether the body ended with its last part.

        A broken body ends with an empty part too, but then the stream does not end.
        """
        if self._expected is not None:
            return self._size == self._expected
        try:
            self._proto.__anext__().cancel()
        except StopAsyncIteration:
            return True
        return False

    # --- the answer ----------------------------------------------------------------------------------

    def _admit(self) -> None:
        self._future = None
        self._arrived_at = time.monotonic()
        self._serving.active.add(self.client)
        share = self._serving.shares.choose(self._path, self._scope.method)
        if share is None:
            self.run()
        elif share is not self._serving.shares.alerts or not self._is_accepted():
            share.run(self)

    def _is_accepted(self) -> bool:
        self._environ = self._build_environment()
        return self._serving.accept(self._environ, self)

    def hand_over(self) -> None:
        self._serving.shares.alerts.run(self)

    def run(self) -> None:
        """Call the application and send its answer."""
        self._answer(self._environ or self._build_environment())

    def _answer(self, environ: WSGIEnvironment, *headers: tuple[str, str]) -> None:
        answer = _Answer()
        try:
            found = self._serving.app(environ, answer)
            body = b"".join(found)
            if hasattr(found, "close"):
                found.close()
        except Exception as error:
            # Not its text, which can contain users' data.
            log.error("a request failed", error=type(error).__name__)
            self._end(500, *headers)
            return
        self.send(answer.status, [*answer.headers, *headers], body)

    def _start_client_check(self) -> Callable[[], bool]:
        """Return a function that says whether the client has closed the connection.

        Each call of this method costs a task of granian, so only expensive requests call it.
        """

        def note_end(_: Future) -> None:
            self._is_gone = True

        self._future = self._proto.client_disconnect()
        self._future.add_done_callback(note_end)
        return lambda: self._is_gone

    def refuse(self) -> None:
        self._end(503, RETRY_AFTER)

    def refuse_unreceived(self) -> None:
        self._end(503, RETRY_AFTER, CLOSE)

    def _end(self, status: int, *headers: tuple[str, str]) -> None:
        if self._path.startswith(ALERT_PATHS):
            count_refused(status)
        own_headers, body = self._describe(status)
        self.send(status, [*own_headers, *headers], body)

    def _describe(self, status: int) -> tuple[Headers, bytes]:
        """Return the answer in JSON, or for browsers as a page."""
        page = None
        # Only then is the environment needed, which contains the whole body.
        if any(name == "accept" and "text/html" in value for name, value in self._headers):
            try:
                environ = self._environ or self._build_environment()
                page = self._serving.build_refusal(environ, status, TEXTS[status])
            except Exception as error:  # the request must be answered
                log.error("the page of a refusal could not be built", error=type(error).__name__)
        return page or ([JSON], orjson.dumps({"detail": TEXTS[status]}))

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        proto = self._proto
        if self._is_large:
            self._serving.bodies.release(self._size)
        if self._future is not None:
            self._future.cancel()
        # A reference to the request keeps an unfinished connection open.
        del self._proto, self._scope
        self._future = self._environ = None
        self._chunks = []
        proto.response_bytes(status, headers, body)
        self._serving.active.discard(self.client)

    def _build_environment(self) -> WSGIEnvironment:
        scope, path = self._scope, self._path
        environ: WSGIEnvironment = {
            **_BASE,
            **self._serving.server,
            "REQUEST_METHOD": scope.method,
            "PATH_INFO": path if path.isascii() else path.encode().decode("latin-1"),
            "QUERY_STRING": scope.query_string,
            CLIENT_CHECK: self._start_client_check,
            ARRIVED_AT: self._arrived_at,
            "REMOTE_ADDR": self.client.rpartition(":")[0].strip("[]"),
            "wsgi.input": io.BytesIO(self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)),
        }
        for name, value in self._headers:
            # X_Forwarded_For would count as X-Forwarded-For, which proxies replace and clients cannot forge.
            if "_" in name:
                continue
            key = _name_key(name)
            if key in environ:
                value = f"{environ[key]}{';' if key == 'HTTP_COOKIE' else ','}{value}"
            environ[key] = value
        if "HTTP_HOST" not in environ:
            environ["HTTP_HOST"] = scope.authority or ""
        return environ


@dataclass(frozen=True, slots=True)
class _Question:
    """The job of a share that asks the application whether it wants the large body of a request."""

    request: Request

    def run(self) -> None:
        self.request.ask()

    def refuse(self) -> None:
        self.request.refuse_unreceived()


@lru_cache(maxsize=256)
def _name_key(name: str) -> str:
    """Return the name of a header in the environment (PEP 3333)."""
    key = name.upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


def _measure_body(headers: Headers) -> tuple[int | None, bool]:
    """Return the length of the body, and whether it has an unknown length. None: no body or unknown."""
    length, is_chunked = None, False
    for name, value in headers:
        if name == "content-length":
            length = int(value) or None
        elif name == "transfer-encoding":
            is_chunked = True
    return length, is_chunked
