"""Process the lane of a service: take a batch of pending work in order, decide, and write.

One batch is one transaction under the service's lock. If our code fails on a batch, the worker processes its
alerts one by one. An alert that fails again becomes a dead letter with its error: invariant 9 (design,
section 2). If the database fails, the batch is retried later, and no alert becomes a dead letter.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from time import thread_time

import structlog

from models.domain.effects import ChangeSet
from models.domain.enums import WorkState
from models.domain.reasons import Reason
from models.load.lane import lock_services
from models.store.base import STORE_ERRORS, db, store
from models.store.prepared import Prepared, in_bound
from models.tables.events import Event, Receipt
from models.tables.services import Service
from models.write.apply import apply
from pipeline.lane_state import LaneState
from pipeline.run_stages import AlertInProgress, build_segment_event, list_entities, run_stages
from pipeline.stages.normalize import parse_alerts
from pipeline.topology import Segment, build_segments, find_segment
from workers.alerts import config_cache, load_lane_state, report_dead_letters, retry
from workers.alerts.batches import RELEASED_FACTOR, BatchSize, TurnResult, run_batches
from workers.alerts.pending import (
    PendingWork,
    list_pending_lanes,
    load_pending_events,
    load_pending_receipts,
    merge_in_order,
)
from workers.alerts.tally import Tally, count_batch
from workers.delivery import deliver

log = structlog.get_logger()

_segments: tuple[Segment, ...] = build_segments()


def configure(splits: Sequence[str]) -> None:
    """Split the pipeline after these stages (TOCSIN_PIPELINE_QUEUES); once, when a process starts."""
    global _segments
    _segments = build_segments(splits)


def get_segment(stage: str) -> Segment:
    """Return the segment of the split pipeline that a stage belongs to."""
    return find_segment(_segments, stage)


def run(
    service_row: int,
    stage: str = "normalize",
    seconds: float | None = None,
    is_enough: Callable[[int], bool] | None = None,
    now: datetime | None = None,
) -> TurnResult:
    """Process the pending work of a service at the segment of this stage, batch by batch.

    Stop when nothing is pending, when `seconds` are over, or when `is_enough` returns True for the size of a
    batch. `now` replaces the clock of the database. Between batches the lane is not locked, so that others
    get their turn. Enqueue the channels that have messages to send.
    """
    segment = get_segment(stage)
    return run_batches(lambda: _process_batch(service_row, segment, now), seconds, is_enough)


def process_pending_lanes() -> int:
    """Process every lane that has pending work, up to the last segment, in case a wake-up was lost.

    A lane that fails does not stop the others, but an unavailable database does. The next call tries again.
    """
    taken = 0
    lanes = list_pending_lanes(_segments[0].name)
    report_dead_letters.collect_dead_letters()
    # Of a lane that is pending at several segments, the last entry is kept: its first segment.
    found = sorted({(row, _segments.index(get_segment(stage))) for row, stage in lanes}, reverse=True)
    for service_row, first in sorted(dict(found).items()):
        try:
            taken += sum(run(service_row, segment.name).taken for segment in _segments[first:])
        except Exception as error:
            if store().is_unavailable(error):
                raise
            log.exception("lane failed", service=service_row, segment=_segments[first].name)
    return taken


_batch_size = BatchSize()


def _process_batch(service_row: int, segment: Segment, now: datetime | None = None) -> int:
    """Process one batch, or its alerts one by one if it fails. Return the number of receipts and events."""
    try:
        return retry.run_with_locks(
            partial(_run_transaction, service_row, segment, _batch_size.get_limit(), now)
        )
    except STORE_ERRORS:
        _batch_size.reduce()
        raise
    except Exception:
        log.exception("batch failed, processing one by one", service=service_row, segment=segment.name)
        return _process_one_by_one(service_row, segment, _batch_size.get_limit(), now)


def _process_one_by_one(service_row: int, segment: Segment, limit: int, now: datetime | None) -> int:
    processed = 0
    while processed < limit and retry.run_with_locks(partial(_process_next, service_row, segment, now)):
        processed += 1
    return processed


def _process_next(
    service_row: int, segment: Segment, now: datetime | None, extra_locks: frozenset[int]
) -> bool:
    """Process the first pending receipt or event alone. Return whether there was one."""
    with store().write_transaction():
        locked = lock_services({service_row, *extra_locks})
        service = locked.get(service_row)
        pending = _take(service_row, segment, 1) if service else []
        if service is None or not pending:
            return False
        batch = _Batch(service, segment, locked, now)
        channels = _process_alone(batch, pending[0])
    deliver.enqueue(channels)
    count_batch(batch.tally, segment)
    return True


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the alerts of one transaction share. `locked` are the row numbers of the locked services."""

    service: Service
    segment: Segment
    locked: Collection[int]
    now: datetime | None
    tally: Tally = field(default_factory=Tally)


