"""Parse large bodies one after the other, so that they need little memory and leave time for small ones."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# The groups of most installations are smaller. To parse this much costs up to 0.1 s of CPU and 10 MB.
LARGE_BYTES = 256 * 1024
# Requests that wait for their turn, each with its body in memory and in a thread of its own.
MAX_PENDING = 4
# The longest parse of 8 MiB took 3 s of CPU (measured).
TIMEOUT_S = 5.0


class TooManyError(Exception):
    """Other large bodies are being parsed; the sender should send this one again later."""


class LargeBodies:
    """Admits one large body at a time; small bodies pass at once."""

    def __init__(self) -> None:
        self._admitted = threading.BoundedSemaphore(1 + MAX_PENDING)
        self._turn = threading.Lock()

    @contextmanager
    def take_turn(self, size: int, seconds: float = TIMEOUT_S) -> Iterator[None]:
        """Parse a body of this many bytes while the context is open.

        Raise TooManyError if too many large bodies wait already, or after so many seconds, at most TIMEOUT_S.
        """
        if size <= LARGE_BYTES:
            yield
            return
        if not self._admitted.acquire(blocking=False):
            raise TooManyError
        try:
            if not self._turn.acquire(timeout=min(seconds, TIMEOUT_S)):
                raise TooManyError
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._admitted.release()
