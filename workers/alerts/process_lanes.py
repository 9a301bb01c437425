"""Process the lanes of several services in one transaction, if each of them has few pending alerts.

A transaction needs almost as many statements for one alert as for fifty. Many lanes with few alerts each are
therefore processed together: every kind of row is read and written once for all of them. The decisions are
those of workers/alerts/process_lane.py, and no lane sees the state of another one.

Lanes with other work are left to process_lane.py, each in its own transaction: with many alerts, a receipt in
pieces, events, a round robin, or a decision that needs more locks or fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from time import thread_time

import structlog

from models.domain.effects import AdvanceRoundRobin, ChangeSet
from models.load.lane import load_accounts, lock_free_services
from models.store.store import STORE_ERRORS, store
from models.tables.services import Service
from models.write.apply import apply
from pipeline.lane_state import LaneKey, LaneState
from pipeline.run_stages import AlertInProgress, list_entities, run_stages
from pipeline.topology import Segment
from workers.alerts import load_lane_state
from workers.alerts.batches import BatchSize, CostlyLanes, DecisionTime
from workers.alerts.load_lane_state import LaneRequest
from workers.alerts.pending import PendingWork, load_small_lanes
from workers.alerts.taken_work import build_items, mark_done
from workers.alerts.tally import Tally, count_batch
from workers.delivery import deliver

log = structlog.get_logger()

# A transaction locks at most this number of lanes.
MAX_LANES = 50

_batch_size = BatchSize()
# By account, whose lanes share a transaction.
_costly_lanes = CostlyLanes()


@dataclass(slots=True)
class CommonResult:
    """What became of some lanes, by row number of the service.

    `done` are the lanes whose pending alerts were processed, `alerts` the number of these. `busy` are locked
    by another transaction, or were just deleted. `others` must be processed alone. `left` did not fit into
    the transaction.
    """

    done: set[int] = field(default_factory=set)
    alerts: int = 0
    busy: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)
    left: list[int] = field(default_factory=list)

    def add(self, other: "CommonResult") -> None:
        self.done |= other.done
        self.alerts += other.alerts
        self.busy |= other.busy
        self.others |= other.others
        self.left += other.left


def run(lanes: Sequence[int], segment: Segment, now: datetime | None = None) -> CommonResult:
    """Process these lanes, those of one account in one transaction. `now` replaces the clock of the database.

    Earlier lanes come first. The segment must be the whole pipeline. Enqueue the channels that have messages
    to send.
    """
    result = CommonResult()
    accounts: dict[int, list[int]] = {}
    account_of = load_accounts(lanes)
    for row in lanes:
        if row in account_of:
            accounts.setdefault(account_of[row], []).append(row)
    for account, rows in accounts.items():
        result.add(_run_account(account, rows, segment, now))
    return result


def _run_account(account: int, lanes: Sequence[int], segment: Segment, now: datetime | None) -> CommonResult:
    try:
        return _run_transaction(account, lanes, segment, now)
    except Exception as error:
        if isinstance(error, STORE_ERRORS):
            _batch_size.reduce()
        if store().is_unavailable(error):
            raise
        # The transaction of the lane that fails reports the alert.
        log.exception("batch failed, processing its lanes one by one", services=list(lanes))
        return CommonResult(others=set(lanes))


@dataclass(slots=True)
class _Lane:
    """A locked service and its pending alerts, with the decisions on them."""

    service: Service
    pending: Sequence[PendingWork]
    items: Sequence[AlertInProgress]
    keys: set[LaneKey]
    state: LaneState | None = None
    outcome: ChangeSet = field(default_factory=ChangeSet)

    @property
    def request(self) -> LaneRequest:
        accepted_at = min(item.alert.effective_at for item in self.items)
        # Of a merged incident in another lane, two lanes must not decide on their own copies.
        return LaneRequest(self.service, self.keys, accepted_at, {self.service.id})


def _run_transaction(
    account: int, lanes: Sequence[int], segment: Segment, now: datetime | None
) -> CommonResult:
    tally, beyond = Tally(), lanes[MAX_LANES:]
    lanes, limit = lanes[:MAX_LANES], _costly_lanes.get_limit(account, _batch_size.get_small_limit())
    with store().write_transaction():
        # Measure inside the transaction: waiting for other writers must not reduce the batch size.
        started = thread_time()
        locked = lock_free_services(lanes)
        small = load_small_lanes([row for row in lanes if row in locked], limit)
        parsed = [_parse(locked[row], work) for row, work in small.work.items()]
        decided, undecided = _decide([lane for lane in parsed if lane is not None], segment, now)
        channels = _write(decided) if decided else frozenset[int]()
    for lane in decided:
        tally.add_events(lane.outcome.events)
    _batch_size.adjust(tally.alerts, thread_time() - started)
    _costly_lanes.record(account, tally.alerts + sum(len(lane.items) for lane in undecided), tally.alerts)
    deliver.enqueue(channels)
    count_batch(tally, segment)
    done = {lane.service.id for lane in decided}
    left = [*small.left, *(lane.service.id for lane in undecided), *beyond]
    without_work = locked.keys() - small.work.keys() - small.others
    others = locked.keys() - done - without_work - {*left}
    return CommonResult(done, tally.alerts, {*lanes} - locked.keys(), others, left)


def _parse(service: Service, pending: Sequence[PendingWork]) -> _Lane | None:
    """Return the lane with its alerts; None: a body cannot be parsed."""
    try:
        items = [item for work in pending for item in build_items(work)]
    except Exception:
        # Its own transaction reports it.
        return None
    return _Lane(service, pending, items, set(list_entities([item.alert for item in items])))


def _decide(
    lanes: Sequence[_Lane], segment: Segment, now: datetime | None
) -> tuple[list[_Lane], list[_Lane]]:
    """Decide on the alerts of each lane. Return the lanes whose decisions can be written together.

    What a lane looked up without success in its state is loaded, and its alerts are decided again. If the
    rules of the first lanes take much time, return the others as undecided.
    """
    decided: list[_Lane] = []
    undecided, time = list(lanes), DecisionTime()
    while undecided and not time.is_over():
        states = load_lane_state.load_states([lane.request for lane in undecided], now)
        again = []
        for number, (lane, state) in enumerate(zip(undecided, states, strict=True)):
            if number and time.is_over():
                again += undecided[number:]
                break
            with time:
                is_common = _run_stages(lane, state, segment)
            if is_common and state.missing:
                lane.keys |= state.missing
                again.append(lane)
            elif is_common:
                decided.append(lane)
        undecided = again
    # Without progress, each lane is processed alone.
    return decided, undecided if decided else []


def _run_stages(lane: _Lane, state: LaneState, segment: Segment) -> bool:
    """Decide on the alerts of a lane. Return False if it must be processed alone."""
    # A time of its own: a lane that the time of earlier lanes ends would be decided again, alone.
    time = DecisionTime()
    try:
        with time:
            lane.state, lane.outcome = state, run_stages(lane.items, segment, state, time.is_over)
    except Exception:
        # Its own transaction reports it.
        return False
    if state.missing:
        return True
    is_complete = len(lane.outcome.events) == len(lane.items)
    # Two lanes would take the same target.
    advances = any(isinstance(effect, AdvanceRoundRobin) for effect in lane.outcome.effects)
    return is_complete and not advances and not state.locks_missing and not state.skipped


def _write(lanes: Sequence[_Lane]) -> frozenset[int]:
    """Write the decisions on all lanes. Return the channels with messages to send."""
    mark_done([work for lane in lanes for work in lane.pending])
    rows: dict[str, int] = {}
    for lane in lanes:
        if lane.state is not None:
            rows |= load_lane_state.get_rows(lane.state)
    changes = ChangeSet(
        list(chain.from_iterable(lane.outcome.effects for lane in lanes)),
        list(chain.from_iterable(lane.outcome.events for lane in lanes)),
    )
    return apply(changes, rows).channels
