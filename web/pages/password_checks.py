"""Limit how many threads of a process work on passwords at the same time, and how many wait for that."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from web.http.errors import Busy

# Each check of a password takes 19 MiB and some hundredths of a second of a core.
MAX_CHECKS = 1
# A request that waits occupies one of the threads of pages. So many come from one client at the same time
# (attempts.PASSWORD_BURST_OF_CLIENT).
MAX_PENDING = 14
CHECK_TIMEOUT_S = 4.0
BUSY = "Too many people sign in at the moment. Try again in a few seconds."


class CheckPlaces:
    """The places for checks at the same time, and for those that wait for one."""

    def __init__(self, checks: int, pending: int) -> None:
        self._checks = threading.BoundedSemaphore(checks)
        self.all = threading.BoundedSemaphore(checks + pending)

    @contextmanager
    def take(self) -> Iterator[None]:
        """Take a place. Raise Busy if many wait, or after some seconds."""
        if not self.all.acquire(blocking=False):
            raise Busy(detail=BUSY)
        try:
            if not self._checks.acquire(timeout=CHECK_TIMEOUT_S):
                raise Busy(detail=BUSY)
            try:
                yield
            finally:
                self._checks.release()
        finally:
            self.all.release()


of_strangers = CheckPlaces(MAX_CHECKS, MAX_PENDING)
# For people in browsers that they have used before, so that no stranger keeps them waiting.
of_known = CheckPlaces(1, 4)
