"""Load the pending work of a lane: receipts before the first stage, events after a queue split."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import peewee

from models.domain.enums import AlertType, WorkState
from models.domain.values import Value, replace
from models.store.prepared import Prepared, bind, in_bound
from models.store.store import store
from models.tables.events import Event, Receipt, ReceiptProgress, list_reasons
from models.tables.routers import GlobalRouter
from models.tables.services import Service
from pipeline.alert import Alert, ParsedAlert
from pipeline.router import CompiledRouter, RouterLane
from pipeline.run_stages import AlertInProgress, parse_options
from pipeline.sources.reading.body import RequestBody
from pipeline.topology import Segment
from workers import config_cache
from workers.alerts import amazon, pieces
from workers.alerts.pieces import Piece


class PendingWork(Value, frozen=True):
    """A pending receipt (with `body` or `piece`), or a pending event at a queue split (with `item`).

    `received_at` is when a receipt was received that was a dead letter since then.
    """

    trace_id: str
    receipt: int
    integration: int
    accepted_at: datetime
    source: str = ""
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    position: int = 0
    event: int | None = None
    item: AlertInProgress | None = None
    piece: Piece | None = None
    received_at: datetime | None = None
    # More events of the same receipt follow.
    is_followed: bool = False

    @property
    def is_replayed(self) -> bool:
        return self.received_at is not None

    @property
    def is_released(self) -> bool:
        """Return whether the alert was deferred by maintenance and is pending again."""
        return self.item is not None and self.item.alert.released_at is not None

    @property
    def is_completed(self) -> bool:
        """Return whether nothing of the receipt is left after this work."""
        return self.piece is None or self.piece.is_last


def _prepare_pending(
    table: type[Receipt] | type[Event], accepted_at: peewee.Field, owner: peewee.Field, *more: peewee.Field
) -> Prepared:
    """Prepare a query for the owners of work that is pending since before a time; `more` columns of it."""
    return Prepared(
        lambda: (
            table.select(owner, *more)
            .where(table.state == WorkState.PENDING, owner.is_null(False), accepted_at < bind("before"))
            .distinct()
        )
    )


_PENDING_SERVICES = _prepare_pending(Receipt, Receipt.received_at, Receipt.service)
_PENDING_STAGES = _prepare_pending(Event, Event.creation_date, Event.service, Event.stage)
_PENDING_ROUTERS = _prepare_pending(Receipt, Receipt.received_at, Receipt.router)
_LATEST = datetime.max.replace(tzinfo=UTC)


def list_pending_lanes(first: str, before: datetime = _LATEST) -> list[tuple[int, str]]:
    """List the services that have pending work, each with the next stage of that work.

    With `before`, only work that is pending since before that time counts.
    """
    received = [(row, first) for (row,) in _PENDING_SERVICES.rows(before=before)]
    return received + _PENDING_STAGES.rows(before=before)


def list_pending_routers(before: datetime = _LATEST) -> list[int]:
    """List the routers that have pending receipts; `before` as in list_pending_lanes()."""
    return [row for (row,) in _PENDING_ROUTERS.rows(before=before)]


# Total size of the bodies in one batch: the parsed alerts need many times as much memory.
MAX_BYTES = 32 * 1024 * 1024


class _StoredReceipt(Value, frozen=True):
    """A pending receipt with its body, or with a piece of its parsed alerts.

    `received_at` is as in PendingWork.
    """

    trace_id: str
    receipt: int
    integration: int
    accepted_at: datetime
    source: str
    received_at: datetime | None
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    piece: Piece | None = None


@dataclass(frozen=True, slots=True)
class _ReceiptQueries:
    """The queries for receipts of one kind of lane: `head` selects the first ones, `bodies` loads them.

    The bodies are loaded last, because all pending bodies may be many megabytes, and a batch takes at most
    MAX_BYTES. `no_body` loads a receipt in pieces, whose body is parsed already. `has_setups`: receipts have
    an integration, and may wait for an answer of Amazon.
    """

    owner: str
    head: Prepared
    bodies: Prepared
    no_body: Prepared
    has_setups: bool

    def load_first(self, row: int, limit: int) -> list[_StoredReceipt]:
        """Load the first pending receipts, with about `limit` alerts in total, or a piece of the first one.

        Raises NotParsed for a receipt in pieces.
        """
        lane = (self.owner, row)
        # Reading the head of many large receipts takes time.
        in_pieces = pieces.is_in_pieces(lane)
        put_off = amazon.list_put_off(row) if self.has_setups else ()
        head = self.head.rows(lane=row, limit=(1 if in_pieces else limit) + len(put_off))
        if put_off:
            head = [one for one in head if one[0] not in put_off]
        if head and (head[0][3] or head[0][1] > limit):
            receipt, _, _, done, events_written = head[0]
            piece = pieces.get_piece(receipt, lane, done or 0, events_written or 0, limit)
            rows = self.no_body.rows(lane=row, receipts=[receipt], last=receipt)
            return [_build_stored(*columns, piece=piece) for columns in rows]
        if in_pieces:
            pieces.drop(lane)
        taken: list[int] = []
        total, size = 0, 0
        for receipt, alerts, length, *_ in head:
            total, size = total + alerts, size + length
            if taken and (total > limit or size > MAX_BYTES):
                break
            taken.append(receipt)
        rows = self.bodies.rows(lane=row, receipts=taken, last=taken[-1]) if taken else []
        return [_build_stored(*rest, headers=headers, body=bytes(body)) for *rest, headers, body in rows]


def _build_stored(
    trace_id: str,
    receipt: int,
    integration: int,
    received_at: datetime,
    replayed_at: datetime | None,
    source: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    piece: Piece | None = None,
) -> _StoredReceipt:
    return _StoredReceipt(
        trace_id,
        receipt,
        integration,
        replayed_at or received_at,
        source,
        received_at if replayed_at is not None else None,
        body=body,
        headers=headers,
        piece=piece,
    )


def _build_queries(
    owner: str, condition: Callable[[], peewee.Expression], *, has_setups: bool
) -> _ReceiptQueries:
    def select_pending(*columns: peewee.ColumnBase) -> peewee.ModelSelect:
        return (
            Receipt.select(*columns)
            .where(condition(), Receipt.state == WorkState.PENDING)
            .order_by(Receipt.id)
        )

    def select_head() -> peewee.ModelSelect:
        columns = (Receipt.id, Receipt.alerts, peewee.fn.LENGTH(Receipt.body))
        progress = (ReceiptProgress.alerts_done, ReceiptProgress.events_written)
        query = select_pending(*columns, *progress).join(ReceiptProgress, peewee.JOIN.LEFT_OUTER)
        return query.limit(bind("limit"))

    def select_taken(*more: peewee.ColumnBase) -> peewee.ModelSelect:
        times = (Receipt.received_at, Receipt.replayed_at)
        columns = (Receipt.trace_id, Receipt.id, Receipt.integration, *times, Receipt.source, *more)
        # Without a limit by number, PostgreSQL would read all pending receipts of the lane for each batch.
        return select_pending(*columns).where(Receipt.id <= bind("last"), in_bound(Receipt.id, "receipts"))

    return _ReceiptQueries(
        owner,
        Prepared(select_head),
        Prepared(lambda: select_taken(Receipt.headers, Receipt.body)),
        Prepared(select_taken),
        has_setups=has_setups,
    )


_OF_SERVICE = _build_queries(
    "service",
    lambda: (Receipt.service == bind("lane")) & Receipt.integration.is_null(False),
    has_setups=True,
)
_OF_ROUTER = _build_queries("router", lambda: Receipt.router == bind("lane"), has_setups=False)


def get_service_lane(service_row: int) -> Hashable:
    """Return the lane of a service's receipts, for workers/alerts/pieces.py."""
    return _OF_SERVICE.owner, service_row


