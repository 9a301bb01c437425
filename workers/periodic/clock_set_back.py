"""Correct pending work that was written while the clock was ahead, after the clock was set back.

Otherwise messages and timers would wait until the clock shows that time again. Each row is judged by its own
time, so that it does not matter whether any process saw the clock ahead, or wrote the row after the step.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

import peewee
import structlog

from models.domain.channels import DELIVERY_CHANNELS
from models.domain.effects import Author, ChangeSet, IncidentState, SaveIncident
from models.domain.enums import AuthorKind
from models.domain.reasons import make_reason
from models.load.lane import lock_with_children
from models.store import bulk
from models.store.store import Busy, connection, store
from models.tables.accounts import Account
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Attempt, Message, Notification
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.write.apply import apply
from schedules.timers.retries import LAST_DELAY_S
from schedules.timers.set_back import STARTS, correct_times
from workers.delivery.outbox import CLAIM
from workers.periodic.future_entities import correct_entities
from workers.timers.reconcile import LOCK_TIMEOUT_S, PAGE_SIZE, Cause, reconcile

log = structlog.get_logger()

# Seconds from one search to the next, as between two signs of life.
EVERY_S = 5
# Times of several hosts differ by this much without any step of a clock.
SKEW = timedelta(seconds=1)
# Changes of incidents whose times are read in each search: more than are written from one search to the next.
RECENT_CHANGES = 1_000
# Messages that are corrected in one transaction.
MAX_MESSAGES = 1_000

CAUSE = Cause(Author(AuthorKind.TIMER, "clock"), "timers_moved_back", make_reason("clock_was_ahead"))
# Literals, so that SQLite uses the partial indexes.
_IS_OPEN = Incident.status <= peewee.SQL("2")
_IS_PENDING = Message.state == peewee.SQL("0")
_IS_PENDING_OUTBOUND = OutboundDelivery.state == peewee.SQL("0")


class FutureRows:
    """Looks for rows of the future. Remembers the time of the last search, and what was locked then."""

    def __init__(self) -> None:
        self._last: datetime | None = None
        self._set_back_by = timedelta()
        # Services whose entities are still to be corrected; None: all.
        self._locked: set[int] | None = None

    def correct(self, now: datetime | None = None) -> None:
        """Correct messages, deliveries of outbound integrations, entities, and incidents with their timers.

        If the clock was set back since the last search, or there was none, read all entities and all open
        incidents. Otherwise read those that were created in the future, and the last changes.
        """
        with connection():
            at = now or store().now()
            was_set_back = self._last is None or at < self._last
            if was_set_back:
                self._set_back_by = self._last - at if self._last is not None else timedelta()
                self._locked = None
            corrected = {
                "messages": _correct_messages(at),
                "outbound": _correct_outbound(at),
                "incidents": _correct_incidents(_find_incidents(at, was_set_back), at),
                "entities": self._correct_entities(at) if self._locked is None or self._locked else 0,
            }
        self._last = at
        if any(corrected.values()):
            log.warning("the clock was ahead: work that was written meanwhile is due earlier", **corrected)

    def _correct_entities(self, now: datetime) -> int:
        count, self._locked = correct_entities(now, SKEW, self._set_back_by, self._locked)
        return count


def _find_incidents(now: datetime, was_set_back: bool) -> list[int]:
    limit = now + SKEW
    starts = (getattr(Incident, name) for name in ("creation_date", *STARTS, "snoozed_at"))
    condition = reduce(or_, (column > limit for column in starts))
    rows = Incident.select(Incident.id).where(_IS_OPEN)
    if was_set_back:
        found = [rows.where(condition)]
    else:
        first = IncidentLog.select(peewee.fn.MAX(IncidentLog.id) - RECENT_CHANGES)
        changed = IncidentLog.select(IncidentLog.incident).where(
            IncidentLog.id > first, IncidentLog.at > limit
        )
        # By account, so that the index finds the date.
        created = rows.where(Incident.account.in_(Account.select(Account.id)), Incident.creation_date > limit)
        found = [created, rows.where(Incident.id.in_(changed), condition)]
    return sorted({row for query in found for (row,) in query.tuples()})


def _correct_incidents(rows: list[int], now: datetime) -> int:
    """Correct these incidents and their timers; return the number. Those that are locked come next time."""
    corrected = 0
    for start in range(0, len(rows), PAGE_SIZE):
        page = rows[start : start + PAGE_SIZE]
        try:
            with store().write_transaction():
                with store().lock_timeout(LOCK_TIMEOUT_S):
                    found = lock_with_children(page).incidents
                before = [found[row] for row in page if row in found]
                after = [correct_times(incident, now) for incident in before]
                _save_creation(after)
                known = {incident.unique_id: row for row, incident in found.items()}
                apply(ChangeSet(effects=[SaveIncident(incident) for incident in after]), known)
        except Busy:
            continue
        reconcile(after, CAUSE, now)
        corrected += len(after)
    return corrected


def _save_creation(incidents: Iterable[IncidentState]) -> None:
    """Write the columns that no decision changes."""
    names = ("creation_date", "context_window_start", "context_window_end")
    records = [{"id": each.row, **{name: getattr(each, name) for name in names}} for each in incidents]
    bulk.update(Incident, records)


def _correct_messages(now: datetime) -> int:
    """Let pending messages of the future count from now; return their number.

    A message that was created in the future keeps its delay. A retry of an attempt in the future is due now.
    """
    limit = now + SKEW
    last_attempt = Attempt.select().where(Attempt.message == Message.id, Attempt.at > limit)
    is_retry = (Message.next_attempt_at > now + timedelta(seconds=LAST_DELAY_S)) & peewee.fn.EXISTS(
        last_attempt
    )
    is_future = (Message.created_at > limit) | (Message.first_attempt_at > limit) | is_retry
    columns = (Message.id, Message.created_at, Message.next_attempt_at, Message.first_attempt_at)
    query = Message.select(*columns, Message.claimed_until).where(
        _IS_PENDING, Message.channel.in_(list(DELIVERY_CHANNELS)), is_future
    )
    if not query.exists():
        return 0
    with store().write_transaction():
        rows = list(store().for_update(query.order_by(Message.id).limit(MAX_MESSAGES), skip_locked=True))
        records = [_correct_message(row, now) for row in rows]
        bulk.update(Message, records)
        for record in records:
            Notification.update(not_before=record["next_attempt_at"]).where(
                Notification.message == record["id"], Notification.not_before > record["next_attempt_at"]
            ).execute()
    return len(records)


def _correct_message(row: Message, now: datetime) -> dict[str, object]:
    delay = max(row.next_attempt_at - row.created_at, timedelta()) if row.created_at > now else timedelta()
    return {
        "id": row.id,
        "created_at": min(row.created_at, now),
        "next_attempt_at": min(row.next_attempt_at, now + delay),
        "first_attempt_at": None if row.first_attempt_at is None else min(row.first_attempt_at, now),
        "claimed_until": None if row.claimed_until is None else min(row.claimed_until, now + CLAIM),
    }


def _correct_outbound(now: datetime) -> int:
    """Let deliveries to outbound integrations that count from the future be due now; return their number."""
    limit = now + SKEW
    deliveries = _IS_PENDING_OUTBOUND & (
        (OutboundDelivery.created_at > limit) | (OutboundDelivery.last_attempt_at > limit)
    )
    targets = OutboundTarget.served_at > limit
    if not (
        OutboundDelivery.select().where(deliveries).exists()
        or OutboundTarget.select().where(targets).exists()
    ):
        return 0
    with store().write_transaction():
        # In the order of the locks of a worker that sends: the target first.
        changes = {
            column.name: peewee.Case(None, [(column > now, now)], column)
            for column in (OutboundTarget.claimed_until, OutboundTarget.retry_at, OutboundTarget.served_at)
        }
        OutboundTarget.update(changes).where(targets).execute()
        created = peewee.Case(None, [(OutboundDelivery.created_at > now, now)], OutboundDelivery.created_at)
        update = OutboundDelivery.update(created_at=created, next_attempt_at=now)
        return int(update.where(deliveries).execute())


future_rows = FutureRows()
