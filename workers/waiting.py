"""What waits in a service's lane: receipts before the first stage, events behind a cut of the road."""

from dataclasses import dataclass
from datetime import datetime

import peewee

from models.base import store
from models.enums import AlertType, WorkState
from models.events import Event, Receipt
from pipeline.alert import Alert, Parsed
from pipeline.road import Traveller


@dataclass(frozen=True, slots=True)
class Waiting:
    """A receipt that waits to be read (`body`), or an event that waits at a seam (`traveller`)."""

    trace_id: str
    receipt: int
    integration: int
    accepted_at: datetime
    source: str = ""
    body: bytes = b""
    event: int | None = None
    traveller: Traveller | None = None


def waiting_lanes(first: str) -> list[tuple[int, str]]:
    """Services with something waiting, each with the segment's first stage that waits for it."""
    receipts = Receipt.select(Receipt.service).where(Receipt.state == WorkState.WAITING).distinct()
    events = Event.select(Event.service, Event.stage).where(Event.state == WorkState.WAITING).distinct()
    lanes = [(row, first) for (row,) in receipts.tuples()] + list(events.tuples())
    return [(row, stage) for row, stage in lanes if row is not None]


def abandon_orphans() -> None:
    """Set aside what waited for a service or an integration that was deleted meanwhile.

    Nobody says any more whom it should reach, or what it means.
    """
    for table in (Receipt, Event):
        for owner, lost in (("service", table.service), ("integration", table.integration)):
            orphans = (table.state == WorkState.WAITING) & lost.is_null()
            if table.select().where(orphans).exists():
                with store().writing():
                    gone = table.update(state=WorkState.ASIDE, error=f"its {owner} was deleted")
                    gone.where(orphans).execute()


def waiting_receipts(service_row: int, limit: int) -> list[Waiting]:
    """The first receipts of a lane, in the order of their acceptance, with about `limit` alerts in all."""
    query = (
        Receipt.select(
            Receipt.trace_id,
            Receipt.id,
            Receipt.integration,
            Receipt.received_at,
            Receipt.source,
            Receipt.body,
            Receipt.alerts,
        )
        .where(
            Receipt.service == service_row,
            Receipt.state == WorkState.WAITING,
            Receipt.integration.is_null(False),
        )
        .order_by(Receipt.id)
        .limit(limit)
    )
    found: list[Waiting] = []
    total = 0
    for trace_id, receipt, integration, received_at, source, body, alerts in query.tuples():
        total += alerts
        if found and total > limit:
            break
        found.append(Waiting(trace_id, receipt, integration, received_at, source, bytes(body)))
    return found


def waiting_events(service_row: int, stage: str, limit: int) -> list[Waiting]:
    """The first events of a lane that wait at a stage: only the ready prefix, so that nobody overtakes.

    An event is not ready while an earlier one of its service still waits at an earlier stage.
    """
    query = (
        Event.select(Event, Receipt.trace_id.alias("trace_id"))
        .join(Receipt)
        .where(
            Event.service == service_row, Event.state == WorkState.WAITING, Event.integration.is_null(False)
        )
        .order_by(Event.receipt, Event.position)
        .limit(limit)
    )
    first_unread = (
        Receipt.select(peewee.fn.MIN(Receipt.id))
        .where(Receipt.service == service_row, Receipt.state == WorkState.WAITING)
        .scalar()
    )
    ready: list[Waiting] = []
    for row in store().for_update(query).objects():
        if row.stage != stage or (first_unread is not None and row.receipt_id > first_unread):
            break
        ready.append(_waiting_event(row))
    return ready


def _waiting_event(row: Event) -> Waiting:
    alert = Alert(
        event_id=row.unique_id,
        trace_id=row.trace_id,
        receipt=row.receipt_id,
        position=row.position,
        integration=row.integration_id,
        accepted_at=row.creation_date,
        entity_id=row.entity_id,
        parsed=_parsed(row),
    )
    reasons = tuple((stage, reason) for stage, reason in row.reasons)
    return Waiting(
        row.trace_id,
        row.receipt_id,
        row.integration_id,
        row.creation_date,
        event=row.id,
        traveller=Traveller(alert, reasons),
    )


def _parsed(row: Event) -> Parsed:
    rest = row.alert
    return Parsed(
        message=row.message,
        summary=row.summary,
        alert_type=AlertType(row.alert_type),
        entity_id=row.entity_id if rest["entity_given"] else None,
        payload=rest["payload"],
        urls=tuple(rest["urls"]),
        images=tuple(rest["images"]),
        notes=tuple(rest["notes"]),
        suppressed=row.suppressed,
        source_at=row.source_at,
        wishes=rest["wishes"],
    )
