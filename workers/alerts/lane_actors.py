"""The actors of the pipeline: each processes the lanes of services from one stage on.

An actor gets wake-ups only if a queue begins at its stage (TOCSIN_PIPELINE_QUEUES). Otherwise, an earlier
actor also runs its stages.
"""

import math

import dramatiq

from workers.alerts import process_lane
from workers.broker import broker
from workers.lane_turns import Linger, turns

_linger = Linger()


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
    actor = broker.get_actor(process_lane.get_segment(stage).queue)
    actor.send_with_options(args=(service_row,), delay=delay_ms)


def _process(service_row: int, stage: str) -> None:
    """Process a lane for a while, unless it lingers. Send it again if work is pending then."""
    segment = process_lane.get_segment(stage)
    lane, more, linger_s = (service_row, segment.name), False, 0.0
    if _linger.is_lingering(lane):
        return

    def is_enough(taken: int) -> bool:
        nonlocal linger_s
        linger_s = _linger.record_turn(lane, taken)
        return linger_s > 0

    def work() -> None:
        nonlocal more
        result = process_lane.run(service_row, stage, process_lane.SLICE_S, is_enough)
        more = result.more
        if result.taken and segment.next_segment:
            send(service_row, segment.next_segment)

    requested_again = turns.work(lane, work)
    if linger_s:
        # Rounded up: a wake-up before the end of the linger would be dropped.
        send(service_row, stage, delay_ms=math.ceil(linger_s * 1000))
    elif requested_again or more:
        send(service_row, stage)
