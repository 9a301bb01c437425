"""Limit how many threads use a relay at the same time, and how often a relay that is down is tried.

While the relay works, a few threads use it. After some failures in a row it counts as down. Then one thread
at a time tries it, with a pause after each failure, so that a relay that is down occupies only one thread.
"""

import threading
import time
from collections.abc import Callable

import structlog

from workers.delivery.transport.channel import RelayError

log = structlog.get_logger()

# Threads of a process that may use the relay, each with a connection. One sends 1,200 mails a second
# (measured); four send more than a relay accepts, and one account has no more (workers/delivery/turns.py).
MAX_THREADS = 8
FAILURE_THRESHOLD = 3
PAUSE_S = 5.0


class RelayGate:
    """Limit how many threads of this process use one relay at the same time.

    `clock` is any monotonic clock, in seconds. After `threshold` failures in a row the relay counts as down,
    and is tried every `pause_s`.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        max_threads: int = MAX_THREADS,
        threshold: int = FAILURE_THRESHOLD,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._clock = clock
        self.max_threads = max_threads
        self._threshold = threshold
        self._pause_s = pause_s
        # Failures in a row, and when the relay can be tried again after the last one.
        self._failures = 0
        self._retry_at = 0.0
        self._in_use = 0
        self._was_refused = False
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Return immediately whether this thread may use the relay. After True, leave() must be called."""
        with self._lock:
            if self._in_use >= self._get_capacity():
                self._was_refused = True
                return False
            self._in_use += 1
            return True

    def _get_capacity(self) -> int:
        """Return how many threads may use the relay now."""
        if self._failures < self._threshold:
            return self.max_threads
        return 1 if self._clock() >= self._retry_at else 0

    def leave(self) -> bool:
        """End the use of the relay. Return True if a thread was refused: check for due messages again."""
        with self._lock:
            self._in_use -= 1
            look_again, self._was_refused = self._was_refused, False
            return look_again

    def record_success(self) -> None:
        with self._lock:
            self._failures = 0

    def record_failure(self) -> bool:
        """Record a failure. Return True if the relay counts as down now and did not before."""
        with self._lock:
            self._failures += 1
            self._retry_at = self._clock() + self._pause_s
            return self._failures == self._threshold

    def is_down(self) -> bool:
        """Return whether the relay counts as down. One thread may try it nevertheless."""
        with self._lock:
            return self._failures >= self._threshold

    def is_unused(self) -> bool:
        with self._lock:
            return self._in_use == 0

    def get_pause_s(self) -> float:
        """Return for how many seconds no thread can enter because the relay is down; 0 if it is not."""
        with self._lock:
            is_down = self._failures >= self._threshold
            return max(self._retry_at - self._clock(), 0.0) if is_down else 0.0


def report_down(channel: str, gate: RelayGate, error: RelayError) -> None:
    """Record that the relay of a channel cannot be used, and log it if it counts as down from now on."""
    if gate.record_failure():
        log.warning(
            "relay cannot be used, one thread tries it again",
            channel=channel,
            provider=error.provider,
            detail=str(error),
        )
