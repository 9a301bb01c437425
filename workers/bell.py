"""The only way to enqueue. A bell says "look there"; it may be lost, late or doubled (law 2).

Ringing never raises and never waits: what is to be rung is noted, and a thread of its own sends it,
all that is waiting in one go. A queue is a sorted set of what to look at, so a lane that waits to be
looked at stands in it once, at the place of its first bell.
"""

import atexit
import json
import threading
import time
from collections.abc import Iterable
from typing import Any

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from models.enums import ContactType

log = structlog.get_logger()

TIMERS = "timers"

# Short enough to notice a dead server soon, long enough for one that has to wait for a processor.
ANSWER_S = 1.0
# How long nothing is tried after a failure.
PAUSE_S = 2.0
# Lanes that may wait for a server that is away; beyond that the sweep finds them anyway.
MOST_WAITING = 10_000
# What ending a process may cost for bells that were just rung.
LAST_WORDS_S = 0.05


def road_queue(segment: str) -> str:
    return f"road.{segment}"


def deliver_queue(channel: int) -> str:
    return f"deliver.{ContactType(channel).name.lower()}"


def key_of(queue: str) -> str:
    """Where a queue is kept in Redis."""
    return f"tocsin:bells:{queue}"


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


class Ringer:
    """Sends bells from a thread of its own."""

    def __init__(self, url: str) -> None:
        self._client = client_for(url)
        self._waiting: dict[tuple[str, str], float] = {}
        self._changed = threading.Condition()
        self._sending = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
        self._thread.start()

    def ring(self, queue: str, *args: Any) -> None:
        with self._changed:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.setdefault((queue, json.dumps(args)), time.time())
            self._changed.notify_all()

    def flush(self, timeout: float = LAST_WORDS_S) -> bool:
        """Whether all that was rung has been sent within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, timeout)

    def close(self) -> None:
        """Send nothing more."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
                if self._closed.is_set():
                    return
                bells, self._waiting = self._waiting, {}
                self._sending = True
            sent = self._send(bells)
            with self._changed:
                self._sending = False
                if not sent:
                    self._waiting = {**bells, **self._waiting}
                self._changed.notify_all()
            if not sent:
                self._closed.wait(PAUSE_S)

    def _send(self, bells: dict[tuple[str, str], float]) -> bool:
        queues: dict[str, dict[str, float]] = {}
        for (queue, member), at in bells.items():
            queues.setdefault(key_of(queue), {})[member] = at
        try:
            pipeline = self._client.pipeline(transaction=False)
            for key, members in queues.items():
                pipeline.zadd(key, members, nx=True)
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            line.lost(error)
            return False
        line.found()
        return True


_ringer: Ringer | None = None
_url = ""


def connect(url: str) -> None:
    """Ring this Redis from now on; once, when a process starts. Without it, bells are silent."""
    global _ringer, _url
    _url = url
    _ringer = Ringer(url)
    atexit.register(_ringer.flush)


def ring(queue: str, *args: Any) -> None:
    """Have a worker look at `args` of a queue, soon. `args` are ids, as JSON."""
    if _ringer is not None:
        _ringer.ring(queue, *args)


def ring_road(service_row: int, segment: str = "normalize") -> None:
    ring(road_queue(segment), service_row)


def ring_timers() -> None:
    ring(TIMERS)


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
