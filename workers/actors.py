"""The actors, one per queue, from the list of the road's segments and the table of channels."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import dramatiq
import structlog

from models.base import STORE_ERRORS
from models.enums import DELIVERABLE
from pipeline.topology import segments
from tocsin.settings import Settings
from workers import bell, deliver, heartbeats, maintenance, replanning, road, routing, timers
from workers.broker import Broker
from workers.lanes import Lanes, Linger, Ran

log = structlog.get_logger()

_lanes = Lanes()
_linger = Linger()


def queues(settings: Settings) -> dict[str, Callable[..., None]]:
    """Every queue with what looks after its bells. All of them may run twice (law 2)."""
    return dict(_queues(settings))


def _queues(settings: Settings) -> Iterator[tuple[str, Callable[..., None]]]:
    for segment in segments(settings.road_cuts):
        yield bell.road_queue(segment.name), _road_actor(segment.name)
    yield bell.ROUTERS, _router_actor
    yield bell.TIMERS, _timers_actor
    yield bell.MAINTENANCE, _maintenance_actor
    yield bell.REPLANNING, _replanning_actor
    yield bell.HEARTBEATS, _heartbeats_actor
    for channel in sorted(DELIVERABLE):
        yield bell.deliver_queue(channel), _deliver_actor


# How long a lane that is never empty keeps a thread; then it stands at the end of its queue, so that as many
# busy lanes as there are threads do not keep all others, and the deliveries, waiting.
SLICE_S = 0.1


def _road_actor(segment: str) -> Callable[[int], None]:
    def work(service_row: int) -> None:
        lane, rest_s = (service_row, segment), 0.0
        if _linger.rests(lane):
            return

        def is_enough(taken: int) -> bool:
            nonlocal rest_s
            rest_s = _linger.after(lane, taken)
            return rest_s > 0

        ran, asked_again = _turn(lane, lambda: road.run(service_row, segment, SLICE_S, is_enough))
        if rest_s:
            bell.rest_road(service_row, segment, rest_s)
        elif asked_again or (ran and ran.more):
            bell.ring_road(service_row, segment)

    return work


def _router_actor(router_row: int) -> None:
    ran, asked_again = _turn((router_row, "router"), lambda: routing.run(router_row, SLICE_S))
    if asked_again or (ran and ran.more):
        bell.ring_router(router_row)


def _timers_actor() -> None:
    if _lanes.work("timers", timers.run_due):
        bell.ring_timers()


def _maintenance_actor() -> None:
    if _lanes.work("maintenance", maintenance.release):
        bell.ring_maintenance()


def _heartbeats_actor() -> None:
    if _lanes.work("heartbeats", heartbeats.raise_missing):
        bell.ring_heartbeats()


def _replanning_actor(column: str, row: int) -> None:
    if _lanes.work((column, row), lambda: replanning.plan_anew(column, row)):
        bell.ring_replanning(column, row)


def _turn(lane: Hashable, work: Callable[[], Ran]) -> tuple[Ran | None, bool]:
    """What was taken (None while another thread has the lane), and whether it was rung for meanwhile."""
    ran: list[Ran] = []
    asked_again = _lanes.work(lane, lambda: ran.append(work()))
    return (ran[0] if ran else None), asked_again


def _deliver_actor(channel: int) -> None:
    deliver.drain(channel)


def declare(broker: Broker, settings: Settings) -> None:
    """Give the broker its actors; an actor is named like its queue."""
    for queue, work in queues(settings).items():
        dramatiq.actor(broker=broker, queue_name=queue, actor_name=queue)(_sheltered(queue, work))


def _sheltered(queue: str, work: Callable[..., None]) -> Callable[..., None]:
    """A store that fails ends the bell, not the work: the next look into the database finds it again."""

    def sheltered(*args: Any) -> None:
        try:
            work(*args)
        except STORE_ERRORS as error:
            log.warning("the database cannot be used", queue=queue, error=type(error).__name__)

    return sheltered
