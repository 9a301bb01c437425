"""Process the lane of a service: take a batch of pending work in order, decide, and write.

One batch is one transaction under the service's lock. If our code fails on a batch, the worker processes its
alerts one by one. An alert that fails again becomes a dead letter with its error: invariant 9 (design,
section 2). If the database fails, the batch is retried later, and no alert becomes a dead letter.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import takewhile
from time import thread_time
from typing import TypeVar

import structlog

from models.domain.effects import ChangeSet
from models.domain.enums import WorkState
from models.domain.reasons import Reason
from models.domain.values import replace
from models.load.lane import load_accounts, lock_free_services, lock_services
from models.store.store import STORE_ERRORS, Busy, db, store
from models.tables.events import Receipt
from models.tables.services import Service
from models.write.apply import Writer, apply
from models.write.shared_messages import extend, list_with_messages, name_pieces, release
from pipeline.lane_state import LaneKey, LaneState
from pipeline.run_stages import AlertInProgress, build_segment_event, list_entities, run_stages
from pipeline.topology import Segment, build_segments, find_segment
from runtime.redis import redis_status
from workers import config_cache
from workers.alerts import amazon, load_lane_state, pieces, report_dead_letters, retry
from workers.alerts.batches import (
    MAX_RELEASED,
    RELEASED_FACTOR,
    BatchSize,
    CostlyLanes,
    DecisionTime,
    TurnResult,
    run_batches,
)
from workers.alerts.pending import (
    PendingWork,
    get_service_lane,
    list_pending_lanes,
    load_pending_events,
    load_pending_receipts,
    merge_in_order,
)
from workers.alerts.release_routed import release_in_service
from workers.alerts.taken_work import (
    TakenWork,
    build_items,
    find_pieces,
    list_written,
    mark_done,
    save_progress,
)
from workers.alerts.tally import Tally, count_batch
from workers.delivery import deliver

log = structlog.get_logger()

T = TypeVar("T")

# How long a lane keeps a thread; then other lanes have a turn. Otherwise, as many busy lanes as there are
# threads would delay all other lanes and the deliveries.
SLICE_S = 0.1

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
    *,
    blocking: bool = True,
    asks: bool = True,
) -> TurnResult:
    """Process the pending work of a service at the segment of this stage, batch by batch.

    Stop when nothing is pending, when `seconds` are over, or when `is_enough` returns True for the size of a
    batch. `blocking` False: stop if another transaction has locked the lane, unless a batch failed. `asks`
    False: stop if Amazon must be asked. `now` replaces the clock of the database. Between batches the lane is
    not locked, so that others get their turn.
    Enqueue the channels that have messages to send.
    """
    segment, lane, is_busy = get_segment(stage), get_service_lane(service_row), False

    def process_batch() -> int:
        nonlocal is_busy
        try:
            return _process_batch(service_row, segment, now, blocking=blocking, asks=asks)
        except Busy:
            is_busy = True
            return 0

    def is_turn_over(count: int) -> bool:
        # The rest of a receipt in pieces needs no more alerts to fill its pieces.
        return is_enough is not None and not pieces.is_in_pieces(lane) and is_enough(count)

    return replace(run_batches(process_batch, seconds, is_turn_over), is_busy=is_busy)


def process_pending_lanes(is_covered: Callable[[int, str], bool] = lambda row, stage: False) -> int:
    """Process every lane that has pending work, up to the last segment, in case a wake-up was lost.

    Each lane gets SLICE_S in turn, so that a busy lane does not delay the others. A lane that fails does not
    stop the others, but an unavailable database does. The next call tries again. `is_covered` gets a service
    and a stage, and returns whether running work includes the lane, which is then left out. So is a lane that
    another transaction has locked.

    While Redis delivers wake-ups, a lane for which Amazon must be asked is left to its actor: the timers of
    all accounts wait for this thread.
    """
    report_dead_letters.collect_dead_letters()
    taken, failed, asks = 0, set[int](), not redis_status.up
    while lanes := _list_lanes(failed):
        before = taken
        for service_row, first in lanes:
            if is_covered(service_row, _segments[first].name):
                continue
            try:
                for each in _segments[first:]:
                    taken += run(service_row, each.name, SLICE_S, blocking=False, asks=asks).taken
            except Exception as error:
                if store().is_unavailable(error):
                    raise
                failed.add(service_row)
                log.exception("lane failed", service=service_row, segment=_segments[first].name)
        if taken == before:
            break
    return taken


def _list_lanes(without: Collection[int]) -> list[tuple[int, int]]:
    """List the services that have pending work, each with the position of its first segment."""
    lanes = list_pending_lanes(_segments[0].name)
    # Of a lane that is pending at several segments, the last entry is kept: its first segment.
    found = sorted({(row, _segments.index(get_segment(stage))) for row, stage in lanes}, reverse=True)
    return [(row, first) for row, first in sorted(dict(found).items()) if row not in without]


_batch_size = BatchSize()
_costly_lanes = CostlyLanes()


def _process_batch(
    service_row: int,
    segment: Segment,
    now: datetime | None = None,
    *,
    blocking: bool = True,
    asks: bool = True,
) -> int:
    """Process one batch, or its alerts one by one if it fails. Return the number of alerts.

    It is 0 only if no work is pending: a batch of receipts without alerts returns the number of receipts.

    `blocking` False: raise Busy if another transaction has locked the lane. `asks` False: also if Amazon must
    be asked.
    """
    limit = _costly_lanes.get_limit((service_row, segment.name), _batch_size.get_limit())
    try:
        work = partial(_run_transaction, service_row, segment, limit, now, blocking=blocking)
        return _run_parsed(work, asks=asks)
    except Busy:
        raise
    except STORE_ERRORS:
        _batch_size.reduce()
        raise
    except Exception:
        log.exception("batch failed, processing one by one", service=service_row, segment=segment.name)
        return _process_one_by_one(service_row, segment, _batch_size.get_small_limit(), now, asks=asks)


def _process_one_by_one(
    service_row: int, segment: Segment, limit: int, now: datetime | None, *, asks: bool
) -> int:
    processed = 0
    while processed < limit and _run_parsed(partial(_process_next, service_row, segment, now), asks=asks):
        processed += 1
    return processed


def _run_parsed(work: Callable[[frozenset[int]], T], *, asks: bool) -> T:
    """Run a transaction with all locks. Parse the body of a receipt in pieces before it, and ask Amazon.

    `asks` False: raise Busy if Amazon must be asked.
    """
    asked = 0
    while True:
        try:
            return retry.run_with_locks(work)
        except pieces.NotParsed as missing:
            pieces.parse(missing)
        except amazon.PutOff:
            # The next transaction leaves the receipt out.
            continue
        except amazon.AnswerMissing as missing:
            if not asks:
                raise Busy from missing
            asked += 1
            if asked > amazon.MAX_QUESTIONS:
                raise
            amazon.ask(missing)


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
        channels, in_pieces = _process_alone(batch, pending[0])
    _report_written(batch, pending, channels, in_pieces)
    return True


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the alerts of one transaction share. `locked` are the row numbers of the locked services."""

    service: Service
    segment: Segment
    locked: Collection[int]
    now: datetime | None
    tally: Tally = field(default_factory=Tally)


