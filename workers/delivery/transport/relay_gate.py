"""Limit how many threads use a relay at the same time, and how often a relay that is down is tried.

While the relay works, a few threads use it. After some failures in a row it counts as down. Then one thread
at a time tries it, with a pause after each failure, so that a relay that is down occupies only one thread.

Some failures can be those of the target of one message, for example of the domain of an address. They show
that the relay is down only if messages of several accounts to several targets fail.
"""

import threading
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from workers.delivery.transport.channel import SendError

log = structlog.get_logger()

# Threads of a process that may use the relay, each with a connection. One sends 1,200 mails a second
# (measured); four send more than a relay accepts, and one account has no more (workers/delivery/turns.py).
MAX_THREADS = 8
FAILURE_THRESHOLD = 3
PAUSE_S = 5.0
# More are not kept.
MAX_SUSPECTS = 1_000


# The accounts whose messages must fail before failures that can be those of their targets count.
SUSPECT_ACCOUNTS = 2


class Suspect(NamedTuple):
    """What can be the cause of a failure instead of the relay: the target of a message of an account."""

    account: int
    target: str


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
        # Failures in a row: those of the relay, and the suspects of the others.
        self._failures = 0
        self._suspects: set[Suspect] = set()
        # When the relay can be tried again after the last one.
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
        if not self._is_down():
            return self.max_threads
        return 1 if self._clock() >= self._retry_at else 0

    def _is_down(self) -> bool:
        return count_failures(self._failures, self._suspects) >= self._threshold

    def leave(self) -> bool:
        """End the use of the relay. Return True if a thread was refused: check for due messages again."""
        with self._lock:
            self._in_use -= 1
            look_again, self._was_refused = self._was_refused, False
            return look_again

    def record_success(self) -> None:
        with self._lock:
            self._failures = 0
            self._suspects.clear()

    def record_failure(self, suspect: Suspect | None = None) -> bool:
        """Record a failure. Return True if the relay counts as down now and did not before.

        `suspect`: what else can be the cause; None: nothing.
        """
        with self._lock:
            was_down = self._is_down()
            if suspect is None:
                self._failures += 1
            elif len(self._suspects) < MAX_SUSPECTS:
                self._suspects.add(suspect)
            self._retry_at = self._clock() + self._pause_s
            return self._is_down() and not was_down

    def is_down(self) -> bool:
        """Return whether the relay counts as down. One thread may try it nevertheless."""
        with self._lock:
            return self._is_down()

    def is_unused(self) -> bool:
        with self._lock:
            return self._in_use == 0

    def get_pause_s(self) -> float:
        """Return for how many seconds no thread can enter because the relay is down; 0 if it is not."""
        with self._lock:
            return max(self._retry_at - self._clock(), 0.0) if self._is_down() else 0.0


def count_failures(failures: int, suspects: Collection[Suspect]) -> int:
    """Return how many failures show that a relay is down: each suspect target counts once."""
    if len({each.account for each in suspects}) < SUSPECT_ACCOUNTS:
        return failures
    return failures + len({each.target for each in suspects})


def report_down(channel: str, gate: RelayGate, error: SendError, suspect: Suspect | None = None) -> None:
    """Record a failure of the relay of a channel, and log it if the relay counts as down from now on."""
    if gate.record_failure(suspect):
        log.warning(
            "relay cannot be used, one thread tries it again",
            channel=channel,
            provider=error.provider,
            detail=str(error),
        )
