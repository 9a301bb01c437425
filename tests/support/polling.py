"""Waiting for what other threads and processes do: on a condition, up to a deadline, never for a time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_never_set = threading.Event()


def wait_until(condition: Callable[[], T], seconds: float = 15.0, every: float = 0.02) -> T:
    """What `condition` returns once it is true; fails when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s")
        _never_set.wait(every)
    return found
