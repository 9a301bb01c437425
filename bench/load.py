"""The sender: hand-made HTTP/1.1 on raw sockets in one loop, so that sending costs little of the machine.

Closed loop (as fast as answers come) or open loop (at a rate, latency counted from the moment a request
was due, so that a slow answer is not hidden by the pause it forces on the sender).
"""

import json
import selectors
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter, time
from urllib.parse import urlsplit

from bench.traffic import Request

# A request without an answer for this long is taken as unknown and sent again.
PATIENCE_S = 30.0
# After so many tries without an answer there is nobody to measure.
MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that was answered 2xx. `at` is wall-clock time, to be compared with a mail's arrival."""

    trace_id: str
    entities: tuple[str, ...]
    at: float


@dataclass(slots=True)
class Sent:
    """What became of the requests. `unknown` counts those that got no answer and were sent again."""

    accepted: list[Accepted] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)
    unknown: int = 0
    began_at: float = 0.0
    seconds: float = 0.0


def trace_id_of(answer: bytes) -> str:
    """The name by which Tocsin knows what it accepted."""
    name: str = json.loads(answer)["trace_id"]
    return name


class NobodyAnswers(RuntimeError):
    """The instance took no connection, or answered none of several tries of one request."""


class Line:
    """One keep-alive connection with at most one request on its way."""

    __slots__ = ("due", "got", "request", "sock", "started", "tries", "unsent")

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address, timeout=5)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.request: Request | None = None
        self.due = self.started = 0.0
        self.tries = 0
        self.unsent = memoryview(b"")
        self.got = b""

    def write(self) -> None:
        """Send what the socket takes. Raises OSError when the other side is gone."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            return

    def read(self) -> tuple[int, bytes, bool] | None:
        """Status, body and whether the connection ends, once the answer is whole. OSError when cut off."""
        part = self.sock.recv(65536)
        if not part:
            raise ConnectionResetError
        self.got += part
        head, found, body = self.got.partition(b"\r\n\r\n")
        if not found:
            return None
        fields = head.lower()
        length = int(fields.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        self.got = b""
        return int(head[9:12]), body, b"\r\nconnection: close" in fields


class Loader:
    """Sends each request until it is answered, over so many connections."""

    def __init__(
        self,
        base_url: str,
        connections: int,
        *,
        rate: float | None = None,
        name_of: Callable[[bytes], str] = trace_id_of,
        progress: Callable[[int], None] = lambda answered: None,
    ) -> None:
        parts = urlsplit(base_url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._connections = connections
        self._rate = rate
        self._name_of = name_of
        self._progress = progress
        self._selector = selectors.DefaultSelector()
        self._idle: deque[Line] = deque()
        self._busy: set[Line] = set()
        self._sent = Sent()
        self._answered = 0

    def run(self, requests: Iterable[Request]) -> Sent:
        try:
            for _ in range(self._connections):
                self._idle.append(self._opened())
            self._sent.began_at = time()
            began = perf_counter()
            self._loop(iter(requests), began)
            self._sent.seconds = perf_counter() - began
            return self._sent
        finally:
            for line in [*self._idle, *self._busy]:
                line.sock.close()
            self._selector.close()

    def _loop(self, requests: Iterator[Request], began: float) -> None:
        number, request, looked = 0, next(requests, None), began
        while request is not None or self._busy:
            now = perf_counter()
            due = began + number / self._rate if self._rate else now
            while request is not None and self._idle and due <= now:
                self._start(self._idle.popleft(), request, due if self._rate else now)
                number, request = number + 1, next(requests, None)
                due = began + number / self._rate if self._rate else now
            pause = max(due - now, 0.0) if self._rate and request is not None and self._idle else 1.0
            for key, mask in self._selector.select(min(pause, 1.0)):
                self._attend(key.data, mask)
            if now - looked > 0.5:
                looked = now
                self._give_up_late(now)
                self._progress(self._answered)

    def _opened(self) -> Line:
        try:
            line = Line(self._address)
        except OSError as error:
            raise NobodyAnswers(f"nobody takes connections at {self._address}: {error}") from None
        self._selector.register(line.sock, selectors.EVENT_READ, line)
        return line

    def _start(self, line: Line, request: Request, due: float, tries: int = 1) -> None:
        line.request, line.due, line.started, line.tries = request, due, perf_counter(), tries
        line.unsent, line.got = memoryview(request.wire), b""
        self._busy.add(line)
        self._write(line)

    def _write(self, line: Line) -> None:
        try:
            line.write()
        except OSError:
            self._send_again(line)
            return
        if line.unsent:
            self._selector.modify(line.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, line)

    def _attend(self, line: Line, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._write(line)
            if not line.unsent and line in self._busy:
                self._selector.modify(line.sock, selectors.EVENT_READ, line)
        if mask & selectors.EVENT_READ and line.sock.fileno() >= 0:
            self._read(line)

    def _read(self, line: Line) -> None:
        try:
            answer = line.read()
        except BlockingIOError:
            return
        except OSError:
            self._send_again(line)
            return
        if answer is not None:
            self._answer(line, *answer)

    def _answer(self, line: Line, status: int, body: bytes, ends: bool) -> None:
        request = line.request
        assert request is not None
        self._answered += len(request.entities)
        self._busy.discard(line)
        if 200 <= status < 300:
            self._sent.latencies_ms.append((perf_counter() - line.due) * 1000)
            self._sent.accepted.append(Accepted(self._name_of(body), request.entities, time()))
        else:
            self._sent.refused[status] += len(request.entities)
        if ends:
            self._close(line)
            line = self._opened()
        self._idle.append(line)

    def _send_again(self, line: Line) -> None:
        """The connection is gone: what was on its way may or may not have been taken."""
        busy = line in self._busy
        self._busy.discard(line)
        if line in self._idle:
            self._idle.remove(line)
        self._close(line)
        fresh = self._opened()
        if not busy or line.request is None:
            self._idle.append(fresh)
            return
        self._sent.unknown += 1
        if line.tries >= MOST_TRIES:
            fresh.sock.close()
            raise NobodyAnswers(f"a request got no answer in {line.tries} tries")
        self._start(fresh, line.request, line.due, line.tries + 1)

    def _give_up_late(self, now: float) -> None:
        for line in [line for line in self._busy if now - line.started > PATIENCE_S]:
            self._send_again(line)

    def _close(self, line: Line) -> None:
        self._selector.unregister(line.sock)
        line.sock.close()
