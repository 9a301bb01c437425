"""Run the worker process: Dramatiq's worker on our broker, and the poller."""

from collections.abc import Sequence

import dramatiq
import structlog

from runtime.settings import Settings
from runtime.signals import Signals, exit_after
from workers import actors, queue
from workers.alerts import process_lane
from workers.broker import Broker
from workers.delivery import deliver
from workers.poller import Poller

log = structlog.get_logger()

# Interval in which threads check whether they should stop; a consumer also blocks for this time.
POLL_MS = 1000
# Longer than a delivery may take. Another worker repeats what is still running then.
STOP_TIMEOUT_S = 11.0


def run(settings: Settings, redis_url: str, queues: Sequence[str] = ()) -> None:
    """Process wake-ups until the process is asked to stop. `queues` limits the queues; empty: all."""
    signals = Signals()
    process_lane.configure(settings.pipeline_queues)
    deliver.configure(settings)
    queue.connect(redis_url, settings.pipeline_queues)
    broker = Broker(redis_url)
    dramatiq.set_broker(broker)
    actors.declare_actors(broker, settings)
    worker = dramatiq.Worker(
        broker,
        queues=set(queues) or None,
        worker_timeout=POLL_MS,
        worker_threads=settings.worker_threads,
    )
    poller = Poller()
    worker.start()
    poller.start()
    log.info("working", queues=sorted(queues) or sorted(broker.queues), threads=settings.worker_threads)
    signals.wait_for_stop()
    exit_after(STOP_TIMEOUT_S)
    poller.stop()
    worker.stop()
    poller.join()
