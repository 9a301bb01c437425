"""How long a process, or one piece of its work, waits for the store.

Limits belong to a process. Commands on the host have none: migrations and reports may take as long as they
need, and a person can stop them. A deadline belongs to a piece of work of one thread.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum


class Use(Enum):
    """What a connection is for. Work of one use cannot take the connections of the others."""

    # Commits of alerts, health checks and the sign of life: a few threads.
    RESERVED = "reserved"
    # Look-ups of keys that are not known yet.
    KEYS = "keys"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds. None: no limit.

    `lock_s`: a wait for a lock. `statement_s`: one statement, with its wait for locks; only on PostgreSQL.
    `connections`: how many each use may have of the connections to PostgreSQL; empty: all.
    """

    lock_s: float | None = None
    statement_s: float | None = None
    connections: Mapping[Use, int] = field(default_factory=dict)


# The maximum number of connections of one process to PostgreSQL. The default limit of a server is 100.
MAX_CONNECTIONS = 40
# A sender that waits longer for an answer has mostly given up.
WEB = Limits(
    lock_s=5.0, statement_s=10.0, connections={Use.RESERVED: 4, Use.KEYS: 6, Use.OTHER: MAX_CONNECTIONS - 10}
)
# One statement writes a batch of alerts, or deletes a batch of old rows. Nobody waits for it, and a statement
# that is ended too early would be repeated for ever. A wait for the lock of a row is part of its statement.
WORKER = Limits(statement_s=60.0)
# A deletion in the interface deletes all that belongs to the object, in one statement.
DELETION_S = 60.0


class _Work(threading.local):
    """What the current thread does: the monotonic time of its deadline, its own limit of a statement, and
    the use of the connections that it opens."""

    until: float | None = None
    statement_s: float | None = None
    use: Use = Use.OTHER


_work = _Work()


@contextmanager
def _set(name: str, value: object) -> Iterator[None]:
    """Set an attribute of the thread's work in the block."""
    before = getattr(_work, name)
    setattr(_work, name, value)
    try:
        yield
    finally:
        setattr(_work, name, before)


def deadline(seconds: float) -> AbstractContextManager[None]:
    """Limit the time that the store may need for the block, see Store.deadline."""
    until = time.monotonic() + seconds
    return _set("until", until if _work.until is None else min(until, _work.until))


def long_statements(seconds: float) -> AbstractContextManager[None]:
    """Let each statement of this thread take so long, whatever the limit of the process is."""
    return _set("statement_s", seconds)


def use_connections(use: Use) -> AbstractContextManager[None]:
    """Open the connections of the block for this use."""
    return _set("use", use)


def get_use() -> Use:
    return _work.use


def get_statement_s(limits: Limits) -> float | None:
    """Return the limit of the next statement of this thread, without its deadline."""
    return limits.statement_s if _work.statement_s is None else _work.statement_s


def get_remaining_s() -> float | None:
    """Return the seconds until the deadline of this thread, at least 0; None without a deadline."""
    return None if _work.until is None else max(_work.until - time.monotonic(), 0.0)
