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
from redis.backoff import NoBackoff
from redis.retry import Retry

from models.enums import ContactType
from pipeline.topology import Segment, covering, segments

log = structlog.get_logger()

TIMERS = "timers"
MAINTENANCE = "maintenance"
REPLANNING = "replanning"
HEARTBEATS = "heartbeats"
ROUTERS = "routers"

# Short enough to notice a dead server soon, long enough for one that has to wait for a processor.
ANSWER_S = 1.0
# How long nothing is tried after a failure.
PAUSE_S = 2.0
# Lanes that may wait for a server that is away; beyond that the sweep finds them anyway.
MOST_WAITING = 10_000
# What ending a process may cost for bells that were just rung.
LAST_WORDS_S = 0.05


# Sends that follow each other closer than this gather what is rung for so long before the next.
CLOSE_S = 0.02
GATHER_S = 0.005

# Ring what does not rest now, by the one clock that all processes share. Sent whole each time: redis-py asks
# the server for a registered script before each pipeline.
RING = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
for i = 1, #ARGV, 2 do
  local until_ = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if not until_ or tonumber(until_) <= now then redis.call('ZADD', KEYS[1], 'NX', ARGV[i + 1], ARGV[i]) end
end
"""

# Let members rest for some seconds, and forget those whose rest is over.
REST = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 1, #ARGV, 2 do redis.call('ZADD', KEYS[1], now + ARGV[i + 1], ARGV[i]) end
"""


def road_queue(segment: str) -> str:
    return f"road.{segment}"


def deliver_queue(channel: int) -> str:
    return f"deliver.{ContactType(channel).name.lower()}"


def key_of(queue: str) -> str:
    """Where a queue is kept in Redis."""
    return f"tocsin:bells:{queue}"


def resting_key_of(queue: str) -> str:
    """Where it is kept which of a queue's members rest, and until when."""
    return f"tocsin:resting:{queue}"


def client_for(url: str, answer_s: float = ANSWER_S) -> Any:
    """A client that fails soon and never retries by itself: redis-py would try a dead port for seconds."""
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=answer_s,
        socket_timeout=answer_s,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
    )


class Line:
    """Whether Redis answers. Tells it once when it goes, and once when it is back."""

    def __init__(self) -> None:
        self.up = True
        self._lock = threading.Lock()

    def lost(self, error: Exception) -> None:
        with self._lock:
            was_up, self.up = self.up, False
        if was_up:
            log.warning("redis is away; alerts are found in the database", error=type(error).__name__)

    def found(self) -> None:
        if self.up:
            return
        with self._lock:
            was_up, self.up = self.up, True
        if not was_up:
            log.info("redis is back")


line = Line()


Bell = tuple[str, str]


@dataclass(slots=True)
class _Noted:
    """What is to be sent: bells with their moments, rests with their seconds, and the ends of rests."""

    bells: dict[Bell, float] = field(default_factory=dict)
    rests: dict[Bell, float] = field(default_factory=dict)
    wakes: dict[Bell, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.bells or self.rests or self.wakes)

    def before(self, later: "_Noted") -> "_Noted":
        """Both, where this one was noted first. Rests that could not be sent are over by then."""
        return _Noted({**self.bells, **later.bells}, later.rests, {**self.wakes, **later.wakes})


