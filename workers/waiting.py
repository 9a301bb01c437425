"""What waits in a service's lane: receipts before the first stage, events behind a cut of the road."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import peewee

from models.enums import AlertType, WorkState
from models.events import Event, Receipt
from models.prepared import Prepared, among, given
from pipeline.alert import Alert, Parsed
from pipeline.road import Traveller, plan_of
from pipeline.routing import Incoming
from pipeline.topology import Segment


@dataclass(frozen=True, slots=True)
class Waiting:
    """A receipt that waits to be read (`body`), or an event that waits at a seam (`traveller`)."""

    trace_id: str
    receipt: int
    integration: int
    accepted_at: datetime
    source: str = ""
    body: bytes = b""
    position: int = 0
    event: int | None = None
    traveller: Traveller | None = None

    @property
    def is_released(self) -> bool:
        """Whether maintenance kept it back before."""
        return self.traveller is not None and self.traveller.alert.released_at is not None


def waiting_lanes(first: str) -> list[tuple[int, str]]:
    """Services with something waiting, each with the stage that it waits for."""
    receipts = Receipt.select(Receipt.service).where(Receipt.state == WorkState.WAITING).distinct()
    events = Event.select(Event.service, Event.stage).where(Event.state == WorkState.WAITING).distinct()
    lanes = [(row, first) for (row,) in receipts.tuples()] + list(events.tuples())
    return [(row, stage) for row, stage in lanes if row is not None]


def waiting_routers() -> list[int]:
    """Routers with something waiting."""
    query = Receipt.select(Receipt.router).where(
        Receipt.state == WorkState.WAITING, Receipt.router.is_null(False)
    )
    return [row for (row,) in query.distinct().tuples()]


# Of bodies, in one batch: what they become takes many times as much memory.
MOST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Lane:
    """How the receipts of one kind of lane are found: which wait first, and then whole those that are taken.

    The bodies are read last: what waits may be many megabytes, of which no more than MOST_BYTES are taken.
    """

    heads: Prepared
    bodies: Prepared

    def first(self, lane: int, limit: int) -> list[tuple[Any, ...]]:
        """The first waiting receipts, as long as their alerts are about `limit` in all."""
        taken: list[int] = []
        total, size = 0, 0
        for receipt, alerts, length in self.heads.rows(lane=lane, limit=limit):
            total, size = total + alerts, size + length
            if taken and (total > limit or size > MOST_BYTES):
                break
            taken.append(receipt)
        return self.bodies.rows(lane=lane, receipts=taken) if taken else []


def _lane(mine: Callable[[], Any]) -> _Lane:
    def waiting(*columns: Any) -> Any:
        return Receipt.select(*columns).where(mine(), Receipt.state == WorkState.WAITING).order_by(Receipt.id)

    return _Lane(
        Prepared(
            lambda: waiting(Receipt.id, Receipt.alerts, peewee.fn.LENGTH(Receipt.body)).limit(given("limit"))
        ),
        Prepared(
            lambda: waiting(
                Receipt.trace_id,
                Receipt.id,
                Receipt.integration,
                Receipt.received_at,
                Receipt.replayed_at,
                Receipt.source,
                Receipt.body,
            ).where(among(Receipt.id, "receipts"))
        ),
    )


_OF_SERVICE = _lane(lambda: (Receipt.service == given("lane")) & Receipt.integration.is_null(False))
_OF_ROUTER = _lane(lambda: Receipt.router == given("lane"))


def waiting_receipts(service_row: int, limit: int) -> list[Waiting]:
    """The first receipts of a service's lane, in the order of their acceptance, with about `limit` alerts
    in all."""
    return [
        Waiting(trace_id, receipt, integration, replayed_at or received_at, source, bytes(body))
        for trace_id, receipt, integration, received_at, replayed_at, source, body in _OF_SERVICE.first(
            service_row, limit
        )
    ]


def waiting_to_route(router_row: int, limit: int) -> list[Incoming]:
    """The first receipts of a router's lane, in the order of their acceptance."""
    return [
        Incoming(trace_id, receipt, source, bytes(body), replayed_at or received_at)
        for trace_id, receipt, _, received_at, replayed_at, source, body in _OF_ROUTER.first(
            router_row, limit
        )
    ]


_EVENTS_WAIT = Prepared(
    lambda: (
        Event.select(Event.id)
        .where(Event.service == given("service"), Event.state == WorkState.WAITING)
        .limit(1)
    )
)


def waiting_events(service_row: int, segment: Segment, road: Sequence[Segment], limit: int) -> list[Waiting]:
    """The first events of a lane that wait for a segment: only the ready prefix, so that nobody overtakes.

    An event is not ready while an earlier one of its service still waits for an earlier segment. What waits
    for a later one is in nobody's way.
    """
    if _EVENTS_WAIT.first(service=service_row) is None:
        return []
    before = [stage for each in road[: road.index(segment)] for stage in each.covers]
    query = (
        Event.select(Event, Receipt.trace_id.alias("trace_id"))
        .join(Receipt)
        .where(
            Event.service == service_row,
            Event.state == WorkState.WAITING,
            Event.integration.is_null(False),
            Event.stage.in_([*before, *segment.covers]),
        )
        .order_by(Event.receipt, Event.position, Event.id)
        .limit(limit)
    )
    first_unread = _first_unread(service_row) if before else None
    ready: list[Waiting] = []
    for row in query.objects():
        if row.stage in before or (first_unread is not None and row.receipt_id > first_unread):
            break
        ready.append(_waiting_event(row))
    return ready


def _first_unread(service_row: int) -> int | None:
    query = Receipt.select(peewee.fn.MIN(Receipt.id)).where(
        Receipt.service == service_row, Receipt.state == WorkState.WAITING
    )
    found: int | None = query.scalar()
    return found


def in_order(receipts: list[Waiting], events: list[Waiting], limit: int) -> list[Waiting]:
    """What waits to be read and what waits already read, in the order of acceptance.

    Both are the first of their kind, `limit` at most; no further than both reach.
    """
    if not receipts or not events:
        return receipts or events
    last = receipts[-1].receipt
    if len(events) >= limit:
        last = min(last, events[-1].receipt)
    both = [one for one in (*receipts, *events) if one.receipt <= last]
    return sorted(both, key=lambda one: (one.receipt, one.position, one.event or 0))


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
        plan=plan_of(row.alert.get("plan")),
        released_at=_released_at(row),
    )
    reasons = tuple((stage, reason) for stage, reason in row.reasons)
    return Waiting(
        row.trace_id,
        row.receipt_id,
        row.integration_id,
        row.creation_date,
        position=row.position,
        event=row.id,
        traveller=Traveller(alert, reasons, tuple(row.rules), row.alert.get("next") or row.stage),
    )


def _released_at(row: Event) -> datetime | None:
    kept = row.alert.get("released_at")
    return datetime.fromisoformat(kept) if kept else None


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
        is_ping=rest.get("is_ping", False),
        is_own=rest.get("is_own", False),
    )
