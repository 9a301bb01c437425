"""Do long work of the clock process in small steps, with rests between them.

During a rest, the other processes have the cores, and the lock of SQLite is free. The work needs no low
priority of the process: a process that holds that lock and gets no CPU would delay all alerts.
"""

import math
import threading
import time
from collections.abc import Callable

# By default, a rest is this many times as long as the step before it: the work uses a tenth of the time.
REST_FACTOR = 9.0

# Waits for this many seconds.
Rest = Callable[[float], object]

_stopping = threading.Event()


def stop() -> None:
    """Let running work end after its step."""
    _stopping.set()


def rest(seconds: float) -> None:
    """Wait for so long, or until the process stops."""
    _stopping.wait(seconds)


def is_stopping() -> bool:
    """Return whether running work must end: the process stops."""
    return _stopping.is_set()


class Steps:
    """The steps of one piece of work.

    `rest` is called between two steps; None: the steps follow each other at once. A rest is `factor` times as
    long as the step before it, and at least `min_rest_s`. Later than `rest_for_s` after the beginning of the
    work there are no rests, so that it ends.
    """

    def __init__(
        self,
        rest: Rest | None = rest,
        *,
        factor: float = REST_FACTOR,
        min_rest_s: float = 0.0,
        rest_for_s: float = math.inf,
    ) -> None:
        self._rest = rest
        self._factor = factor
        self._min_rest_s = min_rest_s
        self._last_rest_at = time.monotonic() + rest_for_s
        self._began_at = 0.0

    def begin(self) -> bool:
        """Begin a step: rest first, except before the first one. False: it must not begin, the process stops.

        A step lasts until the next call of this method.
        """
        now = time.monotonic()
        if self._rest is not None and self._began_at and now < self._last_rest_at:
            self._rest(max(self._factor * (now - self._began_at), self._min_rest_s))
        self._began_at = time.monotonic()
        return not is_stopping()

    def run(self, step: Callable[[], bool]) -> None:
        """Call `step` until it returns false or the process stops."""
        while self.begin() and step():
            pass