def _process_alone(batch: _Batch, work: PendingWork) -> frozenset[int]:
    """Process each alert of one receipt or event alone.

    An alert that fails becomes a dead letter, and an incident reports it: invariant 9 (design, section 2).
    """
    _mark_done([work])
    channels: frozenset[int] = frozenset()
    try:
        items = _build_items(work)
    except Exception as error:
        return _report(batch, work, _mark_receipt(batch, work, error))
    written = _list_written(work)
    for item in items:
        if item.alert.event_id in written:
            continue
        try:
            channels |= retry.run_in_savepoint(partial(_run_stages, batch, [item]))
        except (*STORE_ERRORS, *retry.RETRY_ERRORS):
            raise
        except Exception as error:
            channels |= _report(batch, work, _store_dead_letter(batch, item, work, error))
    return channels


def _list_written(work: PendingWork) -> set[str]:
    """Return the event_ids of a receipt's alerts that are stored already.

    Some are stored if the receipt itself became a dead letter and was replayed.
    """
    return {event for (event,) in Event.select(Event.unique_id).where(Event.receipt == work.receipt).tuples()}


def _store_dead_letter(batch: _Batch, item: AlertInProgress, work: PendingWork, error: Exception) -> Reason:
    """Store one alert as a dead letter, or its receipt if the alert cannot be stored.

    Return the description of the error.
    """
    description = report_dead_letters.describe_error(error, batch.segment.name)
    try:
        with db.atomic():
            _insert_dead_letter(batch, item, description)
    except STORE_ERRORS:
        raise
    except Exception:
        log.exception(
            "alert could not be stored, its receipt becomes a dead letter",
            service=batch.service.id,
            trace_id=work.trace_id,
        )
        _mark_receipt(batch, work, error)
    return description


def _mark_receipt(batch: _Batch, work: PendingWork, error: Exception) -> Reason:
    """Make a receipt a dead letter. Return the description of the error."""
    description = report_dead_letters.describe_error(error, batch.segment.name)
    query = Receipt.update(state=WorkState.DEAD_LETTER, error=description)
    query.where(Receipt.id == work.receipt).execute()
    return description


def _insert_dead_letter(batch: _Batch, item: AlertInProgress, description: Reason) -> None:
    state = LaneState(config_cache.get_lane_config(batch.service).facts)
    event = replace(
        build_segment_event(item, batch.segment, state),
        state=WorkState.DEAD_LETTER,
        stage=batch.segment.name,
        error=description,
        incident=None,
        incident_created=False,
    )
    apply(ChangeSet(events=[event]))


def _report(batch: _Batch, work: PendingWork, description: Reason) -> frozenset[int]:
    batch.tally.dead_letters += 1
    return report_dead_letters.report_dead_letter(
        batch.service, work.integration, work.trace_id, work.receipt, work.accepted_at, description, batch.now
    )


class _TakenWork:
    """Pending work that one transaction takes, as alerts in order.

    `decided` counts its alerts that were decided, and `done` the receipts and events that were marked.
    """

    def __init__(self, pending: Sequence[PendingWork]) -> None:
        self._pending = pending
        self.items: list[AlertInProgress] = []
        # The number of alerts up to and with each receipt or event.
        self._ends: list[int] = []
        for work in pending:
            self.items += _build_items(work)
            self._ends.append(len(self.items))
        self.decided = 0
        self.done = 0

    def mark_decided(self, count: int) -> None:
        """Count more alerts as decided. Mark the receipts and events that have no other alerts left."""
        self.decided += count
        done = bisect_right(self._ends, self.decided)
        _mark_done(self._pending[self.done : done])
        self.done = done


