"""The actors of the pipeline: each processes the lanes of services from one stage on.

An actor gets wake-ups only if a queue begins at its stage (TOCSIN_PIPELINE_QUEUES). Otherwise, an earlier
actor also runs its stages.
"""

import math
from collections.abc import Sequence
from functools import partial

import dramatiq

from models.load.lane import load_accounts
from models.store.store import store
from pipeline.topology import Segment
from workers import queue
from workers.alerts import process_lane, process_lanes
from workers.alerts.process_lanes import CommonResult
from workers.broker import broker
from workers.lane_turns import BusyLanes, Gathering, Linger, turns

# How long a thread processes lanes together. Then another wake-up continues, so that a process can stop.
GATHERING_S = 0.25
# In a storm, common batches have more alerts if the thread waits before the next one. Not after a batch that
# was nearly full, and not after one with so few alerts that its lanes linger.
PAUSE_S = 0.02
FULL_SHARE = 0.7
# Longer if another worker had locked some of the lanes. Two workers that each take what the other one has
# just left need half as much CPU time again, because all their batches are small.
BUSY_PAUSE_S = 0.05

_linger = Linger()
_busy_lanes = BusyLanes()
# By account, so that no account waits for the lanes of another one.
_gatherings: dict[int, Gathering] = {}
_accounts: dict[int, int] = {}
# Lanes (row numbers of services) that had much work at their last turn: they are processed alone.
_large_lanes: set[int] = set()


@dramatiq.actor(broker=broker, queue_name="pipeline.normalize", actor_name="pipeline.normalize")
def normalize(service_row: int) -> None:
    _process(service_row, "normalize")


@dramatiq.actor(broker=broker, queue_name="pipeline.route", actor_name="pipeline.route")
def route(service_row: int) -> None:
    _process(service_row, "route")


@dramatiq.actor(broker=broker, queue_name="pipeline.rules", actor_name="pipeline.rules")
def rules(service_row: int) -> None:
    _process(service_row, "rules")


@dramatiq.actor(broker=broker, queue_name="pipeline.incident", actor_name="pipeline.incident")
def incident(service_row: int) -> None:
    _process(service_row, "dedupe")


def send(service_row: int, stage: str = "normalize", delay_ms: int | None = None) -> None:
    """Send a service's lane to the actor that processes this stage. With a delay, the lane lingers."""
    queue.enqueue(process_lane.get_segment(stage).queue, service_row, delay_ms=delay_ms)


def is_covered(service_row: int, stage: str) -> bool:
    """Return whether the lane lingers, or whether a thread that already works will also process it."""
    segment = process_lane.get_segment(stage)
    if _needs_no_turn((service_row, segment.name)):
        return True
    # Only of a lane that was processed before: nothing may wait for the database here.
    account = _accounts.get(service_row)
    if account is None or not _is_common(service_row, segment):
        return False
    return _gatherings.setdefault(account, Gathering()).add_to_running(service_row)


def _needs_no_turn(lane: tuple[int, str]) -> bool:
    """Return whether the lane lingers, or whether a thread processes it alone, which then sends it again."""
    return _linger.is_lingering(lane) or turns.request_again(lane)


def _is_common(service_row: int, segment: Segment) -> bool:
    return segment.is_whole and service_row not in _large_lanes


for _actor, _stage in ((normalize, "normalize"), (route, "route"), (rules, "rules"), (incident, "dedupe")):
    broker.add_cover(_actor.queue_name, partial(is_covered, stage=_stage))


def _process(service_row: int, stage: str) -> None:
    """Process a lane, unless it lingers: together with others or, if it has much work, alone."""
    segment = process_lane.get_segment(stage)
    if _needs_no_turn((service_row, segment.name)):
        return
    if _is_common(service_row, segment):
        gathering = _get_gathering(service_row)
        for row in gathering.work(service_row, lambda lanes: _process_common(lanes, segment), GATHERING_S):
            send(row, stage)
    else:
        _process_alone(service_row, segment)


def _get_gathering(service_row: int) -> Gathering:
    """Return what gathers the lanes of the service's account.

    SQLite uses the row number of a deleted service again, so this may be the one of another account. It only
    decides which lanes wait for each other: process_lanes.run() reads the accounts.
    """
    account = _accounts.get(service_row)
    if account is None:
        account = _accounts[service_row] = load_accounts([service_row]).get(service_row, 0)
    return _gatherings.setdefault(account, Gathering())


def _process_common(lanes: Sequence[int], segment: Segment) -> tuple[Sequence[int], float]:
    """Process these lanes in common batches.

    Return those for which there was no room, and the pause before the next common batch.
    """
    result = process_lanes.run(lanes, segment)
    for row in result.others:
        _large_lanes.add(row)
        send(row, segment.name)
    for row in lanes:
        _busy_lanes.record((row, segment.name), is_busy=row in result.busy)
    for row in result.busy:
        _send_busy(row, segment)
    for row in result.done:
        if linger_s := _linger.record_turn((row, segment.name), result.alerts, len(result.done)):
            send(row, segment.name, delay_ms=_round_up(linger_s))
    return result.left, _choose_pause_s(result)


def _choose_pause_s(result: CommonResult) -> float:
    """Return how long to wait before the next common batch, so that more alerts arrive for it."""
    if result.left or result.alerts >= store().write_batch * FULL_SHARE:
        return 0.0
    if result.busy:
        return BUSY_PAUSE_S
    return PAUSE_S if result.alerts >= Linger.SMALL_BATCH else 0.0


def _process_alone(service_row: int, segment: Segment) -> None:
    """Process a lane for a while. Send it again if work is pending then."""
    lane, more, is_busy, linger_s = (service_row, segment.name), False, False, 0.0
    _large_lanes.discard(service_row)

    def is_enough(taken: int) -> bool:
        nonlocal linger_s
        linger_s = _linger.record_turn(lane, taken)
        if taken >= Linger.SMALL_BATCH:
            _large_lanes.add(service_row)
        return linger_s > 0

    def work() -> None:
        nonlocal more, is_busy
        with _busy_lanes.let_one_block(lane) as may_block:
            result = process_lane.run(
                service_row, segment.name, process_lane.SLICE_S, is_enough, blocking=may_block
            )
        more, is_busy = result.more, result.is_busy
        _busy_lanes.record(lane, is_busy=is_busy)
        if result.taken and segment.next_segment:
            send(service_row, segment.next_segment)

    requested_again = turns.work(lane, work)
    if linger_s:
        send(service_row, segment.name, delay_ms=_round_up(linger_s))
    elif is_busy:
        _send_busy(service_row, segment)
    elif requested_again or more:
        send(service_row, segment.name)


def _send_busy(service_row: int, segment: Segment) -> None:
    """Send a lane again in a moment: another transaction has locked it.

    To wait for the lock would occupy a thread. If another worker has it, the thread would then find only what
    arrived meanwhile: a small batch, which costs almost as much as a large one. After a while the lane is
    waited for nevertheless, alone (BusyLanes).
    """
    if _busy_lanes.is_starving((service_row, segment.name)):
        _large_lanes.add(service_row)
    send(service_row, segment.name, delay_ms=_round_up(Linger.MIN_LINGER_S))


def _round_up(seconds: float) -> int:
    """Return the milliseconds, rounded up: a wake-up before the end of a linger would be dropped."""
    return math.ceil(seconds * 1000)