def _process_alone(batch: _Batch, work: PendingWork) -> tuple[frozenset[int], Mapping[int, bool]]:
    """Process each alert of one receipt or event alone.

    Return the channels with messages to send, and the receipts that may be in pieces, as TakenWork.pieces.
    An alert that fails becomes a dead letter, and an incident reports it: invariant 9 (design, section 2).
    """
    if work.is_completed:
        mark_done([work])
    elif work.piece is not None:
        save_progress(work.receipt, work.piece.stop)
    channels: frozenset[int] = frozenset()
    try:
        items = build_items(work)
    except (amazon.AnswerMissing, amazon.PutOff):
        raise
    except Exception as error:
        return _report(batch, work, _mark_receipt(batch, work, error)), {}
    written = list_written(work)
    in_pieces = find_pieces(items, [work])
    for item in items:
        if item.alert.event_id in written:
            continue
        try:
            channels |= retry.run_in_savepoint(partial(_run_stages, batch, [item], lambda _: in_pieces))
        except (*STORE_ERRORS, *retry.RETRY_ERRORS):
            raise
        except Exception as error:
            channels |= _report(batch, work, _store_dead_letter(batch, item, work, error))
    return channels | _end_pieces(batch, in_pieces), in_pieces


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
    # With alerts left, the receipt stays pending; its last piece makes it a dead letter.
    state = {"state": WorkState.DEAD_LETTER} if work.is_completed else {}
    Receipt.update(error=description, **state).where(Receipt.id == work.receipt).execute()
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