def load_pending_receipts(service_row: int, limit: int) -> list[PendingWork]:
    """Load the first pending receipts of a service, in order of acceptance, with about `limit` alerts.

    A receipt with more alerts is alone, with a piece of its alerts. Raises NotParsed for such a receipt.
    """
    return [_build_receipt(one) for one in _OF_SERVICE.load_first(service_row, limit)]


def _build_receipt(one: _StoredReceipt) -> PendingWork:
    return PendingWork(
        one.trace_id,
        one.receipt,
        one.integration,
        one.accepted_at,
        one.source,
        one.body,
        one.headers,
        piece=one.piece,
        received_at=one.received_at,
    )


def load_pending_for_router(router: GlobalRouter, limit: int) -> list[RouterLane]:
    """Load the first pending receipts of a router, in the order of acceptance."""
    routing = config_cache.get_routing(router)
    return [_build_router_lane(routing, one) for one in _OF_ROUTER.load_first(router.id, limit)]


def _build_router_lane(routing: CompiledRouter, one: _StoredReceipt) -> RouterLane:
    body = RequestBody(one.body, one.headers)
    lane = RouterLane(
        routing,
        one.trace_id,
        one.receipt,
        one.source,
        body,
        one.accepted_at,
        received_at=one.received_at,
    )
    if one.piece is None or one.piece.body.error is not None:
        # Without alerts, the empty body is parsed and fails.
        return lane
    return replace(
        lane,
        event_count=one.piece.events_written,
        alerts=one.piece.alerts,
        start=one.piece.start,
        group_size=len(one.piece.body.alerts),
    )


