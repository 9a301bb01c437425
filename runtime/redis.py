"""Connect to Redis, and remember whether it answers."""

import math
import threading
from time import monotonic

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from runtime.late_logs import LateLogger

log = LateLogger()

# Short enough to find a dead server soon, long enough for a server that has to wait for a processor.
TIMEOUT_S = 1.0


def create_client(url: str, timeout_s: float = TIMEOUT_S) -> redis.Redis:
    """Create a client that fails soon: redis-py would try a dead port for seconds.

    A connection that broke is opened again once, at once. Otherwise each client of a process would report an
    outage that is over: its connection broke when the server restarted.
    """
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        health_check_interval=0,
    )


class RedisStatus:
    """Whether Redis answers. Each change is logged once, though a process has several clients.

    A request can end before an outage begins or ends, and be reported after that, on a busy host some seconds
    later. So a request counts only if it began (`began_at`, of `monotonic`) after the last change.
    """

    def __init__(self) -> None:
        self.up = True
        self._changed_at = -math.inf
        self._lock = threading.Lock()

    def report_down(self, error: Exception, began_at: float) -> None:
        """Report the error of a request."""
        if self._change(began_at, up=False):
            log.warning("Redis is down; workers look for alerts in the database", error=type(error).__name__)

    def report_up(self, began_at: float) -> None:
        """Report that a request was answered."""
        if self._change(began_at, up=True):
            log.info("Redis is up again")

    def _change(self, began_at: float, *, up: bool) -> bool:
        """Return whether this report changes the status."""
        # Without the lock: almost every report finds that nothing changed.
        if self.up == up:
            return False
        with self._lock:
            if self.up == up or began_at < self._changed_at:
                return False
            self.up, self._changed_at = up, monotonic()
            return True


redis_status = RedisStatus()
