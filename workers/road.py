"""Work on a service's lane: take what waits, in order; decide; write; and look again.

One batch is one transaction under the service's lock. A batch that fails for a reason of our own is
taken again one by one, and what still fails is set aside with its error (law 9); a store that fails
is tried again later and counts against nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, connection, db, store
from models.effects import Outcome
from models.enums import WorkState
from models.events import Event, Receipt
from models.loading import entity_states, firing_counts, lane_facts, lock_service, open_incidents
from models.services import Service
from pipeline import unreadable
from pipeline.alert import Alert
from pipeline.road import Traveller, entities_of, event_of, walk
from pipeline.stages.normalize import alerts_of
from pipeline.state import LaneState
from pipeline.topology import Segment, segments
from workers import bell
from workers.waiting import (
    Waiting,
    abandon_orphans,
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


def segment_named(name: str) -> Segment:
    return next(segment for segment in _road if segment.name == name)


def run(service_row: int, segment_name: str = "normalize") -> int:
    """Work until nothing waits in a service's lane at this segment; returns how much was taken.

    Between batches the lane is free, so that others get their turn. Rings the next segment, and the
    channels that have messages to send.
    """
    segment = segment_named(segment_name)
    taken = 0
    with connection():
        while count := _batch(service_row, segment):
            taken += count
    if taken and segment.then:
        bell.ring_road(service_row, segment.then)
    return taken


def sweep() -> int:
    """Every lane with something waiting, at every segment; for when no bell was heard.

    A lane that fails keeps none of the others waiting; it is looked at again by the next sweep.
    """
    taken = 0
    with connection():
        lanes = waiting_lanes(_road[0].name)
        abandon_orphans()
    for service_row, segment_name in lanes:
        try:
            taken += run(service_row, segment_name)
        except Exception:
            log.exception("a lane failed", service=service_row, segment=segment_name)
    return taken


@dataclass(slots=True)
class Pace:
    """How many alerts to take at once: a batch holds the lane (on SQLite: the store) about `target_s`."""

    target_s: float = 0.04
    limit: int = 50

    def took(self, count: int, seconds: float) -> None:
        if count < self.limit // 2 and seconds < self.target_s:
            return
        fitting = int(count * self.target_s / max(seconds, 1e-4))
        self.limit = max(10, min(store().lane_batch, (self.limit + fitting) // 2))


_pace = Pace()


def _batch(service_row: int, segment: Segment) -> int:
    """One batch; taken apart when it fails. Returns how many receipts or events were dealt with."""
    try:
        return _transaction(service_row, segment, _pace.limit)
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception("a batch failed and is taken one by one", service=service_row, segment=segment.name)
        return _one_by_one(service_row, segment, _pace.limit)


def _one_by_one(service_row: int, segment: Segment, limit: int) -> int:
    dealt = 0
    while dealt < limit:
        with store().writing():
            service = lock_service(service_row)
            waiting = _take(service_row, segment, 1) if service else []
            if service is None or not waiting:
                break
            channels = _apart(service, segment, waiting[0])
        bell.ring_deliveries(channels)
        dealt += 1
    return dealt


def _apart(service: Service, segment: Segment, one: Waiting) -> set[int]:
    """Each alert of one receipt by itself; what fails is set aside with its error, and told (law 9)."""
    _finish([one])
    channels: set[int] = set()
    try:
        travellers = _travellers(one)
    except Exception as error:
        _set_receipt_aside(one, segment, error)
        return _tell(service, one, error, segment)
    for traveller in travellers:
        try:
            with db.atomic():
                channels |= _walk(service, segment, [traveller])
        except STORE_ERRORS:
            raise
        except Exception as error:
            _set_aside(traveller, service, segment, one, error)
            channels |= _tell(service, one, error, segment)
    return channels


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
    receipt = Receipt.update(state=WorkState.ASIDE, error=_named(error, segment))
    receipt.where(Receipt.id == one.receipt).execute()


def _insert_aside(traveller: Traveller, service: Service, segment: Segment, error: Exception) -> None:
    state = LaneState(lane_facts(service))
    event = event_of(traveller, segment, state)
    event = replace(event, state=WorkState.ASIDE, stage=segment.name, error=_named(error, segment))
    apply(Outcome(events=[replace(event, incident=None, incident_created=False)]))


def _named(error: Exception, segment: Segment) -> str:
    """An error by its class alone: its text may quote what users wrote."""
    return f"{type(error).__name__} at {segment.name}"


def _tell(service: Service, one: Waiting, error: Exception, segment: Segment) -> set[int]:
    log.error("an alert is set aside", trace_id=one.trace_id, error=_named(error, segment))
    alert = unreadable.alert_for(one.trace_id, one.receipt, one.integration, one.accepted_at)
    try:
        with db.atomic():
            state = _state(service, [alert])
            return set(apply(unreadable.tell(alert, state), _rows_of(state)).channels)
    except STORE_ERRORS:
        raise
    except Exception:
        # What broke the alert may break this as well; the alerts behind it must go on all the same.
        log.exception("nobody could be told of an alert that was set aside", trace_id=one.trace_id)
        return set()


def _transaction(service_row: int, segment: Segment, limit: int) -> int:
    with store().writing():
        # Not before: waiting for others must not make our batches small.
        held_from = monotonic()
        service = lock_service(service_row)
        waiting = _take(service_row, segment, limit) if service else []
        if service is None or not waiting:
            return 0
        _finish(waiting)
        travellers = [each for one in waiting for each in _travellers(one)]
        channels = _walk(service, segment, travellers)
    _pace.took(len(travellers), monotonic() - held_from)
    bell.ring_deliveries(channels)
    return len(waiting)


def _take(service_row: int, segment: Segment, limit: int) -> list[Waiting]:
    if segment is _road[0]:
        return waiting_receipts(service_row, limit)
    return waiting_events(service_row, segment.name, limit)


# Alerts that are decided and written together: a group of 8 MiB holds more than a statement can name
# (65,535 values on PostgreSQL, 32,766 on some builds of SQLite).
PIECE = 2_000


def _walk(service: Service, segment: Segment, travellers: Sequence[Traveller]) -> set[int]:
    channels: set[int] = set()
    for start in range(0, len(travellers), PIECE):
        piece = travellers[start : start + PIECE]
        state = _state(service, [traveller.alert for traveller in piece])
        channels |= apply(walk(piece, segment, state), _rows_of(state)).channels
    return channels


def _travellers(one: Waiting) -> Sequence[Traveller]:
    if one.traveller is not None:
        return (one.traveller,)
    alerts = alerts_of(one.trace_id, one.receipt, one.integration, one.source, one.body, one.accepted_at)
    return [Traveller(alert) for alert in alerts]


def _state(service: Service, alerts: list[Alert]) -> LaneState:
    entities = entity_states(entities_of(alerts))
    incidents = open_incidents(service.id, {e.incident for e in entities if e.incident})
    return LaneState(lane_facts(service), entities, incidents, firing_counts(incidents))


def _rows_of(state: LaneState) -> dict[str, int]:
    return {i.unique_id: i.row for i in state.incidents.values() if i.row is not None}


def _finish(waiting: list[Waiting]) -> None:
    """What was taken is done: receipts are marked; waiting events are replaced by what they become."""
    receipts = [one.receipt for one in waiting if one.event is None]
    if receipts:
        Receipt.update(state=WorkState.DONE).where(Receipt.id.in_(receipts)).execute()
    events = [one.event for one in waiting if one.event is not None]
    if events:
        Event.delete().where(Event.id.in_(events)).execute()
