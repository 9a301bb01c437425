"""Delete rows that are older than their retention time, in small transactions with rests between them.

workers/periodic/old_rows.py lists the kinds of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from time import monotonic

import structlog

from models.store.store import connection, store
from runtime.settings import Settings
from workers import steps
from workers.periodic import old_rows
from workers.periodic.old_rows import (
    ALERTS,
    CHANGES,
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
    UNTRUSTED_PROXIES,
    Kind,
)
from workers.steps import Rest, Steps

log = structlog.get_logger()

# So that the next process in the queue for SQLite's lock gets it.
MIN_REST_S = 0.05

# A pass can take hours. It logs how far it is this often.
PROGRESS_EVERY_S = 60.0

# The values by which alerts are grouped are used for 20 minutes at most (contract 3.12).
GROUP_AGE = timedelta(days=1)
# No rate limit counts the requests of more than a day (web/account/message_limits.py).
RATE_AGE = timedelta(days=2)
# After a leak, people look for tokens that have ended since.
TOKEN_AGE = timedelta(days=90)
# How long a deletion can be undone: so long the deleted rows are kept, with keys and addresses.
REMOVED_AGE = timedelta(days=30)

# After both shifts. People ask soon afterwards why a shift was swapped.
SWAP_AGE = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class RetentionTimes:
    """How long rows of each kind are kept. None: for ever."""

    alerts: timedelta
    notifications: timedelta | None
    incidents: timedelta | None
    changes: timedelta = timedelta(days=400)

    @classmethod
    def from_settings(cls, settings: Settings) -> "RetentionTimes":
        """Read the settings. What refers to an incident is kept at most as long as the incident."""
        incidents = _to_duration(settings.keep_incidents)
        kept = [each for each in (_to_duration(settings.keep_notifications), incidents) if each]
        alerts = timedelta(days=settings.keep_alerts)
        changes = timedelta(days=settings.keep_changes)
        return cls(min(alerts, incidents or alerts), min(kept, default=None), incidents, changes)


def _to_duration(days: int) -> timedelta | None:
    return timedelta(days=days) if days else None


_times = RetentionTimes(timedelta(days=30), None, None)


def configure(settings: Settings) -> None:
    """Set the retention times; once, when a process starts."""
    global _times
    _times = RetentionTimes.from_settings(settings)


def clean_up(
    now: datetime | None = None,
    times: RetentionTimes | None = None,
    rest: Rest = steps.rest,
) -> int:
    """Delete old rows. Return the number of alert bodies, messages, incidents, entities and copies."""
    transactions = Steps(rest, min_rest_s=MIN_REST_S)
    with connection():
        moment = now or store().now()
        counts = {
            kind.name: _clean_kind(kind, before, transactions)
            for kind, before in list_limits(moment, times or _times)
        }
        for kind in old_rows.list_surplus_changes():
            counts[kind.name] = counts.get(kind.name, 0) + _clean_kind(kind, moment, transactions)
        transactions.run(partial(old_rows.forget_removed_rows, moment - REMOVED_AGE))
        if any(counts.values()):
            log.info("old rows deleted", **counts)
        transactions.run(store().give_back_space)
    return sum(counts.values())


def list_limits(now: datetime, times: RetentionTimes) -> Iterator[tuple[Kind, datetime]]:
    """Yield each kind with the time before which its rows are old, in the order of deletion.

    Alerts, notifications and groups refer to incidents, incidents to entities, and alerts to deleted
    integrations.
    """
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
    yield UNTRUSTED_PROXIES, now - RATE_AGE
    yield CHANGES, now - times.changes
    yield SWAPS, now - SWAP_AGE


def _clean_kind(kind: Kind, before: datetime, transactions: Steps) -> int:
    deleted = 0
    report_at = monotonic() + PROGRESS_EVERY_S

    def delete_some(batch: list[int]) -> bool:
        nonlocal deleted
        count, is_left = old_rows.delete(kind, batch, before)
        deleted += count
        return is_left

    for batch in old_rows.search(kind, before):
        transactions.run(partial(delete_some, batch))
        if monotonic() >= report_at:
            log.info("deleting old rows", kind=kind.name, deleted=deleted, before=before.isoformat())
            report_at = monotonic() + PROGRESS_EVERY_S
        if steps.is_stopping():
            break
    return deleted
