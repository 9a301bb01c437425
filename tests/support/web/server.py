"""A server as in a web process, with an application for tests, and requests as raw bytes."""

import contextlib
import http.client
import socket
import threading

import pytest

from tocsin.server import granian_worker
from tocsin.server.listening import BACKLOG
from tocsin.server.shares import Shares
from web.server_interface import UnreceivedBody


class Server:
    """A server with an application that answers with the body; `seen` has the environments."""

    def __init__(self) -> None:
        self.seen: list[dict] = []
        self.may_end = threading.Event()
        self.port = 0
        self.app = None

    def __call__(self, environ, start):
        if self.app is not None:
            return self.app(environ, start)
        if not isinstance(environ["wsgi.input"], UnreceivedBody):
            self.seen.append(environ)
        if environ["PATH_INFO"] == "/fail":
            raise RuntimeError
        if environ["PATH_INFO"].endswith("/hang"):
            self.may_end.wait(20)
        body = environ["wsgi.input"].read()
        start("201 Created", [("Content-Type", "text/plain"), ("X-Length", str(len(body)))])
        return [body]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(client):
            client.request(method, path, body, headers)
            answer = client.getresponse()
            answer.text = answer.read()
            return answer

    def send(self, data: bytes, *, break_off: bool = False) -> tuple[int, bytes]:
        """Send bytes; return the status and all that the server sends until it closes."""
        with self.connect() as sock:
            sock.sendall(data)
            if break_off:
                sock.shutdown(socket.SHUT_WR)
            return read_answer(sock)


def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    text = b""
    with contextlib.suppress(ConnectionResetError):
        while data := sock.recv(65536):
            text += data
    return (int(text.split(b" ")[1]) if text else 0), text


@pytest.fixture
def run_server(monkeypatch):
    """run_server(threads): a running server."""
    with contextlib.ExitStack() as stack:

        def start(threads: int = 4, **more) -> Server:
            monkeypatch.setattr(granian_worker, "CHECK_EVERY_S", 0.05)
            server = Server()
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=BACKLOG))
            listening.setblocking(False)
            server.port = listening.getsockname()[1]
            stack.enter_context(
                granian_worker.run(
                    server, listening, backlog=BACKLOG, shares=Shares(threads, 30),
                    **{"connections": 4096, **more},
                )
            )  # fmt: skip
            stack.callback(server.may_end.set)
            return server

        yield start
