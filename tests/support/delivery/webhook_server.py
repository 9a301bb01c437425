"""Servers on loopback that receive requests: one that records and answers, and ones that misbehave."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Received:
    """A request. The names of `headers` are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"


@dataclass
class WebhookServer:
    """`responses` are given in turn, the last one again and again. `before_answer` is called before each."""

    url: str = ""
    port: int = 0
    received: list[Received] = field(default_factory=list)
    responses: list[Answer] = field(default_factory=lambda: [Answer()])

    before_answer: Callable[[], None] | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, status: int, body: object = None, **headers: str) -> None:
        """Give this answer from now on, with JSON. `retry_after=` becomes the header Retry-After."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.responses = [Answer(status, names, json.dumps({} if body is None else body).encode())]

    def wait_for(self, count: int, timeout_s: float = 30.0) -> list[Received]:
        """Wait until the server has received this many requests, and return them."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.received) >= count, timeout_s)
        return self.received

    def take_answer(self) -> Answer:
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]


@contextlib.contextmanager
def start_webhook_server(context: ssl.SSLContext | None = None) -> Iterator[WebhookServer]:
    server = WebhookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with server.changed:
                server.received.append(Received(self.command, self.path, headers, body))
                answer = server.take_answer()
                server.changed.notify_all()
            if server.before_answer is not None:
                server.before_answer()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            with contextlib.suppress(OSError):
                self.end_headers()
                self.wfile.write(answer.body)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    server.port = httpd.server_address[1]
    server.url = f"{'https' if context else 'http'}://{'localhost' if context else '127.0.0.1'}:{server.port}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(5)


def read_request(taken: socket.socket) -> None:
    """Read until the end of the headers."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = taken.recv(4096)
        if not piece:
            return
        found += piece


def answer_with(text: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """Return a handler that answers with these bytes and closes the connection."""

    def handle(taken: socket.socket, stop_event: threading.Event) -> None:
        read_request(taken)
        taken.sendall(text)

    return handle


def drip_headers(taken: socket.socket, stop_event: threading.Event) -> None:
    """Begin to answer, and then send one byte now and then."""
    read_request(taken)
    taken.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(1000):
        taken.sendall(b"x")
        if stop_event.wait(0.02):
            return
