"""Forgets what is older than it has to be kept."""

from datetime import datetime, timedelta

import peewee

from models.base import connection, store
from models.enums import IncidentStatus, WorkState
from models.events import Entity, Event, Receipt
from models.incidents import Incident

# How long the road of an alert can be told (contract, section 6).
RETENTION = timedelta(days=30)
# Receipts forgotten in one transaction: about a tenth of a second of the store's lock.
FORGOTTEN_AT_ONCE = 1_000


def clean_up(now: datetime | None = None) -> int:
    """Forget receipts older than the retention, with their events; returns how many.

    What still waits, was set aside, is kept back by maintenance, or belongs to an open incident stays.
    Receipts are read in the order of their acceptance, so the first young one ends the search.
    """
    forgotten, last = 0, 0
    with connection():
        before = (now or store().now()) - RETENTION
        while old := _old_receipts(last, before):
            last = old[-1]
            forgotten += _forget(old)
    return forgotten


def _old_receipts(after: int, before: datetime) -> list[int]:
    query = Receipt.select(Receipt.id, Receipt.received_at).where(Receipt.id > after)
    found = query.order_by(Receipt.id).limit(FORGOTTEN_AT_ONCE).tuples()
    return [row for row, received_at in found if received_at < before]


def _forget(receipts: list[int]) -> int:
    kept_back = Entity.select(Entity.kept_back).where(Entity.kept_back.is_null(False))
    kept = (
        Event.select(Event.receipt)
        .join(Incident, peewee.JOIN.LEFT_OUTER)
        .where(
            Event.receipt.in_(receipts),
            (Event.state != WorkState.DONE)
            | (Incident.status < IncidentStatus.RESOLVED)
            | Event.unique_id.in_(kept_back),
        )
    )
    with store().writing():
        query = Receipt.delete().where(
            Receipt.id.in_(receipts), Receipt.state == WorkState.DONE, Receipt.id.not_in(kept)
        )
        return int(query.execute())
