"""Find services whose alerts or timers wait for a lock of a process that hangs, or whose host is lost."""

import time
from datetime import datetime, timedelta

from models.store.store import store
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.timers import Timer

# A batch of a lane holds its lock for a fraction of a second.
LOCKED_FOR_S = 5.0
# The time between two looks. What holds the same lock at both is no batch.
BETWEEN_LOOKS_S = 0.5
# Services that are looked at and named.
MAX_SERVICES = 1_000
MAX_NAMED = 20


def list_locked_services(now: datetime) -> list[str]:
    """Return the unique_ids of services with pending alerts or due timers whose lock somebody keeps.

    At most MAX_NAMED. If no transaction has been open for LOCKED_FOR_S, this is one short query. Needs a
    connection without a transaction.
    """
    if not store().has_long_writer(LOCKED_FOR_S):
        return []
    waiting = _list_locked(now)
    locked = store().list_locked(Service, waiting) if waiting else set()
    if not locked:
        return []
    time.sleep(BETWEEN_LOOKS_S)
    kept = [row for row, _ in locked & store().list_locked(Service, waiting)]
    query = Service.select(Service.unique_id).where(Service.id.in_(kept)).order_by(Service.id)
    return [unique_id for (unique_id,) in query.limit(MAX_NAMED).tuples()]


def _list_locked(now: datetime) -> list[int]:
    since = now - timedelta(seconds=LOCKED_FOR_S)
    queries = (
        Receipt.select(Receipt.service).where(Receipt.state == 0, Receipt.service.is_null(False)),
        Event.select(Event.service).where(Event.state == 0),
        Timer.select(Incident.service)
        .join(Incident)
        .where(Timer.done_at.is_null(), Timer.due_at <= since, Incident.service.is_null(False)),
    )
    found = {row for query in queries for (row,) in query.distinct().limit(MAX_SERVICES).tuples()}
    return sorted(found)[:MAX_SERVICES]
