"""Let a thread give back something scarce while it waits for the database or for a lock.

What holds it (web/http/limits/places.py) cannot see such a wait, and what waits must not know the holder.
"""

import threading
from collections.abc import Callable

# Called before a wait. Returns what must be called after it, with whether the thread may wait once more: not
# while it holds a lock, for which others would wait.
Pause = Callable[[], Callable[[bool], None]]


class _Local(threading.local):
    pause: Pause | None = None


_local = _Local()


def get_pause() -> Pause | None:
    """Return what this thread must call before a wait; None, as nearly always: nothing."""
    return _local.pause


def set_pause(pause: Pause | None) -> None:
    _local.pause = pause
