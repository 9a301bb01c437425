"""Enqueue wake-ups in Redis. A wake-up may be lost, late or duplicated: invariant 2 (design, section 2).

Nothing else writes to the queues. Enqueuing never raises and never waits: a thread of its own sends all
wake-ups that were added meanwhile in one request. A queue is a sorted set, so a lane is in it at most once,
at the position of its first wake-up. A lane that was just processed may linger: then its wake-ups are dropped
for a moment, and it gets one wake-up at the end of the linger.
"""

import atexit
import heapq
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import redis
import structlog

from models.domain.enums import ContactType
from pipeline.topology import Segment, build_segments, find_segment
from runtime.redis import create_client, redis_status

log = structlog.get_logger()

TIMERS = "timers"
MAINTENANCE = "maintenance"
RECONCILE = "reconcile"
HEARTBEATS = "heartbeats"
ROUTERS = "routers"

# Pause after a failure.
PAUSE_S = 2.0
# Wake-ups that are kept while the server does not answer. The sweep finds the lanes of all others.
MAX_PENDING = 10_000
# The longest time that the end of a process waits to send its last wake-ups.
FLUSH_TIMEOUT_S = 0.05


# If the last send was less than this time ago, the next one first waits LINGER_S, to send more at once.
MIN_INTERVAL_S = 0.02
LINGER_S = 0.005

# Add the members that do not linger now, by the server's clock, which all processes share. The script is sent
# in full each time: redis-py would ask the server for a registered script before each pipeline.
ENQUEUE_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
for i = 1, #ARGV, 2 do
  local until_ = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if not until_ or tonumber(until_) <= now then redis.call('ZADD', KEYS[1], 'NX', ARGV[i + 1], ARGV[i]) end
end
"""

# Let members linger for some seconds, and remove those whose linger is over.
LINGER_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 1, #ARGV, 2 do redis.call('ZADD', KEYS[1], now + ARGV[i + 1], ARGV[i]) end
"""


def get_pipeline_queue(segment: str) -> str:
    return f"pipeline.{segment}"


def get_delivery_queue(channel: int) -> str:
    return f"deliver.{ContactType(channel).name.lower()}"


def get_key(queue: str) -> str:
    """Return the Redis key of a queue."""
    return f"tocsin:queue:{queue}"


def get_linger_key(queue: str) -> str:
    """Return the Redis key of the set of a queue's members that linger, each with the end of its linger."""
    return f"tocsin:lingering:{queue}"


WakeUp = tuple[str, str]


@dataclass(slots=True)
class _Batch:
    """What the sender sends next: wake-ups with their times, lingers in seconds, and ends of lingers."""

    wake_ups: dict[WakeUp, float] = field(default_factory=dict)
    lingers: dict[WakeUp, float] = field(default_factory=dict)
    linger_ends: dict[WakeUp, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.wake_ups or self.lingers or self.linger_ends)

    def merge(self, later: "_Batch") -> "_Batch":
        """Return both batches as one; this one is older. Drop its lingers, which are over by now."""
        return _Batch(
            {**self.wake_ups, **later.wake_ups}, later.lingers, {**self.linger_ends, **later.linger_ends}
        )