_FIRST_EVENT = Prepared(
    lambda: (
        Event.select(Event.id)
        .where(Event.service == bind("service"), Event.state == WorkState.PENDING)
        .limit(1)
    )
)


def load_pending_events(
    service_row: int, segment: Segment, pipeline: Sequence[Segment], limit: int
) -> list[PendingWork]:
    """Load the first events of a lane that are ready for a segment, so that no alert overtakes another.

    An event is not ready while an earlier alert of its service is pending for an earlier segment. Events that
    are pending for a later segment do not matter.
    """
    if _FIRST_EVENT.first(service=service_row) is None:
        return []
    before = [stage for earlier in pipeline[: pipeline.index(segment)] for stage in earlier.stage_names]
    query = (
        Event.select(
            Event,
            Receipt.trace_id.alias("trace_id"),
            Receipt.alerts.alias("group_size"),
            Receipt.state.alias("receipt_state"),
        )
        .join(Receipt)
        .where(
            Event.service == service_row,
            Event.state == WorkState.PENDING,
            Event.integration.is_null(False),
            Event.stage.in_([*before, *segment.stage_names]),
        )
        .order_by(Event.receipt, Event.position, Event.id)
        .limit(limit + 1)
    )
    first_unparsed = _find_first_unparsed(service_row) if before else None
    ready: list[Event] = []
    next_receipt = None
    for row in query.objects():
        is_ready = row.stage not in before and (first_unparsed is None or row.receipt_id <= first_unparsed)
        if not is_ready or len(ready) == limit:
            next_receipt = row.receipt_id
            break
        ready.append(row)
    return [_build_work(row, is_followed=row.receipt_id == next_receipt) for row in ready]


def _find_first_unparsed(service_row: int) -> int | None:
    query = Receipt.select(peewee.fn.MIN(Receipt.id)).where(
        Receipt.service == service_row, Receipt.state == WorkState.PENDING
    )
    if put_off := amazon.list_put_off(service_row):
        query = query.where(Receipt.id.not_in(list(put_off)))
    found: int | None = query.scalar()
    return found


def merge_in_order(receipts: list[PendingWork], events: list[PendingWork], limit: int) -> list[PendingWork]:
    """Merge pending receipts and pending events in the order of acceptance.

    Both lists are the first of their kind and may be cut off at `limit`. Return only what both lists cover.
    """
    if not receipts or not events:
        return receipts or events
    last = receipts[-1].receipt
    if len(events) >= limit:
        last = min(last, events[-1].receipt)
    merged = [work for work in (*receipts, *events) if work.receipt <= last]
    return sorted(merged, key=lambda work: (work.receipt, work.position, work.event or 0))


def _build_work(row: Event, *, is_followed: bool) -> PendingWork:
    alert = Alert(
        event_id=row.unique_id,
        trace_id=row.trace_id,
        receipt=row.receipt_id,
        position=row.position,
        integration=row.integration_id,
        accepted_at=row.creation_date,
        entity_id=row.entity_id,
        parsed=_build_parsed(row),
        options=parse_options(row.alert.get("options")),
        released_at=_parse_moment(row.alert.get("released_at")),
        group_size=row.group_size,
    )
    reasons = tuple(list_reasons(row))
    return PendingWork(
        row.trace_id,
        row.receipt_id,
        row.integration_id,
        row.creation_date,
        position=row.position,
        event=row.id,
        item=AlertInProgress(alert, reasons, tuple(row.rules), row.alert.get("next_stage") or row.stage),
        # A router's body that is pending has alerts that are not routed yet.
        is_followed=is_followed or row.receipt_state == WorkState.PENDING,
    )


def _parse_moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _build_parsed(row: Event) -> ParsedAlert:
    stored = row.alert
    return ParsedAlert(
        message=row.message,
        summary=row.summary,
        alert_type=AlertType(row.alert_type),
        entity_id=row.entity_id if stored["entity_given"] else None,
        payload=stored["payload"],
        urls=tuple(stored["urls"]),
        images=tuple(stored["images"]),
        notes=tuple(stored["notes"]),
        suppressed=row.suppressed,
        source_at=row.source_at,
        requested_options=stored["requested_options"],
        is_comment=stored.get("is_comment", False),
        is_resent="resent_until" in stored,
        ends_at=_parse_moment(stored.get("resent_until")),
        is_expiry=stored.get("is_expiry", False),
        is_ping=stored.get("is_ping", False),
        is_own=stored.get("is_own", False),
    )


# --- the pending receipts of several lanes at once -------------------------------------------------------

# A lane with more pending alerts fills a transaction of its own.
SMALL_LANE = 150


