"""What failed of late: it is let rest, longer each time, and is told at length once."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

# So many are remembered; beyond that the one that began to fail first is forgotten, and tried at each look.
MAX_KEYS = 1_000

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Failure:
    """`is_news` when it did not fail before, or not so."""

    error: str
    delay: timedelta
    retry_at: datetime
    is_new: bool


class Failures(Generic[K]):
    """Of one process, and shared between its threads: others may try it meanwhile."""

    def __init__(self, min_delay: timedelta, max_delay: timedelta) -> None:
        self._min_delay = min_delay
        self._max_delay = max_delay
        self._lock = threading.Lock()
        self._by_key: OrderedDict[K, Failure] = OrderedDict()

    def add(self, key: K, error: BaseException, at: datetime, *, retry_soon: bool = False) -> Failure:
        """It failed: rests twice as long as before or, where it is to be tried again soon, as at first."""
        name = type(error).__name__
        with self._lock:
            last = self._by_key.get(key)
            delay = self._min_delay if last is None or retry_soon else min(2 * last.delay, self._max_delay)
            failure = Failure(name, delay, at + delay, is_new=last is None or last.error != name)
            self._by_key[key] = failure
            while len(self._by_key) > MAX_KEYS:
                self._by_key.popitem(last=False)
        return failure

    def remove(self, key: K) -> None:
        """It did not fail, or is not there any more."""
        with self._lock:
            self._by_key.pop(key, None)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._by_key

    def list_keys(self) -> frozenset[K]:
        """All that failed and did not succeed since."""
        with self._lock:
            return frozenset(self._by_key)

    def is_backing_off(self, key: K, at: datetime) -> bool:
        """Whether it is not to be tried yet."""
        with self._lock:
            found = self._by_key.get(key)
            return found is not None and at < found.retry_at

    def list_retryable(self, at: datetime) -> list[K]:
        """What is to be tried again."""
        with self._lock:
            return [key for key, failure in self._by_key.items() if failure.retry_at <= at]
