"""Limit how many threads of a process work on passwords at the same time, and how many wait for that."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from web.http.errors import Busy

# Each check of a password takes 19 MiB and some hundredths of a second of a core.
MAX_CHECKS = 2
# A request that waits occupies a thread, which then accepts no alert.
MAX_PENDING = 4
CHECK_TIMEOUT_S = 2.0
_places = threading.BoundedSemaphore(MAX_CHECKS + MAX_PENDING)
_checks = threading.BoundedSemaphore(MAX_CHECKS)
BUSY = "Too many people sign in at the moment. Try again in a few seconds."


@contextmanager
def limit_checks() -> Iterator[None]:
    """Let few threads work on passwords at the same time. Raise Busy if many wait, or after some seconds."""
    if not _places.acquire(blocking=False):
        raise Busy(detail=BUSY)
    try:
        if not _checks.acquire(timeout=CHECK_TIMEOUT_S):
            raise Busy(detail=BUSY)
        try:
            yield
        finally:
            _checks.release()
    finally:
        _places.release()
