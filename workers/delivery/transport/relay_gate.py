"""Limit how many threads use a relay at the same time, and how often a relay that is down is tried.

While the relay works, a few threads use it. After some failures in a row it counts as down. Then one thread
at a time tries it, with a pause after each failure, so that a dead relay occupies only one thread.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

# Threads of a process that may use the relay, each with a connection. One sends 1,200 mails a second
# (measured); four send more than a relay accepts.
MAX_THREADS = 4
FAILURE_THRESHOLD = 3
PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """The health of a relay, as a value. `now` is in seconds of any monotonic clock."""

    failures: int = 0
    retry_at: float = 0.0

    @property
    def is_down(self) -> bool:
        return self.failures >= FAILURE_THRESHOLD

    def get_capacity(self, now: float) -> int:
        """Return how many threads may use the relay now."""
        if not self.is_down:
            return MAX_THREADS
        return 1 if now >= self.retry_at else 0

    def record_success(self) -> "Breaker":
        return Breaker()

    def record_failure(self, now: float) -> "Breaker":
        return replace(self, failures=self.failures + 1, retry_at=now + PAUSE_S)


class RelayGate:
    """Limits how many threads of this process use one relay at the same time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._breaker = Breaker()
        self._in_use = 0
        self._was_refused = False
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Return at once whether this thread may use the relay. After True, leave() must be called."""
        with self._lock:
            if self._in_use >= self._breaker.get_capacity(self._clock()):
                self._was_refused = True
                return False
            self._in_use += 1
            return True

    def leave(self) -> bool:
        """End the use of the relay. Return True if a thread was refused: check for due messages again."""
        with self._lock:
            self._in_use -= 1
            look_again, self._was_refused = self._was_refused, False
            return look_again

    def record_success(self) -> None:
        with self._lock:
            self._breaker = self._breaker.record_success()

    def record_failure(self) -> bool:
        """Record a failure. Return True if the relay counts as down now and did not before."""
        with self._lock:
            before, self._breaker = self._breaker, self._breaker.record_failure(self._clock())
            return self._breaker.is_down and not before.is_down
