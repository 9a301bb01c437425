"""How long a process, or one piece of its work, waits for the store.

Limits belong to a process. Commands on the host have none: migrations and reports may take as long as they
need, and a person can stop them. A deadline belongs to a piece of work of one thread.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in seconds. None: no limit.

    `lock_s`: a wait for a lock. `statement_s`: one statement, with its wait for locks; only on PostgreSQL.
    """

    lock_s: float | None = None
    statement_s: float | None = None


# A sender that waits longer for an answer has mostly given up.
WEB = Limits(lock_s=5.0, statement_s=10.0)
# One statement writes a batch of alerts, or deletes a batch of old rows. Nobody waits for it, and a statement
# that is ended too early would be repeated for ever.
WORKER = Limits(lock_s=30.0, statement_s=60.0)
# A deletion in the interface deletes all that belongs to the object, in one statement.
DELETION_S = 60.0


class _Work(threading.local):
    """What the current thread does: the monotonic time of its deadline, and its own limit of a statement."""

    until: float | None = None
    statement_s: float | None = None


_work = _Work()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Limit the time that the store may need for the block, see Store.deadline."""
    before = _work.until
    until = time.monotonic() + seconds
    _work.until = until if before is None else min(until, before)
    try:
        yield
    finally:
        _work.until = before


@contextmanager
def long_statements(seconds: float) -> Iterator[None]:
    """Let each statement of this thread take so long, whatever the limit of the process is."""
    before, _work.statement_s = _work.statement_s, seconds
    try:
        yield
    finally:
        _work.statement_s = before


def get_statement_s(limits: Limits) -> float | None:
    """Return the limit of the next statement of this thread, without its deadline."""
    return limits.statement_s if _work.statement_s is None else _work.statement_s


def get_remaining_s() -> float | None:
    """Return the seconds until the deadline of this thread, at least 0; None without a deadline."""
    return None if _work.until is None else max(_work.until - time.monotonic(), 0.0)
