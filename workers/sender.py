"""Keep wake-ups in sorted sets in Redis: the queues behind Broker.enqueue.

A wake-up may be lost, late or duplicated: invariant 2 (design, section 2). To add one never raises and never
waits: a separate thread sends all wake-ups that were added since its last request. A queue is a sorted set,
so a lane is in it at most once, at the position of its first wake-up. A lane that was just processed may
linger: then its wake-ups are dropped for a moment, and it gets one wake-up at the end of the linger.
"""

import heapq
import math
import threading
import time
from dataclasses import dataclass, field

import redis

from runtime.redis import create_client, redis_status

# Pause after a request that failed.
PAUSE_S = 2.0
# Maximum number of wake-ups that are kept while Redis does not answer. More wake-ups are dropped; a periodic
# job enqueues their lanes later (workers/periodic/due_scan.py).
MAX_PENDING = 10_000
# The longest time that a process that ends waits until its last wake-ups are sent.
FLUSH_TIMEOUT_S = 0.05
# The longest time that it then waits for the end of a request: a Redis server may not answer.
CLOSE_TIMEOUT_S = 0.5
# If the last send was less than this time ago, the next one first waits COLLECT_S, to send more at once.
MIN_INTERVAL_S = 0.02
COLLECT_S = 0.005

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
        """Return both batches as one; this one is older.

        Drop the lingers of this batch: they are over, since PAUSE_S is longer than any linger.
        """
        return _Batch(
            {**self.wake_ups, **later.wake_ups}, later.lingers, {**self.linger_ends, **later.linger_ends}
        )


class QueueSender:
    """Send wake-ups from a separate thread."""

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

    def add(self, queue: str, member: str, delay_ms: int | None = None) -> None:
        """Add a wake-up. With a delay, ignore the member's wake-ups for that time, then add one."""
        wake_up = (queue, member)
        with self._changed:
            if delay_ms is None:
                if len(self._batch.wake_ups) < MAX_PENDING:
                    self._batch.wake_ups.setdefault(wake_up, time.time())
            elif len(self._lingering) < MAX_PENDING:
                self._batch.lingers[wake_up] = delay_ms / 1000
                heapq.heappush(self._lingering, (time.monotonic() + delay_ms / 1000, wake_up))
            else:
                # Too many lingers: end this one now.
                self._batch.linger_ends.setdefault(wake_up, time.time())
            self._changed.notify_all()

    def flush(self, timeout: float = FLUSH_TIMEOUT_S) -> bool:
        """Wait until all wake-ups are sent, for at most `timeout` seconds. Return whether they were sent."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._batch and not self._sending, timeout)

    def end_lingers(self) -> None:
        """End the lingers of this process now: it will not be there at their end."""
        with self._changed:
            self._end_lingering(math.inf)
            self._changed.notify_all()

    def close(self) -> None:
        """Send nothing more, and wait for the end of a request, for at most CLOSE_TIMEOUT_S."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(CLOSE_TIMEOUT_S)
        self._client.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            if time.monotonic() - self._sent_at < MIN_INTERVAL_S:
                self._closed.wait(COLLECT_S)
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
                self._end_lingering(time.monotonic())
                if not self._batch:
                    ends_at = self._lingering[0][0] if self._lingering else None
                    self._changed.wait(None if ends_at is None else max(ends_at - time.monotonic(), 0.0))
            self._end_lingering(time.monotonic())
            batch, self._batch = self._batch, _Batch()
            self._sending = bool(batch)
            return batch

    def _end_lingering(self, now: float) -> None:
        while self._lingering and self._lingering[0][0] <= now:
            _, member = heapq.heappop(self._lingering)
            self._batch.linger_ends.setdefault(member, time.time())

    def _send(self, batch: _Batch) -> bool:
        began_at = time.monotonic()
        try:
            pipeline = self._client.pipeline(transaction=False)
            # Lingers first: a wake-up that was added after the linger began must be dropped.
            for queue, members in _group_by_queue(batch.lingers).items():
                pipeline.eval(LINGER_SCRIPT, 1, get_linger_key(queue), *_flatten(members))
            for queue, members in _group_by_queue(batch.linger_ends).items():
                pipeline.zadd(get_key(queue), members, nx=True)
                # The linger began on the server a little later than in this process. Remove it now, so that
                # the next wake-up is not dropped.
                pipeline.zrem(get_linger_key(queue), *members)
            for queue, members in _group_by_queue(batch.wake_ups).items():
                pipeline.eval(ENQUEUE_SCRIPT, 2, get_key(queue), get_linger_key(queue), *_flatten(members))
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            redis_status.report_down(error, began_at)
            return False
        redis_status.report_up(began_at)
        return True


def _group_by_queue(batch: dict[WakeUp, float]) -> dict[str, dict[str, float]]:
    queues: dict[str, dict[str, float]] = {}
    for (queue, member), number in batch.items():
        queues.setdefault(queue, {})[member] = number
    return queues


def _flatten(members: dict[str, float]) -> list[str | float]:
    return [item for member, number in members.items() for item in (member, repr(number))]
