"""Record when the clock ran due scans, as seen in Redis."""

import threading
from itertools import pairwise
from time import monotonic
from types import TracebackType

import redis

from bench.servers.instance import Instance
from runtime.redis_socket import get_socket_path
from schedules.clock_process import PeriodicScheduler
from tests.support.polling import wait_until

# A clock process moves a job to its next slot when it runs the job. Only one of several can do this.
DUE_SCAN = "tocsin-due-scan"


class DueScans:
    """Records, within its context, when each slot of the due scan was moved to the next one."""

    def __init__(self, instance: Instance) -> None:
        self._client = redis.Redis(unix_socket_path=str(get_socket_path(instance.home)))
        self._at: list[float] = []
        self._thread = threading.Thread(target=self._listen, name="ticks", daemon=True)
        self._stopping = threading.Event()

    def __enter__(self) -> "DueScans":
        # Alerts are accepted before Redis runs.
        wait_until(self._is_running)
        self._thread.start()
        wait_until(lambda: self._at)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _is_running(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.ConnectionError:
            return False

    def _listen(self) -> None:
        with self._client.monitor() as seen:
            while not self._stopping.is_set():
                received = seen.next_command()
                words = received["command"].split()
                if received["client_type"] == "lua" and words[:2] == [
                    "ZADD",
                    PeriodicScheduler.scheduled_jobs_key,
                ]:
                    self._at += [monotonic()] * (words[-1] == DUE_SCAN)

    def get_longest_silence(self) -> float:
        """Return the longest time without a due scan, in seconds."""
        return max(later - before for before, later in pairwise(self._at))

    def get_most_within(self, seconds: float) -> int:
        """Return the highest number of due scans within a time."""
        return max(sum(0 <= other - at < seconds for other in self._at) for at in self._at)
