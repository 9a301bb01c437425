"""Send alerts with plain HTTP/1.1 on raw sockets in one loop, so that sending uses little CPU.

Closed loop: as fast as answers arrive. Open loop: at a rate, with the latency counted from the time at which
a request was due. So the latency includes the time by which slow answers delay later requests.
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

# After this time without an answer, the outcome of a request is unknown, and it is sent again.
TIMEOUT_S = 30.0
# After this number of attempts without an answer, the run fails.
MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that got 2xx. `at` is wall-clock time, comparable with the arrival of a mail.

    `alert_id` is the trace_id, or the unique_id of the alert if the answer shows the alert.
    """

    alert_id: str
    entities: tuple[str, ...]
    at: float


@dataclass(slots=True)
class Sent:
    """The outcomes of the requests. `unknown` counts those that got no answer and were sent again."""

    accepted: list[Accepted] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)
    unknown: int = 0
    started_at: float = 0.0
    seconds: float = 0.0


def get_alert_id(answer: bytes) -> str:
    """Return the trace_id in an answer of Tocsin, or the unique_id of the alert that it shows."""
    fields = json.loads(answer)
    return str(fields.get("trace_id") or fields["unique_id"])


class NoAnswer(RuntimeError):
    """The instance accepted no connection, or answered none of several attempts of one request."""


class Connection:
    """A keep-alive connection with at most one request in flight."""

    __slots__ = ("attempts", "due", "received", "request", "sock", "started", "unsent")

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address, timeout=5)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.request: Request | None = None
        self.due = self.started = 0.0
        self.attempts = 0
        self.unsent = memoryview(b"")
        self.received = b""

    def write(self) -> None:
        """Send as much as the socket accepts. Raise OSError if the peer has closed the connection."""
        try:
            while self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
        except BlockingIOError:
            return

    def read(self) -> tuple[int, bytes, bool] | None:
        """Return status, body and whether the connection ends; None if it is incomplete. Raise OSError
        if the connection breaks."""
        chunk = self.sock.recv(65536)
        if not chunk:
            raise ConnectionResetError
        self.received += chunk
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return None
        fields = head.lower()
        length = int(fields.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        self.received = b""
        return int(head[9:12]), body, b"\r\nconnection: close" in fields


class Loader:
    """Sends each request until it is answered, over a number of connections."""

    def __init__(
        self,
        base_url: str,
        connections: int,
        *,
        rate: float | None = None,
        get_alert_id: Callable[[bytes], str] = get_alert_id,
        progress: Callable[[int], None] = lambda answered: None,
    ) -> None:
        url = urlsplit(base_url)
        self._address = (url.hostname or "127.0.0.1", url.port or 80)
        self._connections = connections
        self._rate = rate
        self._get_alert_id = get_alert_id
        self._progress = progress
        self._selector = selectors.DefaultSelector()
        self._idle: deque[Connection] = deque()
        self._in_flight: set[Connection] = set()
        self.sent = Sent()
        self._answered = 0

    def run(self, requests: Iterable[Request]) -> Sent:
        try:
            for _ in range(self._connections):
                self._idle.append(self._open_connection())
            self.sent.started_at = time()
            started_time = perf_counter()
            self._loop(iter(requests), started_time)
            self.sent.seconds = perf_counter() - started_time
            return self.sent
        finally:
            for conn in [*self._idle, *self._in_flight]:
                conn.sock.close()
            self._selector.close()

    def _loop(self, requests: Iterator[Request], started_time: float) -> None:
        number, request, checked_time = 0, next(requests, None), started_time
        while request is not None or self._in_flight:
            now = perf_counter()
            due = started_time + number / self._rate if self._rate else now
            while request is not None and self._idle and due <= now:
                self._start(self._idle.popleft(), request, due if self._rate else now)
                number, request = number + 1, next(requests, None)
                due = started_time + number / self._rate if self._rate else now
            pause = max(due - now, 0.0) if self._rate and request is not None and self._idle else 1.0
            for key, mask in self._selector.select(min(pause, 1.0)):
                self._handle_events(key.data, mask)
            if now - checked_time > 0.5:
                checked_time = now
                self._retry_timed_out(now)
                self._progress(self._answered)

    def _open_connection(self) -> Connection:
        try:
            conn = Connection(self._address)
        except OSError as error:
            raise NoAnswer(f"no connection is accepted at {self._address}: {error}") from None
        self._selector.register(conn.sock, selectors.EVENT_READ, conn)
        return conn

    def _start(self, conn: Connection, request: Request, due: float, attempts: int = 1) -> None:
        conn.request, conn.due, conn.started, conn.attempts = request, due, perf_counter(), attempts
        conn.unsent, conn.received = memoryview(request.raw), b""
        self._in_flight.add(conn)
        self._write(conn)

    def _write(self, conn: Connection) -> None:
        try:
            conn.write()
        except OSError:
            self._send_again(conn)
            return
        if conn.unsent:
            self._selector.modify(conn.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, conn)

    def _handle_events(self, conn: Connection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._write(conn)
            if not conn.unsent and conn in self._in_flight:
                self._selector.modify(conn.sock, selectors.EVENT_READ, conn)
        if mask & selectors.EVENT_READ and conn.sock.fileno() >= 0:
            self._read(conn)

    def _read(self, conn: Connection) -> None:
        try:
            answer = conn.read()
        except BlockingIOError:
            return
        except OSError:
            self._send_again(conn)
            return
        if answer is not None:
            self._record_answer(conn, *answer)

    def _record_answer(self, conn: Connection, status: int, body: bytes, closes: bool) -> None:
        request = conn.request
        assert request is not None
        self._answered += len(request.entities)
        self._in_flight.discard(conn)
        if 200 <= status < 300:
            self.sent.latencies_ms.append((perf_counter() - conn.due) * 1000)
            self.sent.accepted.append(Accepted(self._get_alert_id(body), request.entities, time()))
        else:
            self.sent.refused[status] += len(request.entities)
        if closes:
            self._close(conn)
            conn = self._open_connection()
        self._idle.append(conn)

    def _send_again(self, conn: Connection) -> None:
        """Queue the request of a broken connection again. It may or may not have been accepted."""
        busy = conn in self._in_flight
        self._in_flight.discard(conn)
        if conn in self._idle:
            self._idle.remove(conn)
        self._close(conn)
        fresh = self._open_connection()
        if not busy or conn.request is None:
            self._idle.append(fresh)
            return
        self.sent.unknown += 1
        if conn.attempts >= MAX_ATTEMPTS:
            fresh.sock.close()
            raise NoAnswer(f"a request got no answer in {conn.attempts} attempts")
        self._start(fresh, conn.request, conn.due, conn.attempts + 1)

    def _retry_timed_out(self, now: float) -> None:
        for conn in [conn for conn in self._in_flight if now - conn.started > TIMEOUT_S]:
            self._send_again(conn)

    def _close(self, conn: Connection) -> None:
        self._selector.unregister(conn.sock)
        conn.sock.close()
