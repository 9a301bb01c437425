"""Divide receipts with many alerts into pieces, each in its own transaction (decision 0029).

The body is read and parsed before the transaction, once per process. The alerts are kept until the last piece
is done. How many alerts are done is in the database, so another process continues at the same place.

The kept bodies have a limit of memory. Bodies beyond it are kept by the thread that has parsed them, until it
parses another one (decision 0044).
"""

import pickle
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from time import monotonic

from models.load.source_setups import load_source_facts
from models.store.store import STORE_ERRORS, store
from models.tables.events import Receipt
from pipeline.alert import ParsedAlert
from pipeline.stages.normalize import build_body, parse_body
from workers.alerts.batches import BatchSize

# The CPU time of a piece on SQLite. The rest of 40 ms is for the commit, and for alerts that take longer than
# those before them.
TARGET_S = 0.025
# The first piece on SQLite: small, since the time of its alerts is not known yet.
FIRST_SIZE = 20
# The smallest piece on SQLite.
MIN_SIZE = 5
# The memory of the bodies that a process keeps: about ten with 10,000 alerts each.
MAX_BYTES = 64 * 1024 * 1024
# A kept body that no piece was taken from for this time is forgotten: another process may have finished it.
UNUSED_S = 60.0


class NotParsed(Exception):
    """The body of a receipt in pieces must be parsed first, outside a transaction."""

    def __init__(self, receipt: int, lane: Hashable) -> None:
        super().__init__(f"receipt {receipt} is not parsed")
        self.receipt = receipt
        self.lane = lane


def _build_size() -> BatchSize:
    if store().has_single_writer:
        return BatchSize(TARGET_S, FIRST_SIZE, MIN_SIZE)
    # A piece locks only its lane, so that fewer and larger pieces harm nobody.
    return BatchSize()


@dataclass(slots=True)
class ParsedBody:
    """The alerts of a receipt in pieces, and the size of its pieces.

    Each alert is kept as bytes. Measured with 10,000 alerts, that needs a third of the memory, and the
    garbage collector does not visit them: that took 50 ms, also during a transaction. `error` says why the
    body cannot be parsed; None: it was parsed. `memory` is that of the alerts, in bytes.
    """

    lane: Hashable
    alerts: Sequence[bytes] = ()
    error: Exception | None = None
    size: BatchSize = field(default_factory=_build_size)
    used_at: float = field(default_factory=monotonic)
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """The alerts of a receipt from position `start` up to, not including, `stop`.

    `events_written` is the number of events that the alerts before `start` became in the lane of a router.
    """

    body: ParsedBody
    start: int
    stop: int
    events_written: int = 0

    @property
    def is_last(self) -> bool:
        return self.stop >= len(self.body.alerts)

    @property
    def alerts(self) -> Sequence[ParsedAlert]:
        """Return the alerts of the piece. Raises the error of the body if it cannot be parsed."""
        if self.body.error is not None:
            raise self.body.error
        # Only parse() writes these bytes.
        return [pickle.loads(alert) for alert in self.body.alerts[self.start : self.stop]]  # noqa: S301


_lock = threading.Lock()
# By row number of the receipt.
_bodies: dict[int, ParsedBody] = {}
# The body that a thread keeps, with its receipt, by the ID of the thread.
_bodies_of_threads: dict[int, tuple[int, ParsedBody]] = {}


def _find(receipt: int) -> ParsedBody | None:
    """Return the kept body of a receipt. Needs the lock."""
    of_thread, body = _bodies_of_threads.get(get_ident(), (None, None))
    return body if of_thread == receipt else _bodies.get(receipt)


def get_piece(receipt: int, lane: Hashable, start: int, events_written: int, limit: int) -> Piece:
    """Return the piece of a receipt that begins at `start`, with at most `limit` alerts. Raises NotParsed."""
    with _lock:
        body = _find(receipt)
        if body is None:
            raise NotParsed(receipt, lane)
        body.used_at = monotonic()
    stop = min(start + min(limit, body.size.get_limit()), len(body.alerts))
    return Piece(body, start, stop, events_written)


def parse(missing: NotParsed) -> None:
    """Read and parse the body of a receipt and keep its alerts. Needs a connection, but no transaction."""
    query = Receipt.select(Receipt.source, Receipt.integration, Receipt.body, Receipt.headers)
    found = query.where(Receipt.id == missing.receipt).tuples().first()
    if found is None:
        return
    source, integration, raw, headers = found
    body = ParsedBody(missing.lane)
    request = build_body(source, bytes(raw), headers, lambda: load_source_facts(integration))
    try:
        body.alerts = [pickle.dumps(alert) for alert in parse_body(source, request)]
    except STORE_ERRORS:
        raise
    except Exception as error:
        body.error = error
    body.memory = measure(body.alerts)
    _keep(missing.receipt, body)


def measure(alerts: Sequence[bytes]) -> int:
    """Return the memory of these alerts, in bytes."""
    return sum(map(sys.getsizeof, alerts))


def _keep(receipt: int, body: ParsedBody) -> None:
    with _lock:
        _forget(lambda kept: kept.used_at < body.used_at - UNUSED_S)
        if not _bodies or body.memory + sum(kept.memory for kept in _bodies.values()) <= MAX_BYTES:
            _bodies[receipt] = body
        else:
            _bodies_of_threads[get_ident()] = receipt, body


def _forget(is_done: Callable[[ParsedBody], bool]) -> None:
    """Forget the bodies for which the function returns True. Needs the lock."""
    for receipt in [receipt for receipt, body in _bodies.items() if is_done(body)]:
        del _bodies[receipt]
    for thread in [thread for thread, (_, body) in _bodies_of_threads.items() if is_done(body)]:
        del _bodies_of_threads[thread]


def adjust_size(receipt: int, count: int, seconds: float) -> None:
    """Adapt the size of the next piece of a receipt to the CPU time of this one with `count` alerts."""
    with _lock:
        body = _find(receipt)
    if body is not None:
        body.size.adjust(count, seconds)


def is_in_pieces(lane: Hashable) -> bool:
    """Return whether this process keeps the alerts of a receipt of the lane."""
    with _lock:
        kept = (*_bodies.values(), *(body for _, body in _bodies_of_threads.values()))
        return any(body.lane == lane for body in kept)


def drop(lane: Hashable) -> None:
    """Forget the alerts of the lane's receipts: their last piece is done."""
    with _lock:
        _forget(lambda body: body.lane == lane)


def clear() -> None:
    """Forget all bodies, for a process that connects to another database."""
    with _lock:
        _forget(lambda _: True)
