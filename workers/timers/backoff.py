"""Remember recent failures: retry after a delay that grows, and return which failures are new."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

# Number of remembered failures. The oldest above this is forgotten, and its key is retried at each pass.
MAX_KEYS = 1_000

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure and the time of its retry. `is_new`: the key did not fail before, or with another error."""

    error: str
    delay: timedelta
    retry_at: datetime
    is_new: bool


class Failures(Generic[K]):
    """The failures of one process, shared between its threads. Other processes may retry the same keys."""

    def __init__(self, min_delay: timedelta, max_delay: timedelta) -> None:
        self._min_delay = min_delay
        self._max_delay = max_delay
        self._lock = threading.Lock()
        self._by_key: OrderedDict[K, Failure] = OrderedDict()

    def add(self, key: K, error: BaseException, at: datetime, *, retry_soon: bool = False) -> Failure:
        """Record a failure. Double the delay of the key, or use the first delay with `retry_soon`."""
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
        """Forget the failure of a key that succeeded or no longer exists."""
        with self._lock:
            self._by_key.pop(key, None)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._by_key

    def list_keys(self) -> frozenset[K]:
        """Return all keys that failed and did not succeed since."""
        with self._lock:
            return frozenset(self._by_key)

    def is_backing_off(self, key: K, at: datetime) -> bool:
        """Return whether the delay of the key is not over yet."""
        with self._lock:
            found = self._by_key.get(key)
            return found is not None and at < found.retry_at

    def list_retryable(self, at: datetime) -> list[K]:
        """List the keys whose delay is over."""
        with self._lock:
            return [key for key, failure in self._by_key.items() if failure.retry_at <= at]