@dataclass(slots=True)
class SmallLanes:
    """The pending work of lanes that have little of it, by row number of the service.

    `others` are lanes with other work: many alerts, a receipt in pieces, or events. `left` are lanes beyond
    the limit of a transaction.
    """

    work: dict[int, list[PendingWork]]
    others: set[int]
    left: list[int]


def _select_heads() -> peewee.ModelSelect:
    first = (
        Receipt.select(Receipt.id, Receipt.alerts, peewee.fn.LENGTH(Receipt.body).alias("size"))
        .where(
            Receipt.service == Service.id,
            Receipt.integration.is_null(False),
            Receipt.state == WorkState.PENDING,
        )
        .order_by(Receipt.id)
        .limit(SMALL_LANE + 1)
    )
    query = Service.select(Service.id, first.c.id, first.c.alerts, first.c.size)
    joined = query.join(first, peewee.JOIN.LATERAL, on=peewee.SQL("TRUE"))
    return joined.where(in_bound(Service.id, "lanes"))


def _select_first_event() -> peewee.ModelSelect:
    """Return the first pending event of a service.

    With EXISTS, PostgreSQL could read all pending events for each service.
    """
    pending = Event.select(Event.id).where(Event.service == Service.id, Event.state == WorkState.PENDING)
    return pending.order_by(Event.receipt).limit(1)


_HEADS = Prepared(_select_heads)
_WITH_EVENTS = Prepared(
    lambda: Service.select(Service.id).where(
        in_bound(Service.id, "lanes"), peewee.Expression(_select_first_event(), peewee.OP.IS_NOT, None)
    )
)
_WITH_PIECES = Prepared(
    lambda: ReceiptProgress.select(ReceiptProgress.receipt).where(
        in_bound(ReceiptProgress.receipt, "receipts")
    )
)
_BODIES = Prepared(
    lambda: (
        Receipt.select(
            Receipt.service,
            Receipt.trace_id,
            Receipt.id,
            Receipt.integration,
            Receipt.received_at,
            Receipt.replayed_at,
            Receipt.source,
            Receipt.headers,
            Receipt.body,
            Receipt.state,
        )
        # The caller compares the state. With a condition, PostgreSQL would read the whole index of pending
        # receipts for each number.
        .where(in_bound(Receipt.id, "receipts"))
        .order_by(Receipt.id)
    )
)


def load_small_lanes(lanes: Sequence[int], limit: int) -> SmallLanes:
    """Load all pending receipts of those of these lanes that have few, about `limit` alerts in total.

    On PostgreSQL, the number of queries does not depend on the number of lanes. Earlier lanes come first.
    """
    found = SmallLanes({}, {row for (row,) in _WITH_EVENTS.rows(lanes=lanes)}, [])
    remaining = [row for row in lanes if row not in found.others]
    receipts: dict[int, int] = {}
    total, size = 0, 0
    for place, (row, head) in enumerate(_list_heads(remaining)):
        alerts, bytes_ = sum(each[1] for each in head), sum(each[2] for each in head)
        is_small = alerts <= min(SMALL_LANE, limit) and bytes_ <= MAX_BYTES
        if not is_small or pieces.is_in_pieces(get_service_lane(row)) or amazon.list_put_off(row):
            found.others.add(row)
        elif total + alerts > limit or size + bytes_ > MAX_BYTES:
            found.left = remaining[place:]
            break
        else:
            total, size = total + alerts, size + bytes_
            receipts.update({each[0]: row for each in head})
    if not receipts:
        return found
    found.others |= {receipts[receipt] for (receipt,) in _WITH_PIECES.rows(receipts=list(receipts))}
    taken = [receipt for receipt, row in receipts.items() if row not in found.others]
    for row, *columns, headers, body, state in _BODIES.rows(receipts=taken):
        if state != WorkState.PENDING:
            continue
        stored = _build_stored(*columns, headers=headers, body=bytes(body))
        found.work.setdefault(row, []).append(_build_receipt(stored))
    return found


def _list_heads(lanes: Sequence[int]) -> Iterator[tuple[int, Sequence[tuple[int, int, int]]]]:
    """Yield row number, number of alerts and size of the first pending receipts of each lane, by lane."""
    if store().has_lateral_joins:
        heads: dict[int, list[tuple[int, int, int]]] = {}
        for row, *head in _HEADS.rows(lanes=lanes):
            heads.setdefault(row, []).append((head[0], head[1], head[2]))
        yield from ((row, heads.get(row, ())) for row in lanes)
        return
    for row in lanes:
        first = _OF_SERVICE.head.rows(lane=row, limit=SMALL_LANE + 1)
        yield row, [(receipt, alerts, size) for receipt, alerts, size, *_ in first]
