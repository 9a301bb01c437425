"""The actors, one per queue, from the list of the road's segments and the table of channels."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import dramatiq
import structlog

from models.domain.enums import DELIVERABLE
from models.store.base import STORE_ERRORS
from pipeline.topology import build_segments
from runtime.settings import Settings
from workers import bell, deliver, heartbeats, maintenance, replanning, road, routing, timers
from workers.broker import Broker
from workers.lanes import LaneTurns, Linger, TurnResult

log = structlog.get_logger()

_turns = LaneTurns()
_linger = Linger()


def get_actors(settings: Settings) -> dict[str, Callable[..., None]]:
    """Every queue with what looks after its bells. All of them may run twice (law 2)."""
    return dict(_iterate_actors(settings))


def _iterate_actors(settings: Settings) -> Iterator[tuple[str, Callable[..., None]]]:
    for segment in build_segments(settings.pipeline_queues):
        yield bell.get_pipeline_queue(segment.name), _create_lane_actor(segment.name)
    yield bell.ROUTERS, _process_router
    yield bell.TIMERS, _fire_timers
    yield bell.MAINTENANCE, _release_maintenance
    yield bell.RECONCILE, _reconcile
    yield bell.HEARTBEATS, _report_missing_heartbeats
    for channel in sorted(DELIVERABLE):
        yield bell.get_delivery_queue(channel), _send_messages


# How long a lane that is never empty keeps a thread; then it stands at the end of its queue, so that as many
# busy lanes as there are threads do not keep all others, and the deliveries, waiting.
SLICE_S = 0.1


def _create_lane_actor(segment: str) -> Callable[[int], None]:
    def work(service_row: int) -> None:
        lane, linger_s = (service_row, segment), 0.0
        if _linger.is_lingering(lane):
            return

        def is_enough(taken: int) -> bool:
            nonlocal linger_s
            linger_s = _linger.record_turn(lane, taken)
            return linger_s > 0

        result, requested_again = _take_turn(lane, lambda: road.run(service_row, segment, SLICE_S, is_enough))
        if linger_s:
            bell.linger_lane(service_row, segment, linger_s)
        elif requested_again or (result and result.more):
            bell.enqueue_lane(service_row, segment)

    return work


def _process_router(router_row: int) -> None:
    result, requested_again = _take_turn((router_row, "router"), lambda: routing.run(router_row, SLICE_S))
    if requested_again or (result and result.more):
        bell.enqueue_router(router_row)


def _fire_timers() -> None:
    if _turns.work("timers", timers.fire_due):
        bell.enqueue_timers()


def _release_maintenance() -> None:
    if _turns.work("maintenance", maintenance.release_deferred):
        bell.enqueue_maintenance()


def _report_missing_heartbeats() -> None:
    if _turns.work("heartbeats", heartbeats.report_missing):
        bell.enqueue_heartbeats()


def _reconcile(column: str, row: int) -> None:
    if _turns.work((column, row), lambda: replanning.reconcile_after_change(column, row)):
        bell.enqueue_reconcile(column, row)


def _take_turn(lane: Hashable, work: Callable[[], TurnResult]) -> tuple[TurnResult | None, bool]:
    """What was taken (None while another thread has the lane), and whether it was rung for meanwhile."""
    result: list[TurnResult] = []
    requested_again = _turns.work(lane, lambda: result.append(work()))
    return (result[0] if result else None), requested_again


def _send_messages(channel: int) -> None:
    deliver.send_due(channel)


def declare_actors(broker: Broker, settings: Settings) -> None:
    """Give the broker its actors; an actor is named like its queue."""
    for queue_name, work in get_actors(settings).items():
        dramatiq.actor(broker=broker, queue_name=queue_name, actor_name=queue_name)(_guard(queue_name, work))


def _guard(queue_name: str, work: Callable[..., None]) -> Callable[..., None]:
    """A store that fails ends the bell, not the work: the next look into the database finds it again."""

    def guarded(*args: Any) -> None:
        try:
            work(*args)
        except STORE_ERRORS as error:
            log.warning("the database cannot be used", queue_name=queue_name, error=type(error).__name__)

    return guarded
