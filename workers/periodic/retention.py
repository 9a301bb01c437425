"""Delete rows that are older than their retention time, in small transactions with rests between them.

workers/periodic/old_rows.py lists the kinds of rows. The job needs no low priority of the process: a process
that holds the lock of SQLite and gets no CPU would delay all alerts.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog

from models.store.base import connection, store
from runtime.settings import Settings
from workers.periodic import old_rows
from workers.periodic.old_rows import (
    ALERTS,
    AUDIT,
    DELETED_INTEGRATIONS,
    ENTITIES,
    GROUPS,
    INCIDENTS,
    NOTIFICATIONS,
    OUTBOUND,
    RATES,
    SESSIONS,
    SIGN_IN_LINKS,
    SIGN_IN_RATES,
    SIGN_IN_STEPS,
    SWAPS,
    TOKENS,
    Kind,
)

log = structlog.get_logger()

# A rest is this many times as long as the transaction before it, and at least this long. So the clean-up
# uses at most a tenth of the store's time. SQLite's lock is free during a rest.
REST_FACTOR = 9
MIN_REST_S = 0.05

# The values by which alerts are grouped are used for 20 minutes at most (contract 3.12).
GROUP_AGE = timedelta(days=1)
# No rate limit counts the requests of more than a day (web/account/message_limits.py).
RATE_AGE = timedelta(days=2)
# After a leak, people look for tokens that have ended since.
TOKEN_AGE = timedelta(days=90)
# Long enough to look a year back, and no longer, because entries name people and their addresses.
AUDIT_AGE = timedelta(days=400)

# After both shifts. People ask soon afterwards why a shift was swapped.
SWAP_AGE = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class RetentionTimes:
    """How long rows of each kind are kept. None: for ever."""

    alerts: timedelta
    notifications: timedelta | None
    incidents: timedelta | None

    @classmethod
    def from_settings(cls, settings: Settings) -> "RetentionTimes":
        """Read the settings. What refers to an incident is kept at most as long as the incident."""
        incidents = _to_duration(settings.keep_incidents)
        kept = [each for each in (_to_duration(settings.keep_notifications), incidents) if each]
        alerts = timedelta(days=settings.keep_alerts)
        return cls(min(alerts, incidents or alerts), min(kept, default=None), incidents)


def _to_duration(days: int) -> timedelta | None:
    return timedelta(days=days) if days else None


_stopping = threading.Event()
_times = RetentionTimes(timedelta(days=30), None, None)


def configure(settings: Settings) -> None:
    """Set the retention times; once, when a process starts."""
    global _times
    _times = RetentionTimes.from_settings(settings)


def stop() -> None:
    """Let a running clean-up end after its transaction."""
    _stopping.set()


class _Steps:
    """Runs transactions, with a rest before each one except the first."""

    def __init__(self, rest: Callable[[float], object]) -> None:
        self._rest = rest
        self._pause_s = 0.0

    def run(self, step: Callable[[], bool]) -> None:
        """Call `step` until it returns false or the process stops."""
        is_left = True
        while is_left:
            if self._pause_s:
                self._rest(self._pause_s)
            if _stopping.is_set():
                return
            started = time.monotonic()
            is_left = step()
            self._pause_s = max(REST_FACTOR * (time.monotonic() - started), MIN_REST_S)


def clean_up(
    now: datetime | None = None,
    times: RetentionTimes | None = None,
    rest: Callable[[float], object] = _stopping.wait,
) -> int:
    """Delete old rows. Return the number of alert bodies, messages, incidents, entities and copies.

    `rest` gets the seconds of each rest.
    """
    steps = _Steps(rest)
    with connection():
        counts = {
            kind.name: _clean_kind(kind, before, steps)
            for kind, before in _list_limits(now or store().now(), times or _times)
        }
        if any(counts.values()):
            log.info("old rows deleted", **counts)
        steps.run(store().give_back_space)
    return sum(counts.values())


def _list_limits(now: datetime, times: RetentionTimes) -> Iterator[tuple[Kind, datetime]]:
    """Yield each kind with the time before which its rows are old, in the order of deletion."""
    yield ALERTS, now - times.alerts
    if times.notifications is not None:
        yield NOTIFICATIONS, now - times.notifications
    yield OUTBOUND, now - times.alerts
    yield GROUPS, now - GROUP_AGE
    if times.incidents is not None:
        yield INCIDENTS, now - times.incidents
    yield ENTITIES, now - times.alerts
    yield DELETED_INTEGRATIONS, now - times.alerts
    yield RATES, now - RATE_AGE
    yield TOKENS, now - TOKEN_AGE
    for kind in (SESSIONS, SIGN_IN_LINKS, SIGN_IN_STEPS):
        yield kind, now
    yield SIGN_IN_RATES, now - RATE_AGE
    yield AUDIT, now - AUDIT_AGE
    yield SWAPS, now - SWAP_AGE


def _clean_kind(kind: Kind, before: datetime, steps: _Steps) -> int:
    deleted = 0

    def delete_some(batch: list[int]) -> bool:
        nonlocal deleted
        count, is_left = old_rows.delete(kind, batch, before)
        deleted += count
        return is_left

    for batch in old_rows.search(kind, before):
        steps.run(partial(delete_some, batch))
        if _stopping.is_set():
            break
    return deleted
