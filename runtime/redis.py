"""Connect to Redis, and remember whether it answers."""

import threading

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger()

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
    """Whether Redis answers. Each change is logged once."""

    def __init__(self) -> None:
        self.up = True
        self._lock = threading.Lock()

    def report_down(self, error: Exception) -> None:
        with self._lock:
            was_up, self.up = self.up, False
        if was_up:
            log.warning("Redis is down; workers look for alerts in the database", error=type(error).__name__)

    def report_up(self) -> None:
        if self.up:
            return
        with self._lock:
            was_up, self.up = self.up, True
        if not was_up:
            log.info("Redis is up again")


redis_status = RedisStatus()