class QueueSender:
    """Send wake-ups from a thread of its own."""

    def __init__(self, url: str) -> None:
        self._client = create_client(url)
        self._batch = _Batch()
        # Ends of the lingers that this process began.
        self._lingering: list[tuple[float, WakeUp]] = []
        self._changed = threading.Condition()
        self._sending = False
        self._sent_at = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue", daemon=True)
        self._thread.start()

    def enqueue(self, queue: str, *args: Any) -> None:
        with self._changed:
            if len(self._batch.wake_ups) < MAX_PENDING:
                self._batch.wake_ups.setdefault((queue, json.dumps(args)), time.time())
            self._changed.notify_all()

    def linger(self, seconds: float, queue: str, *args: Any) -> None:
        """Drop the member's wake-ups for `seconds`. Then enqueue it once, even without a dropped wake-up."""
        member = (queue, json.dumps(args))
        with self._changed:
            if len(self._lingering) < MAX_PENDING:
                self._batch.lingers[member] = seconds
                heapq.heappush(self._lingering, (time.monotonic() + seconds, member))
            else:
                self._batch.linger_ends.setdefault(member, time.time())
            self._changed.notify_all()

    def flush(self, timeout: float = FLUSH_TIMEOUT_S) -> bool:
        """Return whether all wake-ups were sent within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._batch and not self._sending, timeout)

    def close(self) -> None:
        """Send nothing more."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            if time.monotonic() - self._sent_at < MIN_INTERVAL_S:
                self._closed.wait(LINGER_S)
            batch = self._take_batch()
            sent = self._send(batch) if batch else True
            self._sent_at = time.monotonic()
            with self._changed:
                self._sending = False
                if not sent:
                    self._batch = batch.merge(self._batch)
                self._changed.notify_all()
            if not sent:
                self._closed.wait(PAUSE_S)

    def _take_batch(self) -> _Batch:
        """Wait for something to send or the end of a linger. Return an empty batch if the sender closes."""
        with self._changed:
            while not self._batch and not self._closed.is_set():
                self._end_lingering()
                if not self._batch:
                    ends_at = self._lingering[0][0] if self._lingering else None
                    self._changed.wait(None if ends_at is None else max(ends_at - time.monotonic(), 0.0))
            self._end_lingering()
            batch, self._batch = self._batch, _Batch()
            self._sending = bool(batch)
            return batch

    def _end_lingering(self) -> None:
        now = time.monotonic()
        while self._lingering and self._lingering[0][0] <= now:
            _, member = heapq.heappop(self._lingering)
            self._batch.linger_ends.setdefault(member, time.time())

    def _send(self, batch: _Batch) -> bool:
        try:
            pipeline = self._client.pipeline(transaction=False)
            # Lingers first: a wake-up that was added after the linger began must be dropped.
            for queue, members in _group_by_queue(batch.lingers).items():
                pipeline.eval(LINGER_SCRIPT, 1, get_linger_key(queue), *_flatten(members))
            for queue, members in _group_by_queue(batch.linger_ends).items():
                pipeline.zadd(get_key(queue), members, nx=True)
                # The server got the linger later than it began, so it would also end later: end it here, so
                # that the next wake-up is not dropped.
                pipeline.zrem(get_linger_key(queue), *members)
            for queue, members in _group_by_queue(batch.wake_ups).items():
                pipeline.eval(ENQUEUE_SCRIPT, 2, get_key(queue), get_linger_key(queue), *_flatten(members))
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            redis_status.report_down(error)
            return False
        redis_status.report_up()
        return True


def _group_by_queue(batch: dict[WakeUp, float]) -> dict[str, dict[str, float]]:
    queues: dict[str, dict[str, float]] = {}
    for (queue, member), number in batch.items():
        queues.setdefault(queue, {})[member] = number
    return queues


def _flatten(members: dict[str, float]) -> list[str | float]:
    return [item for member, number in members.items() for item in (member, repr(number))]


_sender: QueueSender | None = None
_url = ""
_segments: tuple[Segment, ...] = build_segments()


def connect(url: str, splits: Iterable[str] = ()) -> None:
    """Send wake-ups to this Redis from now on; once, when a process starts. Without it, they are dropped.

    `splits` are the queue splits of the pipeline (TOCSIN_PIPELINE_QUEUES).
    """
    global _sender, _url, _segments
    _url, _segments = url, build_segments(splits)
    _sender = QueueSender(url)
    atexit.register(_sender.flush)


def enqueue(queue: str, *args: Any) -> None:
    """Add a wake-up to a queue. `args` are ids, stored as JSON."""
    if _sender is not None:
        _sender.enqueue(queue, *args)


def enqueue_lane(service_row: int, stage: str = "normalize") -> None:
    """Enqueue a service's lane: it has pending work at this stage of the pipeline."""
    enqueue(get_pipeline_queue(find_segment(_segments, stage).name), service_row)


def linger_lane(service_row: int, stage: str, seconds: float) -> None:
    """Enqueue a service's lane after `seconds`, and drop its wake-ups until then."""
    if _sender is not None:
        _sender.linger(seconds, get_pipeline_queue(find_segment(_segments, stage).name), service_row)


def enqueue_router(router_row: int) -> None:
    enqueue(ROUTERS, router_row)


def enqueue_timers() -> None:
    enqueue(TIMERS)


def enqueue_maintenance() -> None:
    """Enqueue the release of deferred alerts: a maintenance window has ended."""
    enqueue(MAINTENANCE)


def enqueue_heartbeats() -> None:
    """Enqueue the report of missing heartbeats: a ping is overdue."""
    enqueue(HEARTBEATS)


def enqueue_reconcile(column: str, row: int) -> None:
    """Enqueue the reconciliation of incidents that have this row in this column: the row was changed."""
    enqueue(RECONCILE, column, row)


def enqueue_delivery(channel: int) -> None:
    enqueue(get_delivery_queue(channel), channel)


def enqueue_deliveries(channels: Iterable[int]) -> None:
    for channel in channels:
        enqueue_delivery(channel)


def is_reachable() -> bool:
    """Return whether Redis answers now. Takes at most a tenth of a second."""
    if not _url:
        return False
    client = create_client(_url, 0.05)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
