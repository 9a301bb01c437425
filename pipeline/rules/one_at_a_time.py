"""Let one thread of a process at a time evaluate the rules of an alert.

The engine of JSON Logic releases the GIL for each condition. So threads that evaluate many conditions took
turns at each of them: with four threads, an alert with a hundred matching rules needed three times the CPU
time. Only one of them can run anyway, so the others wait until the rules of an alert are evaluated.
"""

import threading
from collections import deque
from collections.abc import Sized
from contextlib import AbstractContextManager, nullcontext

# With fewer rules that can match, it takes as long to wait for each other as to take turns.
MANY_RULES = 10


class FairLock:
    """A lock that threads get in the order in which they ask for it.

    A thread that releases a `threading.Lock` and asks for it again gets it before threads that wait. Then an
    alert would wait for all alerts of another thread's batch.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_held = False
        # A lock for each thread that waits. It is released at the turn of this thread.
        self._turns: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._mutex:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._turns.append(turn)
        turn.acquire()

    def __exit__(self, *error: object) -> None:
        with self._mutex:
            if self._turns:
                self._turns.popleft().release()
            else:
                self._is_held = False


_lock = FairLock()


def evaluate_one_at_a_time(rules: Sized) -> AbstractContextManager[None]:
    """Return a context for the evaluation of these rules of an alert. If they are few, it does nothing."""
    return _lock if len(rules) > MANY_RULES else nullcontext()
