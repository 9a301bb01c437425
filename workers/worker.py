"""The worker process: Dramatiq's worker on our broker, and the watch over the database."""

from collections.abc import Sequence

import dramatiq
import structlog

from tocsin.settings import Settings
from tocsin.signals import Signals, end_within
from workers import actors, bell, deliver, road
from workers.broker import Broker
from workers.watch import Watch

log = structlog.get_logger()

# Threads look that often whether they should stop; also how long a consumer blocks.
WAKE_MS = 1000
# Longer than a delivery may take; what is still running then is done again by another worker.
LONGEST_STOP_S = 11.0


def run(settings: Settings, redis_url: str, queues: Sequence[str] = ()) -> None:
    """Work until the process is asked to stop. `queues` are the only ones to listen to; empty: all."""
    signals = Signals()
    road.configure(settings.road_cuts)
    deliver.configure(settings)
    bell.connect(redis_url, settings.road_cuts)
    broker = Broker(redis_url)
    dramatiq.set_broker(broker)
    actors.declare(broker, settings)
    worker = dramatiq.Worker(
        broker,
        queues=set(queues) or None,
        worker_timeout=WAKE_MS,
        worker_threads=settings.worker_threads,
    )
    watch = Watch()
    worker.start()
    watch.start()
    log.info("working", queues=sorted(queues) or sorted(broker.queues), threads=settings.worker_threads)
    signals.wait_for_stop()
    end_within(LONGEST_STOP_S)
    watch.stop()
    worker.stop()
    watch.join()
