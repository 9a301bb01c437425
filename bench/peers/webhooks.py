"""Receive Alertmanager's webhooks in a separate process, so that this takes no time from the sender."""

import asyncio
import multiprocessing
import signal
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import time
from types import TracebackType
from typing import Any

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
# The text before and after the name of an entity in the group of a webhook.
PREFIX, SUFFIX = b'"groupLabels":{"alertname":"DiskAlmostFull","disk":"', b'"'

Arrival = tuple[str, float]


class WebhookSink:
    """Listens on 127.0.0.1 within its context."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._count: Any = spawn.Value("L", 0)
        self._pipe, child_pipe = spawn.Pipe()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listening.getsockname()[1]
        self._process = spawn.Process(
            target=_serve, args=(self._listening, child_pipe, self._count), name="webhook sink", daemon=True
        )

    def __enter__(self) -> "WebhookSink":
        self._process.start()
        self._listening.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def count(self) -> int:
        return int(self._count.value)

    def arrivals(self) -> list[Arrival]:
        """Return entity and time of each webhook so far."""
        self._pipe.send("arrivals")
        found: list[Arrival] = self._pipe.recv()
        return found


class _Session(asyncio.Protocol):
    """A connection with consecutive requests that have a Content-Length."""

    def __init__(self, store: Callable[[bytes], None]) -> None:
        self._store = store
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
            if len(self._received) < end + 4 + length:
                return
            self._store(self._received[end + 4 : end + 4 + length])
            self._received = self._received[end + 4 + length :]
            self._transport.write(ANSWER)


def _serve(listening: socket.socket, pipe: "Connection[Any, Any]", count: Any) -> None:
    # The parent handles Ctrl-C, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stored: list[tuple[bytes, float]] = []

    def store(body: bytes) -> None:
        stored.append((body.partition(PREFIX)[2].partition(SUFFIX)[0], time()))
        count.value = len(stored)

    def answer() -> None:
        pipe.recv()
        pipe.send([(name.decode(), at) for name, at in stored])

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), answer)
        server = await loop.create_server(lambda: _Session(store), sock=listening)
        await server.serve_forever()

    asyncio.run(serve())
