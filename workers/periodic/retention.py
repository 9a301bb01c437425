"""Delete receipts and events that are older than the retention time."""

from datetime import datetime, timedelta

import peewee

from models.domain.enums import IncidentStatus, WorkState
from models.store.base import connection, store
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident

# How long alert traces are available (contract, section 6).
RETENTION = timedelta(days=30)
# Receipts deleted in one transaction, which locks the database for about a tenth of a second.
BATCH_SIZE = 1_000


def clean_up(now: datetime | None = None) -> int:
    """Delete receipts older than the retention time, with their events. Return the number of receipts.

    Keep alerts that are pending, dead letters, deferred by maintenance, or part of an open incident. Receipts
    are read in the order of acceptance, so the first one that is young enough ends the search.
    """
    deleted, last = 0, 0
    with connection():
        before = (now or store().now()) - RETENTION
        while old := _list_old_receipts(last, before):
            last = old[-1]
            deleted += _delete(old)
    return deleted


def _list_old_receipts(after: int, before: datetime) -> list[int]:
    query = Receipt.select(Receipt.id, Receipt.received_at).where(Receipt.id > after)
    found = query.order_by(Receipt.id).limit(BATCH_SIZE).tuples()
    return [row for row, received_at in found if received_at < before]


def _delete(receipts: list[int]) -> int:
    deferred_alert = Entity.select(Entity.deferred_alert).where(Entity.deferred_alert.is_null(False))
    excluded = (
        Event.select(Event.receipt)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .where(
            Event.receipt.in_(receipts),
            (Event.state != WorkState.DONE)
            | (Incident.status < IncidentStatus.RESOLVED)
            | Event.unique_id.in_(deferred_alert),
        )
    )
    with store().write_transaction():
        query = Receipt.delete().where(
            Receipt.id.in_(receipts), Receipt.state == WorkState.DONE, Receipt.id.not_in(excluded)
        )
        return int(query.execute())
