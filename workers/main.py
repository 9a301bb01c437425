"""The worker process, by two commands: `tocsin worker`, or `dramatiq workers.main`."""

from collections.abc import Sequence

import dramatiq
import structlog

from models.domain.channels import USER_EMAIL_CHANNEL
from models.reports.delivery_problems import describe_problem
from models.store import prepared
from models.store.warm_up import warm_up
from runtime import garbage
from runtime.settings import Settings, list_values
from runtime.signals import Signals, exit_after
from workers import middleware
from workers.alerts import amazon, lane_actors, process_lane, process_router
from workers.broker import broker
from workers.delivery import deliver, replies
from workers.outbound import sender
from workers.periodic import expired_entities, missing_heartbeats, release_maintenance
from workers.timers import fire, on_config_change

log = structlog.get_logger()

# The modules that declare actors.
ACTORS = (
    lane_actors,
    process_router,
    fire,
    on_config_change,
    release_maintenance,
    missing_heartbeats,
    expired_entities,
    deliver,
    sender,
    replies,
)

show_liveness = middleware.ShowLiveness()

# Besides one for each thread of the broker: for the mails, and for the transaction of incident numbers.
OTHER_CONNECTIONS = 2
# Longer than a delivery may take. Another worker repeats what is still running then.
STOP_TIMEOUT_S = 11.0


def configure(settings: Settings, redis_url: str) -> None:
    """Give the settings to the actors, and connect the broker."""
    if problem := describe_problem(list_values(settings), USER_EMAIL_CHANNEL):
        log.warning(problem)
    show_liveness.configure(settings)
    process_lane.configure(settings.pipeline_queues)
    amazon.configure(settings)
    deliver.configure(settings)
    sender.configure(settings)
    replies.configure(settings)
    broker.connect(redis_url)
    prepared.compile_all()
    warm_up(settings.worker_threads + OTHER_CONNECTIONS)
    garbage.freeze_loaded()
    garbage.collect_rarely()


broker.add_middleware(middleware.ProcessBoot(configure))
broker.add_middleware(middleware.LogContext())
broker.add_middleware(middleware.StoreConnection())
broker.add_middleware(show_liveness)
broker.add_middleware(middleware.Polling())


def run(settings: Settings, redis_url: str, queues: Sequence[str] = ()) -> None:
    """Process wake-ups until the process is asked to stop. `queues` limits the queues; empty: all."""
    garbage.keep_few_blocks()
    signals = Signals()
    configure(settings, redis_url)
    worker = dramatiq.Worker(broker, queues=set(queues) or None, worker_threads=settings.worker_threads)
    worker.start()
    signals.wait_for_stop()
    exit_after(STOP_TIMEOUT_S)
    worker.stop()
    broker.close()
