"""Find services whose alerts, timers or messages wait for a lock of a process that hangs or was lost."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from models.domain.enums import MessageStatus
from models.store.fields import Table
from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.services import Service
from models.tables.timers import Timer

# A batch of a lane holds its lock for a fraction of a second.
LOCKED_FOR_S = 5.0
# The time between two looks. What holds the same lock at both is no batch.
BETWEEN_LOOKS_S = 0.5
# Services and messages that are looked at, and services that are named.
MAX_SERVICES = 1_000
MAX_MESSAGES = 1_000
MAX_NAMED = 20


def list_locked_services(now: datetime) -> list[str]:
    """Return the unique_ids of services that cannot go on because somebody keeps a lock.

    They have pending alerts or due timers, and their own lock is kept, or it is that of a due message about
    one of their incidents. At most MAX_NAMED. If no transaction has been open for LOCKED_FOR_S, this is one
    short query. Needs a connection without a transaction.
    """
    if not store().has_long_writer(LOCKED_FOR_S):
        return []
    since = now - timedelta(seconds=LOCKED_FOR_S)
    looked_at = {Service: _list_services_with_work(since), Message: _list_due_messages(since)}
    locked = _look(looked_at)
    if not any(locked.values()):
        return []
    time.sleep(BETWEEN_LOOKS_S)
    kept = {table: [row for row, _ in locked[table] & again] for table, again in _look(looked_at).items()}
    about = Notification.select(Incident.service).join(Incident)
    of_messages = about.where(Notification.message.in_(kept[Message]), Incident.service.is_null(False))
    is_named = Service.id.in_(kept[Service]) | Service.id.in_(of_messages)
    query = Service.select(Service.unique_id).where(is_named).order_by(Service.id)
    return [unique_id for (unique_id,) in query.limit(MAX_NAMED).tuples()]


def _look(looked_at: Mapping[type[Table], list[int]]) -> dict[type[Table], set[tuple[int, str]]]:
    """Return which of these rows are locked now, with the transaction that did it."""
    return {table: store().list_locked(table, rows) if rows else set() for table, rows in looked_at.items()}


def _list_due_messages(since: datetime) -> list[int]:
    """Return messages that were due at this time, and that no worker has claimed since."""
    query = Message.select(Message.id).where(
        Message.state == int(MessageStatus.PENDING),
        Message.next_attempt_at <= since,
        Message.claimed_until.is_null() | (Message.claimed_until <= since),
    )
    return [row for (row,) in query.order_by(Message.id).limit(MAX_MESSAGES).tuples()]


def _list_services_with_work(since: datetime) -> list[int]:
    queries = (
        Receipt.select(Receipt.service).where(Receipt.state == 0, Receipt.service.is_null(False)),
        Event.select(Event.service).where(Event.state == 0),
        Timer.select(Incident.service)
        .join(Incident)
        .where(Timer.done_at.is_null(), Timer.due_at <= since, Incident.service.is_null(False)),
    )
    found = {row for query in queries for (row,) in query.distinct().limit(MAX_SERVICES).tuples()}
    return sorted(found)[:MAX_SERVICES]
