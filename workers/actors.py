"""The actors, one per queue, from the list of the road's segments and the table of channels."""

from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import structlog

from models.base import STORE_ERRORS
from models.enums import DELIVERABLE
from pipeline.topology import segments
from tocsin.settings import Settings
from workers import bell, deliver, road, timers
from workers.broker import Broker
from workers.lanes import Lanes

log = structlog.get_logger()

_lanes = Lanes()


def queues(settings: Settings) -> dict[str, Callable[..., None]]:
    """Every queue with what looks after its bells. All of them may run twice (law 2)."""
    return dict(_queues(settings))


def _queues(settings: Settings) -> Iterator[tuple[str, Callable[..., None]]]:
    for segment in segments(settings.road_cuts):
        yield bell.road_queue(segment.name), _road_actor(segment.name)
    yield bell.TIMERS, lambda: _lanes.work("timers", timers.run_due)
    for channel in sorted(DELIVERABLE):
        yield bell.deliver_queue(channel), _deliver_actor


def _road_actor(segment: str) -> Callable[[int], None]:
    def work(service_row: int) -> None:
        _lanes.work((service_row, segment), lambda: road.run(service_row, segment))

    return work


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
