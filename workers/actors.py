"""Declare one actor per queue: for the pipeline segments, the channels and the periodic jobs."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import dramatiq
import structlog

from models.domain.enums import DELIVERABLE
from models.store.base import STORE_ERRORS
from pipeline.topology import build_segments
from runtime.settings import Settings
from workers import queue
from workers.alerts import process_lane, process_router
from workers.broker import Broker
from workers.delivery import deliver
from workers.lane_turns import LaneTurns, Linger, TurnResult
from workers.periodic import missing_heartbeats, release_maintenance
from workers.timers import fire, on_config_change

log = structlog.get_logger()

_turns = LaneTurns()
_linger = Linger()


def get_actors(settings: Settings) -> dict[str, Callable[..., None]]:
    """Return the function that handles the wake-ups of each queue, by the queue's name.

    Each function may run twice for the same wake-up: invariant 2 (design, section 2).
    """
    return dict(_iterate_actors(settings))


def _iterate_actors(settings: Settings) -> Iterator[tuple[str, Callable[..., None]]]:
    for segment in build_segments(settings.pipeline_queues):
        yield queue.get_pipeline_queue(segment.name), _create_lane_actor(segment.name)
    yield queue.ROUTERS, _process_router
    yield queue.TIMERS, _fire_timers
    yield queue.MAINTENANCE, _release_maintenance
    yield queue.RECONCILE, _reconcile
    yield queue.HEARTBEATS, _report_missing_heartbeats
    for channel in sorted(DELIVERABLE):
        yield queue.get_delivery_queue(channel), _send_messages


# How long a lane that is never empty keeps a thread; then it goes to the end of its queue. Otherwise, as many
# busy lanes as there are threads would delay all other lanes and the deliveries.
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

        result, requested_again = _take_turn(
            lane, lambda: process_lane.run(service_row, segment, SLICE_S, is_enough)
        )
        if linger_s:
            queue.linger_lane(service_row, segment, linger_s)
        elif requested_again or (result and result.more):
            queue.enqueue_lane(service_row, segment)

    return work


def _process_router(router_row: int) -> None:
    result, requested_again = _take_turn(
        (router_row, "router"), lambda: process_router.run(router_row, SLICE_S)
    )
    if requested_again or (result and result.more):
        queue.enqueue_router(router_row)


def _fire_timers() -> None:
    if _turns.work("timers", fire.fire_due):
        queue.enqueue_timers()


def _release_maintenance() -> None:
    if _turns.work("maintenance", release_maintenance.release_deferred):
        queue.enqueue_maintenance()


def _report_missing_heartbeats() -> None:
    if _turns.work("heartbeats", missing_heartbeats.report_missing):
        queue.enqueue_heartbeats()


def _reconcile(column: str, row: int) -> None:
    if _turns.work((column, row), lambda: on_config_change.reconcile_after_change(column, row)):
        queue.enqueue_reconcile(column, row)


def _take_turn(lane: Hashable, work: Callable[[], TurnResult]) -> tuple[TurnResult | None, bool]:
    """Do the work of a lane. Return its result and whether a wake-up for the lane arrived meanwhile.

    The result is None while another thread works on the lane.
    """
    result: list[TurnResult] = []
    requested_again = _turns.work(lane, lambda: result.append(work()))
    return (result[0] if result else None), requested_again


def _send_messages(channel: int) -> None:
    deliver.send_due(channel)


def declare_actors(broker: Broker, settings: Settings) -> None:
    """Declare the actors on the broker. An actor has the name of its queue."""
    for queue_name, work in get_actors(settings).items():
        dramatiq.actor(broker=broker, queue_name=queue_name, actor_name=queue_name)(_guard(queue_name, work))


def _guard(queue_name: str, work: Callable[..., None]) -> Callable[..., None]:
    """Drop the wake-up when the database fails. The poller finds the pending work again."""

    def guarded(*args: Any) -> None:
        try:
            work(*args)
        except STORE_ERRORS as error:
            log.warning("the database cannot be used", queue_name=queue_name, error=type(error).__name__)

    return guarded
