"""The only way to enqueue. A bell says "look there"; it may be lost, late or doubled (law 2).

Ringing never raises and never waits: what is to be rung is noted, and a thread of its own sends it,
all that is waiting in one go. A queue is a sorted set of what to look at, so a lane that waits to be
looked at stands in it once, at the place of its first bell. A lane that was just looked at may rest: its
bells are silent for a moment, and then it is rung once for all of them.
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

# How long nothing is tried after a failure.
PAUSE_S = 2.0
# Lanes that may wait for a server that is away; beyond that the sweep finds them anyway.
MAX_PENDING = 10_000
# What ending a process may cost for bells that were just rung.
FLUSH_TIMEOUT_S = 0.05


# Sends that follow each other closer than this gather what is rung for so long before the next.
MIN_INTERVAL_S = 0.02
LINGER_S = 0.005

# Ring what does not rest now, by the one clock that all processes share. Sent whole each time: redis-py asks
# the server for a registered script before each pipeline.
ENQUEUE_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
for i = 1, #ARGV, 2 do
  local until_ = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if not until_ or tonumber(until_) <= now then redis.call('ZADD', KEYS[1], 'NX', ARGV[i + 1], ARGV[i]) end
end
"""

# Let members rest for some seconds, and forget those whose rest is over.
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
    """Where a queue is kept in Redis."""
    return f"tocsin:bells:{queue}"


def get_linger_key(queue: str) -> str:
    """Where it is kept which of a queue's members rest, and until when."""
    return f"tocsin:resting:{queue}"


WakeUp = tuple[str, str]


@dataclass(slots=True)
class _Batch:
    """What is to be sent: bells with their moments, rests with their seconds, and the ends of rests."""

    wake_ups: dict[WakeUp, float] = field(default_factory=dict)
    lingers: dict[WakeUp, float] = field(default_factory=dict)
    linger_ends: dict[WakeUp, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.wake_ups or self.lingers or self.linger_ends)

    def merge(self, later: "_Batch") -> "_Batch":
        """Both, where this one was noted first. Rests that could not be sent are over by then."""
        return _Batch(
            {**self.wake_ups, **later.wake_ups}, later.lingers, {**self.linger_ends, **later.linger_ends}
        )


class QueueSender:
    """Sends bells from a thread of its own."""

    def __init__(self, url: str) -> None:
        self._client = create_client(url)
        self._batch = _Batch()
        # When rests that began here are over.
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
        """Bells for it are silent for so long; then it is rung, whether or not there were any."""
        member = (queue, json.dumps(args))
        with self._changed:
            if len(self._lingering) < MAX_PENDING:
                self._batch.lingers[member] = seconds
                heapq.heappush(self._lingering, (time.monotonic() + seconds, member))
            else:
                self._batch.linger_ends.setdefault(member, time.time())
            self._changed.notify_all()

    def flush(self, timeout: float = FLUSH_TIMEOUT_S) -> bool:
        """Whether all that was rung has been sent within `timeout` seconds."""
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
        """Wait for something to send, or for a rest to be over; empty when only the end came."""
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
            # First the rests: a bell that was noted after one is for the rest's end to ring.
            for queue, members in _group_by_queue(batch.lingers).items():
                pipeline.eval(LINGER_SCRIPT, 1, get_linger_key(queue), *_flatten(members))
            for queue, members in _group_by_queue(batch.linger_ends).items():
                pipeline.zadd(get_key(queue), members, nx=True)
                # The server heard of the rest later than it began: bells from here on are not for its end.
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
    """Ring this Redis from now on; once, when a process starts. Without it, bells are silent.

    `cuts` are where the road is cut into queues (TOCSIN_PIPELINE_QUEUES).
    """
    global _sender, _url, _segments
    _url, _segments = url, build_segments(splits)
    _sender = QueueSender(url)
    atexit.register(_sender.flush)


def enqueue(queue: str, *args: Any) -> None:
    """Have a worker look at `args` of a queue, soon. `args` are ids, as JSON."""
    if _sender is not None:
        _sender.enqueue(queue, *args)


def enqueue_lane(service_row: int, stage: str = "normalize") -> None:
    """Something waits in a service's lane at this stage of the road."""
    enqueue(get_pipeline_queue(find_segment(_segments, stage).name), service_row)


def linger_lane(service_row: int, stage: str, seconds: float) -> None:
    """A service's lane was just looked at: look again after so many seconds, not sooner."""
    if _sender is not None:
        _sender.linger(seconds, get_pipeline_queue(find_segment(_segments, stage).name), service_row)


def enqueue_router(router_row: int) -> None:
    enqueue(ROUTERS, router_row)


def enqueue_timers() -> None:
    enqueue(TIMERS)


def enqueue_maintenance() -> None:
    """What was kept back by a maintenance is to be told, since it is over."""
    enqueue(MAINTENANCE)


def enqueue_heartbeats() -> None:
    """A ping is overdue."""
    enqueue(HEARTBEATS)


def enqueue_reconcile(column: str, row: int) -> None:
    """What incidents follow by this column was changed."""
    enqueue(RECONCILE, column, row)


def enqueue_delivery(channel: int) -> None:
    enqueue(get_delivery_queue(channel), channel)


def enqueue_deliveries(channels: Iterable[int]) -> None:
    for channel in channels:
        enqueue_delivery(channel)


def is_reachable() -> bool:
    """Whether Redis answers now; costs at most a tenth of a second."""
    if not _url:
        return False
    client = create_client(_url, 0.05)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
