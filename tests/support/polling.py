"""Wait for other threads and processes: for a condition, until a deadline, never for a fixed time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

# Many times what anything takes: a machine on which thirty other programs run must not make a test fail.
PATIENCE_S = 90.0

T = TypeVar("T")

_never_set = threading.Event()


def wait_until(condition: Callable[[], T], seconds: float = PATIENCE_S, every: float = 0.02) -> T:
    """Return the result of `condition` when it is true; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s")
        _never_set.wait(every)
    return found
