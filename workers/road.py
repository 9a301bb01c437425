"""Work on a service's lane: take what waits, in order; decide; write; and look again.

One batch is one transaction under the service's lock. A batch that fails for a reason of our own is
taken again one by one, and what still fails is set aside with its error (law 9); a store that fails
is tried again later and counts against nobody.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from time import thread_time

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, connection, db, store
from models.effects import Outcome
from models.enums import WorkState
from models.events import Event, Receipt
from models.loading import lock_services
from models.prepared import Prepared, among
from models.services import Service
from pipeline.road import Traveller, entities_of, event_of, walk
from pipeline.stages.normalize import alerts_of
from pipeline.state import LaneState
from pipeline.topology import Segment, covering, segments
from tocsin import metrics
from workers import anew, bell, configuration, lane_state, orphans, telling
from workers.lanes import Ran, run_batches
from workers.pace import RELEASED_TOGETHER, Pace
from workers.waiting import (
    Waiting,
    in_order,
    waiting_events,
    waiting_lanes,
    waiting_receipts,
)

log = structlog.get_logger()

_road: tuple[Segment, ...] = segments()


def configure(cuts: Sequence[str]) -> None:
    """Cut the road after these stages (TOCSIN_ROAD_CUTS); once, when a process starts."""
    global _road
    _road = segments(cuts)


def segment_of(stage: str) -> Segment:
    """The segment of the road, as it is cut, that a stage belongs to."""
    return covering(_road, stage)


def run(
    service_row: int,
    stage: str = "normalize",
    seconds: float | None = None,
    is_enough: Callable[[int], bool] | None = None,
    now: datetime | None = None,
) -> Ran:
    """Work until nothing waits in a service's lane at this stage's segment, the time is over, or a batch of
    so many was enough. `now` is the store's clock, unless it is given.

    Between batches the lane is free, so that others get their turn. Rings the next segment, and the
    channels that have messages to send.
    """
    segment = segment_of(stage)
    with connection():
        ran = run_batches(lambda: _batch(service_row, segment, now), seconds, is_enough)
    if ran.taken and segment.then:
        bell.ring_road(service_row, segment.then)
    return ran


def sweep() -> int:
    """Every lane with something waiting, at every segment; for when no bell was heard.

    A lane that fails keeps none of the others waiting; it is looked at again by the next sweep.
    """
    taken = 0
    with connection():
        lanes = waiting_lanes(_road[0].name)
        orphans.abandon()
    for service_row, name in sorted({(row, segment_of(stage).name) for row, stage in lanes}):
        try:
            taken += run(service_row, name).taken
        except Exception:
            log.exception("a lane failed", service=service_row, segment=name)
    return taken


_pace = Pace()


def _batch(service_row: int, segment: Segment, now: datetime | None = None) -> int:
    """One batch; taken apart when it fails. Returns how many receipts or events were dealt with."""
    try:
        return anew.with_locks(partial(_transaction, service_row, segment, _pace.most(), now))
    except STORE_ERRORS:
        _pace.failed()
        raise
    except Exception:
        log.exception("a batch failed and is taken one by one", service=service_row, segment=segment.name)
        return _one_by_one(service_row, segment, _pace.most(), now)


def _one_by_one(service_row: int, segment: Segment, limit: int, now: datetime | None) -> int:
    dealt = 0
    while dealt < limit and anew.with_locks(partial(_next_one, service_row, segment, now)):
        dealt += 1
    return dealt


def _next_one(service_row: int, segment: Segment, now: datetime | None, beside: frozenset[int]) -> bool:
    """The first that waits, by itself; whether there was one."""
    with store().writing():
        locked = lock_services({service_row, *beside})
        service = locked.get(service_row)
        waiting = _take(service_row, segment, 1) if service else []
        if service is None or not waiting:
            return False
        tally = metrics.Tally()
        channels = _apart(service, segment, waiting[0], tally, locked, now)
    bell.ring_deliveries(channels)
    _count(tally, segment)
    return True


def _apart(
    service: Service,
    segment: Segment,
    one: Waiting,
    tally: metrics.Tally,
    locked: Collection[int],
    now: datetime | None,
) -> frozenset[int]:
    """Each alert of one receipt by itself; what fails is set aside with its error, and told (law 9)."""
    _finish([one])
    channels: frozenset[int] = frozenset()
    try:
        travellers = _travellers(one)
    except Exception as error:
        _set_receipt_aside(one, segment, error)
        tally.aside += 1
        return _tell(service, one, error, segment, now)
    made = _made(one)
    for traveller in travellers:
        if traveller.alert.event_id in made:
            continue
        try:
            channels |= anew.within(partial(_walk, service, segment, [traveller], tally, locked, now))
        except (*STORE_ERRORS, *anew.ANOTHER_TRANSACTION):
            raise
        except Exception as error:
            _set_aside(traveller, service, segment, one, error)
            tally.aside += 1
            channels |= _tell(service, one, error, segment, now)
    return channels


def _made(one: Waiting) -> set[str]:
    """Alerts of a receipt that were written before it was set aside as a whole, and taken up again."""
    return {event for (event,) in Event.select(Event.unique_id).where(Event.receipt == one.receipt).tuples()}


def _set_aside(
    traveller: Traveller, service: Service, segment: Segment, one: Waiting, error: Exception
) -> None:
    """One alert, or what it came in when not even that can be written."""
    try:
        with db.atomic():
            _insert_aside(traveller, service, segment, error)
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception("an alert cannot be set aside by itself", trace_id=one.trace_id)
        _set_receipt_aside(one, segment, error)


def _set_receipt_aside(one: Waiting, segment: Segment, error: Exception) -> None:
    receipt = Receipt.update(state=WorkState.ASIDE, error=telling.name_of(error, segment.name))
    receipt.where(Receipt.id == one.receipt).execute()


def _insert_aside(traveller: Traveller, service: Service, segment: Segment, error: Exception) -> None:
    state = LaneState(configuration.of_service(service).facts)
    event = event_of(traveller, segment, state)
    event = replace(
        event, state=WorkState.ASIDE, stage=segment.name, error=telling.name_of(error, segment.name)
    )
    apply(Outcome(events=[replace(event, incident=None, incident_created=False)]))


def _tell(
    service: Service, one: Waiting, error: Exception, segment: Segment, now: datetime | None
) -> frozenset[int]:
    what = telling.name_of(error, segment.name)
    return telling.tell(service, one.integration, one.trace_id, one.receipt, one.accepted_at, what, now)


def _transaction(
    service_row: int,
    segment: Segment,
    limit: int,
    now: datetime | None = None,
    beside: frozenset[int] = frozenset(),
) -> int:
    with store().writing():
        # Not before: waiting for others must not make our batches small.
        held_from = thread_time()
        locked = lock_services({service_row, *beside})
        service = locked.get(service_row)
        waiting = _take_together(service_row, segment, limit) if service else []
        if service is None or not waiting:
            return 0
        _finish(waiting)
        travellers = [each for one in waiting for each in _travellers(one)]
        tally = metrics.Tally()
        channels = _walk(service, segment, travellers, tally, locked, now)
    _pace.took(len(travellers), thread_time() - held_from)
    bell.ring_deliveries(channels)
    _count(tally, segment)
    return len(waiting)


def _count(tally: metrics.Tally, segment: Segment) -> None:
    metrics.count_batch(tally, segment.covers, is_last=segment.then is None)


def _take_together(service_row: int, segment: Segment, limit: int) -> list[Waiting]:
    """About `limit` of what waits; more where all that is what maintenance kept back (pace.py)."""
    waiting = _take(service_row, segment, limit)
    if len(waiting) < limit or not all(one.is_released for one in waiting):
        return waiting
    more = _take(service_row, segment, limit * RELEASED_TOGETHER)
    return list(takewhile(lambda one: one.is_released, more))


def _take(service_row: int, segment: Segment, limit: int) -> list[Waiting]:
    events = waiting_events(service_row, segment, _road, limit)
    receipts = waiting_receipts(service_row, limit) if segment is _road[0] else []
    return in_order(receipts, events, limit)


# Alerts that are decided and written together: a group of 8 MiB holds more than a statement can name
# (65,535 values on PostgreSQL, 32,766 on some builds of SQLite).
PIECE = 2_000


def _walk(
    service: Service,
    segment: Segment,
    travellers: Sequence[Traveller],
    tally: metrics.Tally,
    locked: Collection[int],
    now: datetime | None,
) -> frozenset[int]:
    channels: frozenset[int] = frozenset()
    for start in range(0, len(travellers), PIECE):
        channels |= _walk_piece(service, segment, travellers[start : start + PIECE], tally, locked, now)
    return channels


def _walk_piece(
    service: Service,
    segment: Segment,
    piece: Sequence[Traveller],
    tally: metrics.Tally,
    locked: Collection[int],
    now: datetime | None,
) -> frozenset[int]:
    """Decide and write; decide anew where rules gave alerts entity_ids that nobody had looked for."""
    asked = set(entities_of([traveller.alert for traveller in piece]))
    accepted_at = min(traveller.alert.moment for traveller in piece)
    while True:
        state = lane_state.load(service, asked, locked, accepted_at=accepted_at, now=now)
        outcome = walk(piece, segment, state)
        if state.unlocked:
            raise anew.Unlocked(state.unlocked)
        if not state.missing:
            channels = apply(outcome, lane_state.rows_of(state)).channels
            tally.saw(outcome.events)
            return channels
        asked |= state.missing


def _travellers(one: Waiting) -> Sequence[Traveller]:
    if one.traveller is not None:
        return (one.traveller,)
    alerts = alerts_of(one.trace_id, one.receipt, one.integration, one.source, one.body, one.accepted_at)
    return [Traveller(alert) for alert in alerts]


_DONE = Prepared(lambda: Receipt.update(state=WorkState.DONE).where(among(Receipt.id, "receipts")))


def _finish(waiting: list[Waiting]) -> None:
    """What was taken is done: receipts are marked; waiting events are replaced by what they become."""
    receipts = [one.receipt for one in waiting if one.event is None]
    if receipts:
        _DONE.run(receipts=receipts)
    events = [one.event for one in waiting if one.event is not None]
    if events:
        Event.delete().where(Event.id.in_(events)).execute()