class Ringer:
    """Sends bells from a thread of its own."""

    def __init__(self, url: str) -> None:
        self._client = client_for(url)
        self._noted = _Noted()
        # When rests that began here are over.
        self._resting: list[tuple[float, Bell]] = []
        self._changed = threading.Condition()
        self._sending = False
        self._sent_at = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
        self._thread.start()

    def ring(self, queue: str, *args: Any) -> None:
        with self._changed:
            if len(self._noted.bells) < MOST_WAITING:
                self._noted.bells.setdefault((queue, json.dumps(args)), time.time())
            self._changed.notify_all()

    def rest(self, seconds: float, queue: str, *args: Any) -> None:
        """Bells for it are silent for so long; then it is rung, whether or not there were any."""
        member = (queue, json.dumps(args))
        with self._changed:
            if len(self._resting) < MOST_WAITING:
                self._noted.rests[member] = seconds
                heapq.heappush(self._resting, (time.monotonic() + seconds, member))
            else:
                self._noted.wakes.setdefault(member, time.time())
            self._changed.notify_all()

    def flush(self, timeout: float = LAST_WORDS_S) -> bool:
        """Whether all that was rung has been sent within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._noted and not self._sending, timeout)

    def close(self) -> None:
        """Send nothing more."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            if time.monotonic() - self._sent_at < CLOSE_S:
                self._closed.wait(GATHER_S)
            noted = self._next()
            sent = self._sent(noted) if noted else True
            self._sent_at = time.monotonic()
            with self._changed:
                self._sending = False
                if not sent:
                    self._noted = noted.before(self._noted)
                self._changed.notify_all()
            if not sent:
                self._closed.wait(PAUSE_S)

    def _next(self) -> _Noted:
        """Wait for something to send, or for a rest to be over; empty when only the end came."""
        with self._changed:
            while not self._noted and not self._closed.is_set():
                self._wake()
                if not self._noted:
                    ends_at = self._resting[0][0] if self._resting else None
                    self._changed.wait(None if ends_at is None else max(ends_at - time.monotonic(), 0.0))
            self._wake()
            noted, self._noted = self._noted, _Noted()
            self._sending = bool(noted)
            return noted

    def _wake(self) -> None:
        now = time.monotonic()
        while self._resting and self._resting[0][0] <= now:
            _, member = heapq.heappop(self._resting)
            self._noted.wakes.setdefault(member, time.time())

    def _sent(self, noted: _Noted) -> bool:
        try:
            pipeline = self._client.pipeline(transaction=False)
            # First the rests: a bell that was noted after one is for the rest's end to ring.
            for queue, members in _by_queue(noted.rests).items():
                pipeline.eval(REST, 1, resting_key_of(queue), *_flat(members))
            for queue, members in _by_queue(noted.wakes).items():
                pipeline.zadd(key_of(queue), members, nx=True)
                # The server heard of the rest later than it began: bells from here on are not for its end.
                pipeline.zrem(resting_key_of(queue), *members)
            for queue, members in _by_queue(noted.bells).items():
                pipeline.eval(RING, 2, key_of(queue), resting_key_of(queue), *_flat(members))
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            line.lost(error)
            return False
        line.found()
        return True


def _by_queue(noted: dict[Bell, float]) -> dict[str, dict[str, float]]:
    queues: dict[str, dict[str, float]] = {}
    for (queue, member), number in noted.items():
        queues.setdefault(queue, {})[member] = number
    return queues


def _flat(members: dict[str, float]) -> list[str | float]:
    return [part for member, number in members.items() for part in (member, repr(number))]


_ringer: Ringer | None = None
_url = ""
_road: tuple[Segment, ...] = segments()


def connect(url: str, cuts: Iterable[str] = ()) -> None:
    """Ring this Redis from now on; once, when a process starts. Without it, bells are silent.

    `cuts` are where the road is cut into queues (TOCSIN_ROAD_CUTS).
    """
    global _ringer, _url, _road
    _url, _road = url, segments(cuts)
    _ringer = Ringer(url)
    atexit.register(_ringer.flush)


def ring(queue: str, *args: Any) -> None:
    """Have a worker look at `args` of a queue, soon. `args` are ids, as JSON."""
    if _ringer is not None:
        _ringer.ring(queue, *args)


def ring_road(service_row: int, stage: str = "normalize") -> None:
    """Something waits in a service's lane at this stage of the road."""
    ring(road_queue(covering(_road, stage).name), service_row)


def rest_road(service_row: int, stage: str, seconds: float) -> None:
    """A service's lane was just looked at: look again after so many seconds, not sooner."""
    if _ringer is not None:
        _ringer.rest(seconds, road_queue(covering(_road, stage).name), service_row)


def ring_router(router_row: int) -> None:
    ring(ROUTERS, router_row)


def ring_timers() -> None:
    ring(TIMERS)


def ring_maintenance() -> None:
    """What was kept back by a maintenance is to be told, since it is over."""
    ring(MAINTENANCE)


def ring_heartbeats() -> None:
    """A ping is overdue."""
    ring(HEARTBEATS)


def ring_replanning(column: str, row: int) -> None:
    """What incidents follow by this column was changed."""
    ring(REPLANNING, column, row)


def ring_deliver(channel: int) -> None:
    ring(deliver_queue(channel), channel)


def ring_deliveries(channels: Iterable[int]) -> None:
    for channel in channels:
        ring_deliver(channel)


def reachable() -> bool:
    """Whether Redis answers now; costs at most a tenth of a second."""
    if not _url:
        return False
    client = client_for(_url, 0.05)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
