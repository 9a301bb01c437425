"""Enqueue wake-ups, also from processes without actors: web processes and commands.

A wake-up may be lost, late or duplicated: invariant 2 (design, section 2). Enqueuing never raises and never
waits.

The broker is loaded by the first wake-up: Dramatiq and the client of Redis need as much time as a command
that enqueues nothing.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from models.domain.channels import get_channel_name

if TYPE_CHECKING:
    from workers.broker import Broker

_splits: tuple[str, ...] = ()
# The Redis of a command.
_command_url = ""


def connect(url: str, splits: Iterable[str] = ()) -> None:
    """Send wake-ups to this Redis from now on. Without one, they are dropped.

    `splits` are the queue splits of the pipeline (TOCSIN_PIPELINE_QUEUES).
    """
    global _splits
    _splits = tuple(splits)
    _find_queue("normalize", _splits)
    _get_broker().connect(url)


@contextmanager
def connected(url: str) -> Iterator[None]:
    """Connect to this Redis for the first wake-up, and disconnect at the end of the block. For commands."""
    global _command_url
    _command_url = url
    try:
        yield
    finally:
        _command_url = ""
        if "workers.broker" in sys.modules:
            _get_broker().close()


def _get_broker() -> "Broker":
    """Return the broker of this process, connected if a command has said to which Redis."""
    from workers.broker import broker

    if _command_url and not broker.url:
        broker.connect(_command_url)
    return broker


def enqueue(queue: str, *args: int | str, delay_ms: int | None = None) -> None:
    """Enqueue a wake-up for the actor of a queue; both have the same name. `args` are ids.

    With a delay, wake-ups for the same work are ignored for that time. Then one is enqueued.
    """
    import dramatiq

    # A wake-up needs no random ID and no time: these cost more than everything else here.
    wake_up: dramatiq.Message[None] = dramatiq.Message(queue, queue, args, {}, {}, queue, 0)
    _get_broker().enqueue(wake_up, delay=delay_ms)


def enqueue_lane(service_row: int, stage: str = "normalize") -> None:
    """Enqueue a service's lane: it has pending work at this stage of the pipeline."""
    enqueue(_find_queue(stage, _splits), service_row)


@cache
def _find_queue(stage: str, splits: tuple[str, ...]) -> str:
    """Return the queue of a stage. The stages are loaded here: most commands enqueue no lane."""
    from pipeline.topology import build_segments, find_segment

    return find_segment(build_segments(splits), stage).queue


def enqueue_router(router_row: int) -> None:
    enqueue("routers", router_row)


def enqueue_timers() -> None:
    enqueue("timers")


def enqueue_reconcile(column: str, row: int) -> None:
    """Enqueue the reconciliation of incidents that have this row in this column: the row was changed."""
    enqueue("reconcile", column, row)


def enqueue_delivery(channel: int) -> None:
    enqueue(f"deliver.{get_channel_name(channel)}")


def enqueue_deliveries(channels: Iterable[int]) -> None:
    for channel in channels:
        enqueue_delivery(channel)


def is_reachable() -> bool:
    """Return whether Redis answers now. Takes at most a tenth of a second."""
    broker = _get_broker()
    if not broker.url:
        return False
    import redis

    from runtime.redis import create_client

    client = create_client(broker.url, 0.05)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