def _run_transaction(
    service_row: int,
    segment: Segment,
    limit: int,
    now: datetime | None = None,
    extra_locks: frozenset[int] = frozenset(),
) -> int:
    with store().write_transaction():
        # Measure inside the transaction: waiting for other writers must not reduce the batch size.
        started = thread_time()
        locked = lock_services({service_row, *extra_locks})
        service = locked.get(service_row)
        pending = _take_batch(service_row, segment, limit) if service else []
        if service is None or not pending:
            return 0
        taken = _TakenWork(pending)
        batch = _Batch(service, segment, locked, now)
        channels = _run_stages(batch, taken.items, taken.mark_decided)
    _batch_size.adjust(taken.decided, thread_time() - started)
    deliver.enqueue(channels)
    count_batch(batch.tally, segment)
    return taken.done


def _take_batch(service_row: int, segment: Segment, limit: int) -> list[PendingWork]:
    """Take the oldest pending work, about `limit` alerts.

    If maintenance deferred all these alerts, take more: larger batches lead to fewer messages
    (RELEASED_FACTOR in workers/alerts/batches.py).
    """
    pending = _take(service_row, segment, limit)
    if len(pending) < limit or not all(work.is_released for work in pending):
        return pending
    more = _take(service_row, segment, limit * RELEASED_FACTOR)
    return list(takewhile(lambda work: work.is_released, more))


def _take(service_row: int, segment: Segment, limit: int) -> list[PendingWork]:
    events = load_pending_events(service_row, segment, _segments, limit)
    receipts = load_pending_receipts(service_row, limit) if segment is _segments[0] else []
    return merge_in_order(receipts, events, limit)


# Number of alerts that are decided and written together. A body of 8 MiB can have more alerts than one
# statement can have parameters: 65,535 on PostgreSQL, 32,766 on some builds of SQLite.
CHUNK_SIZE = 2_000


def _run_stages(
    batch: _Batch, items: Sequence[AlertInProgress], on_decided: Callable[[int], None] | None = None
) -> frozenset[int]:
    """Decide on these alerts and write the result.

    If their rules cause much work, leave the last ones for the next batch (MAX_RULE_WORK in run_stages.py).
    `on_decided` is called with the number of alerts that were decided, before their results are written.
    """
    channels: frozenset[int] = frozenset()
    for start in range(0, len(items), CHUNK_SIZE):
        chunk = items[start : start + CHUNK_SIZE]
        outcome, state = _decide_chunk(batch, chunk)
        if on_decided:
            on_decided(len(outcome.events))
        channels |= apply(outcome, load_lane_state.get_rows(state)).channels
        batch.tally.add_events(outcome.events)
        for alert in state.skipped.values():
            channels |= report_dead_letters.report_skipped_rules(batch.service, alert, batch.now)
        if len(outcome.events) < len(chunk):
            break
    return channels


def _decide_chunk(batch: _Batch, chunk: Sequence[AlertInProgress]) -> tuple[ChangeSet, LaneState]:
    """Return the decisions on these alerts, and the state after them.

    A rule can give an alert another entity_id. If that entity was not loaded, load it too and decide again.
    """
    keys = set(list_entities([item.alert for item in chunk]))
    accepted_at = min(item.alert.effective_at for item in chunk)
    while True:
        state = load_lane_state.load(
            batch.service, keys, batch.locked, accepted_at=accepted_at, now=batch.now
        )
        outcome = run_stages(chunk, batch.segment, state)
        if state.locks_missing:
            raise retry.LocksMissing(state.locks_missing)
        if not state.missing:
            return outcome, state
        keys |= state.missing


def _build_items(work: PendingWork) -> Sequence[AlertInProgress]:
    if work.item is not None:
        return (work.item,)
    alerts = parse_alerts(
        work.trace_id, work.receipt, work.integration, work.source, work.body, work.accepted_at
    )
    return [AlertInProgress(alert) for alert in alerts]


_DONE = Prepared(lambda: Receipt.update(state=WorkState.DONE).where(in_bound(Receipt.id, "receipts")))


def _mark_done(pending: Sequence[PendingWork]) -> None:
    """Mark receipts as done, and delete the pending events: the stages write new rows for them."""
    receipts = [work.receipt for work in pending if work.event is None]
    if receipts:
        _DONE.run(receipts=receipts)
    events = [work.event for work in pending if work.event is not None]
    if events:
        Event.delete().where(Event.id.in_(events)).execute()
