"""The attacks. Each repeats until it is stopped, in its own threads, and counts the answers by status."""

import resource
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Protocol
from urllib.parse import urlsplit

from bench.load import get_alert_id
from bench.siege import bodies
from bench.siege.tenants import Tenant
from models.domain.enums import WorkState
from models.store.store import connection
from models.tables.events import Receipt

# The longest time for an answer. The deadline of a large body is 40 s, but loopback needs no second.
TIMEOUT_S = 30.0
# How often held connections are read and opened again.
TURN_S = 0.1
POLL_S = 0.25
# Open files that this process keeps for other purposes.
RESERVED_FILES = 500


class Attack(Protocol):
    """`statuses` counts answers: a status, "closed" without an answer, or "none" after TIMEOUT_S.

    `accepted` has the trace_ids of accepted alerts.
    """

    name: str
    requests: int
    statuses: Counter[str]
    accepted: list[str]

    def run(self, stopping: threading.Event) -> None:
        """Attack until `stopping` is set."""
        ...


@dataclass(slots=True)
class Request:
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Requests:
    """Sends requests from several threads, each after the answer to the one before and a pause.

    `build` gets the number of a request. `finish` is for requests with alerts: it gets the trace_id of each
    accepted one, and may block until `stopping` is set. `accepted` has these IDs.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        build: Callable[[int], Request],
        *,
        threads: int,
        pause_s: float,
        finish: Callable[[str, threading.Event], None] | None = None,
    ) -> None:
        self.name = name
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self.accepted: list[str] = []
        self._address = urlsplit(base_url).netloc
        self._build = build
        self._threads = threads
        self._pause_s = pause_s
        self._finish = finish
        self._lock = threading.Lock()

    def run(self, stopping: threading.Event) -> None:
        threads = [
            threading.Thread(target=self._repeat, args=(stopping,), name=self.name, daemon=True)
            for _ in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with self._lock:
                self.requests += 1
                number = self.requests
            status, answer = self._send(self._build(number))
            with self._lock:
                self.statuses[status] += 1
            if self._finish is not None and status.startswith("2"):
                self.accepted.append(get_alert_id(answer))
                self._finish(self.accepted[-1], stopping)
            stopping.wait(self._pause_s)

    def _send(self, request: Request) -> tuple[str, bytes]:
        client = HTTPConnection(self._address, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json", **request.headers}
        try:
            # A server that refuses a body may close the connection before all of it is sent.
            with suppress(BrokenPipeError, ConnectionResetError):
                client.request("POST", request.path, request.body, headers)
            answer = client.getresponse()
            return str(answer.status), answer.read()
        except TimeoutError:
            return "none", b""
        except (OSError, HTTPException):
            return "closed", b""
        finally:
            client.close()


class HeldConnections:
    """Keeps a number of connections open, and opens those again that the server closes.

    `first_bytes` are sent at the beginning, the connections in turns; a connection never sends more.
    """

    def __init__(self, name: str, base_url: str, count: int, first_bytes: list[bytes], per_turn: int) -> None:
        self.name = name
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self.accepted: list[str] = []
        url = urlsplit(base_url)
        self._address = (url.hostname or "127.0.0.1", url.port or 80)
        self._count = count
        self._first_bytes = first_bytes
        self._per_turn = per_turn

    def run(self, stopping: threading.Event) -> None:
        with selectors.DefaultSelector() as selector:
            try:
                while not stopping.wait(TURN_S):
                    self._open_missing(selector)
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

    def _read(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        answer = b""
        with suppress(OSError):
            answer = sock.recv(65536)
        self.statuses[answer[9:12].decode() or "closed"] += 1
        self._close(selector, sock)

    def _close(self, selector: selectors.BaseSelector, sock: socket.socket) -> None:
        selector.unregister(sock)
        sock.close()


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the attacks are. The default is that of `make siege`."""

    group: int = 10_000
    idle_connections: int = 4_000
    unfinished: int = 64
    large_body: int = 8_000_000


COSTLY_ALERTS = "alerts of 480 KB, costly rules"
LARGE_BODIES = "8 MB bodies to unknown keys"
TRY = "rules/try"
SIMULATE = "simulate"


def build_attacks(tenant: Tenant, sizes: Sizes) -> list[Attack]:
    """Build all attacks of a tenant, and store its costly rules."""
    for rule in bodies.build_rules():
        tenant.post(tenant.generic.rules_path, rule)
    return [*_build_requests(tenant, sizes), *_build_connections(tenant, sizes)]


def _build_requests(tenant: Tenant, sizes: Sizes) -> list[Attack]:
    costly = [bodies.build_costly_alert(number) for number in range(2)]
    large = bodies.build_large_body(sizes.large_body)
    question = bodies.build_question()
    simulation = bodies.build_simulation(tenant.generic.unique_id)
    unknown = f"/api/integration/prometheus/{bodies.UNKNOWN_KEY}/"
    url, headers = tenant.base_url, tenant.headers
    return [
        Requests(
            COSTLY_ALERTS,
            url,
            lambda number: Request(tenant.generic.path, costly[number % 2]),
            threads=2,
            pause_s=0.5,
            finish=go_on,
        ),
        Requests(LARGE_BODIES, url, lambda _: Request(unknown, large), threads=8, pause_s=0.5),
        Requests(
            f"groups of {sizes.group:,} alerts",
            url,
            lambda number: Request(tenant.prometheus.path, bodies.build_group(number, sizes.group)),
            threads=1,
            pause_s=0.5,
            finish=block_until_processed,
        ),
        Requests(
            TRY,
            url,
            lambda _: Request("/api/tocsin/rules/try/", question, headers),
            threads=4,
            pause_s=0.2,
        ),
        Requests(
            SIMULATE,
            url,
            lambda _: Request("/api/tocsin/simulate/", simulation, headers),
            threads=4,
            pause_s=0.2,
        ),
    ]


def _build_connections(tenant: Tenant, sizes: Sizes) -> list[Attack]:
    head = f"POST {tenant.generic.path} HTTP/1.1\r\nHost: siege\r\n".encode()
    unfinished = [
        head + b"Content-Length: 100\r\n\r\n{",
        head + b"Content-Length: 500000\r\n\r\n" + b" " * 70_000,
    ]
    return [
        HeldConnections(
            f"{sizes.unfinished} unfinished bodies",
            tenant.base_url,
            sizes.unfinished,
            unfinished,
            per_turn=64,
        ),
        HeldConnections(
            f"{sizes.idle_connections:,} idle connections",
            tenant.base_url,
            sizes.idle_connections,
            [b""],
            per_turn=50,
        ),
    ]


def go_on(trace_id: str, stopping: threading.Event) -> None:
    """Send the next alert after the pause, also if this one is pending."""


def block_until_processed(trace_id: str, stopping: threading.Event) -> None:
    """Return when a receipt is processed, so that one large group is pending at a time."""
    while not stopping.wait(POLL_S):
        with connection():
            found = Receipt.select(Receipt.state).where(Receipt.trace_id == trace_id).scalar()
        if found != WorkState.PENDING:
            return


def permit_open_files(connections: int) -> int:
    """Raise the limit of open files of this process; return how many connections it permits, up to this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = connections + RESERVED_FILES
    limit = expected if hard == resource.RLIM_INFINITY else min(expected, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft - RESERVED_FILES)
