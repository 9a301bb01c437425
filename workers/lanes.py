"""One thread at a time for each thing to look at, so that one busy lane does not hold all threads."""

import threading
from collections.abc import Callable, Hashable


class Lanes:
    """Work that is asked for while it is being done is done once more by the thread that does it."""

    def __init__(self) -> None:
        self._again: dict[Hashable, bool] = {}
        self._lock = threading.Lock()

    def work(self, lane: Hashable, work: Callable[[], object]) -> None:
        """Do `work`, or have it done again by whoever does it now. Its errors go to that one's caller."""
        with self._lock:
            if lane in self._again:
                self._again[lane] = True
                return
            self._again[lane] = False
        try:
            work()
            while self._is_wanted_again(lane):
                work()
        except BaseException:
            with self._lock:
                self._again.pop(lane, None)
            raise

    def _is_wanted_again(self, lane: Hashable) -> bool:
        """Asking and leaving are one step: whoever asks later finds the lane free."""
        with self._lock:
            if not self._again[lane]:
                del self._again[lane]
                return False
            self._again[lane] = False
            return True
