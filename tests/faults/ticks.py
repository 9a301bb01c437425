"""When the clock process ticked, as its Redis saw it."""

import threading
from itertools import pairwise
from time import monotonic
from types import TracebackType

import redis

from bench.instance import Instance
from schedules.clock import Clock
from tests.waiting import until
from tocsin.embedded_redis import socket_path

# What a clock moves to its next slot when it runs it, and only one of several clocks can.
TICK = "tocsin-tick"


class Ticks:
    """Notes, within its context, when the slot of each second's tick was moved to the next."""

    def __init__(self, instance: Instance) -> None:
        self._client = redis.Redis(unix_socket_path=str(socket_path(instance.home)))
        self._at: list[float] = []
        self._thread = threading.Thread(target=self._listen, name="ticks", daemon=True)
        self._stopping = threading.Event()

    def __enter__(self) -> "Ticks":
        self._thread.start()
        until(lambda: self._at)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _listen(self) -> None:
        with self._client.monitor() as seen:
            while not self._stopping.is_set():
                said = seen.next_command()
                words = said["command"].split()
                if said["client_type"] == "lua" and words[:2] == ["ZADD", Clock.scheduled_jobs_key]:
                    self._at += [monotonic()] * (words[-1] == TICK)

    def longest_silence(self) -> float:
        """In seconds."""
        return max(later - before for before, later in pairwise(self._at))

    def most_within(self, seconds: float) -> int:
        """As many ticks came within so long."""
        return max(sum(0 <= other - at < seconds for other in self._at) for at in self._at)