def _run_transaction(
    service_row: int,
    segment: Segment,
    limit: int,
    now: datetime | None = None,
    extra_locks: frozenset[int] = frozenset(),
    *,
    blocking: bool = True,
) -> int:
    with store().write_transaction():
        # Measure inside the transaction: waiting for other writers must not reduce the batch size.
        started = thread_time()
        locked = _lock(service_row, extra_locks, blocking=blocking)
        service = locked.get(service_row)
        pending = _take_batch(service_row, segment, limit) if service else []
        if service is None or not pending:
            return 0
        taken = TakenWork(pending)
        batch = _Batch(service, segment, locked, now)
        channels = _run_stages(batch, taken.items, taken.mark_decided, in_parts=not taken.has_events)
        channels |= _end_pieces(batch, taken.pieces)
    _adjust_size(pending, taken.decided, thread_time() - started)
    _costly_lanes.record((service_row, segment.name), len(taken.items), taken.decided)
    _report_written(batch, pending, channels, taken.pieces)
    return taken.decided or len(pending)


def _lock(service_row: int, extra_locks: frozenset[int], *, blocking: bool) -> dict[int, Service]:
    """Lock the lane's service and the extra ones, and return those that exist.

    `blocking` False: raise Busy if the lane's service is locked. With extra ones, wait in any case.
    """
    if blocking or extra_locks:
        return lock_services({service_row, *extra_locks})
    locked = lock_free_services([service_row])
    if not locked and load_accounts([service_row]):
        raise Busy
    return locked


def _report_written(
    batch: _Batch, pending: Sequence[PendingWork], channels: frozenset[int], in_pieces: Mapping[int, bool]
) -> None:
    """Enqueue these channels and count the alerts of a batch, after its commit.

    A router may have written its last events of these receipts during the transaction, which did not see it.
    """
    deliver.enqueue(channels)
    count_batch(batch.tally, batch.segment)
    events = {work.receipt for work in pending if work.event is not None}
    if held := [receipt for receipt, more in in_pieces.items() if more and receipt in events]:
        release_in_service(held, batch.service.id)


def _adjust_size(pending: Sequence[PendingWork], decided: int, seconds: float) -> None:
    """Adapt the size of the next batch, or of the next piece of a receipt."""
    if pending[-1].piece is not None:
        pieces.adjust_size(pending[-1].receipt, decided, seconds)
    else:
        _batch_size.adjust(decided, seconds)


def _take_batch(service_row: int, segment: Segment, limit: int) -> list[PendingWork]:
    """Take the oldest pending work, about `limit` alerts.

    If maintenance deferred all these alerts, take more: larger batches lead to fewer messages
    (RELEASED_FACTOR in workers/alerts/batches.py).
    """
    pending = _take(service_row, segment, limit)
    if len(pending) < limit or not all(work.is_released for work in pending):
        return pending
    more = _take(service_row, segment, min(limit * RELEASED_FACTOR, MAX_RELEASED))
    return list(takewhile(lambda work: work.is_released, more))


def _take(service_row: int, segment: Segment, limit: int) -> list[PendingWork]:
    events = load_pending_events(service_row, segment, _segments, limit)
    receipts = load_pending_receipts(service_row, limit) if segment is _segments[0] else []
    merged = merge_in_order(receipts, events, limit)
    # A piece fills a transaction.
    return merged[:-1] if len(merged) > 1 and merged[-1].piece is not None else merged


def _run_stages(
    batch: _Batch,
    items: Sequence[AlertInProgress],
    on_decided: Callable[[int], dict[int, bool]],
    *,
    in_parts: bool = False,
) -> frozenset[int]:
    """Decide on these alerts and write the result. Return the channels with messages to send.

    If their rules take much time, leave the last ones for the next batch (DecisionTime).
    `on_decided` is called with the number of alerts that were decided, before the last results are written.
    It returns the receipts that may be in pieces, and whether more pieces follow. `in_parts`: the first
    results may be written earlier, while the next alerts are decided.
    """
    if not items:
        _name_shared(batch, on_decided(0))
        return frozenset()
    first, *others = _split(items) if in_parts else [items]
    time = DecisionTime(is_released=all(item.alert.released_at is not None for item in items))
    outcome, state = _decide(batch, items, first, time)
    writer, decided = Writer(load_lane_state.get_rows(state)), len(outcome.events)
    batch.tally.add_events(outcome.events)
    with store().sending_ahead():
        for part in others if decided == len(first) else ():
            writer.add(outcome)
            outcome = _decide_next(batch, part, state, time)
            decided += len(outcome.events)
            batch.tally.add_events(outcome.events)
            if len(outcome.events) < len(part):
                break
        shared = _name_shared(batch, on_decided(decided))
        channels = writer.finish(outcome, shared).channels
    for alert in state.skipped.values():
        channels |= report_dead_letters.report_skipped_rules(batch.service, alert, batch.now)
    return channels


def _split(items: Sequence[AlertInProgress]) -> list[Sequence[AlertInProgress]]:
    """Divide the alerts into parts, if the database can write one while the next one is decided."""
    size = len(items) if store().has_single_writer else store().write_batch
    return [items[start : start + size] for start in range(0, len(items), size)]


def _decide_next(
    batch: _Batch, part: Sequence[AlertInProgress], state: LaneState, time: DecisionTime
) -> ChangeSet:
    """Return the decisions on the next part; none if they would need facts that are not loaded."""
    if time.is_over():
        return ChangeSet()
    skipped = dict(state.skipped)
    with time:
        outcome = run_stages(part, batch.segment, state, time.is_over)
    if state.locks_missing:
        raise retry.LocksMissing(state.locks_missing)
    if state.missing:
        # The next transaction loads them, and decides again.
        state.skipped = skipped
        return ChangeSet()
    return outcome


def _name_shared(batch: _Batch, in_pieces: Mapping[int, bool]) -> dict[int, str]:
    """Return the names of receipts whose pieces share messages.

    If nothing follows and there are no messages, these are the only alerts of the receipt in this service.
    Then its notifications share messages with those of the other receipts of the batch.
    """
    if batch.segment.next_segment is not None:
        return {}
    names = {receipt: name_pieces(receipt, batch.service.id) for receipt in in_pieces}
    last = [names[receipt] for receipt, more in in_pieces.items() if not more]
    known = list_with_messages(last)
    return {receipt: name for receipt, name in names.items() if in_pieces[receipt] or name in known}


def _end_pieces(batch: _Batch, in_pieces: Mapping[int, bool]) -> frozenset[int]:
    """Hold the messages of receipts for their next piece, or let them be sent. Return their channels."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for receipt, more in in_pieces.items():
        names[more].append(name_pieces(receipt, batch.service.id))
    extend(names[True])
    return release(names[False]) if names[False] else frozenset()


def _decide(
    batch: _Batch, items: Sequence[AlertInProgress], first: Sequence[AlertInProgress], time: DecisionTime
) -> tuple[ChangeSet, LaneState]:
    """Return the decisions on the first of these alerts, and the state for the others.

    A rule can give an alert another entity_id, and grouping policies look for values. What was not loaded is
    loaded too, and the same alerts are decided again.
    """
    # Called before each alert. After an attempt that needed more facts, the time no longer matters.
    is_over = time.is_over
    keys: set[LaneKey] = set(list_entities([item.alert for item in items]))
    accepted_at = min(item.alert.effective_at for item in items)
    while True:
        state = load_lane_state.load(
            batch.service, keys, batch.locked, accepted_at=accepted_at, now=batch.now
        )
        with time:
            outcome = run_stages(first, batch.segment, state, is_over)
        if state.locks_missing:
            raise retry.LocksMissing(state.locks_missing)
        if not state.missing:
            return outcome, state
        keys |= state.missing
        # Later alerts could need even more facts.
        first, is_over = first[: len(outcome.events)], lambda: False
