"""Let senders wait until their alert is processed: `Prefer: wait=SECONDS` (RFC 7240).

A request that waits occupies a thread, and no connection to the store. One thread of the process reads the
results for all of them. It reads the store, because the worker can be on another host, and because Redis
only carries wake-ups (invariant 2, design, section 2).
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from models.reports.alert_results import AlertResult, find_results
from models.store.store import STORE_ERRORS, connection, store

# The longest wait in seconds. A longer one is shortened.
MAX_SECONDS = 10
# One of so many threads for alerts may wait; the others accept alerts.
THREADS_PER_REQUEST = 8
# So many requests with the same key wait, so that one sender leaves the others a place.
MAX_PER_KEY = 4
# The pause between two reads grows with the time since the newest request, between these limits. Most alerts
# are processed within 30 ms.
MIN_PAUSE_S = 0.01
MAX_PAUSE_S = 0.25
PAUSE_PER_AGE = 0.25
# How long one read may take. Meanwhile no other request gets its result.
READ_S = 2.0

# A preference with its value (RFC 7240, section 2); parameters after a semicolon are ignored.
_PREFERENCE = re.compile(
    r'\s*wait\s*=\s*(?:([0-9]{1,9})|"([0-9]{1,9})")\s*(?:;.*)?', re.IGNORECASE | re.ASCII
)


def parse_seconds(prefer: str) -> int:
    """Return the seconds to wait from the header Prefer, at most MAX_SECONDS; 0 without a valid preference.

    The first one counts, and preferences that are not valid are ignored (RFC 7240, section 2).
    """
    for preference in prefer.split(","):
        if found := _PREFERENCE.fullmatch(preference):
            return min(int(found[1] or found[2]), MAX_SECONDS)
    return 0


@dataclass(slots=True, eq=False)
class _Request:
    trace_id: str
    key: str
    added_at: float
    has_left: Callable[[], bool] = lambda: False
    is_done: threading.Event = field(default_factory=threading.Event)
    result: AlertResult | None = None


class AlertResults:
    """The requests that wait for the results of their alerts; one instance per web process."""

    def __init__(self) -> None:
        self._requests: list[_Request] = []
        self._changed = threading.Condition()
        self._has_reader = False
        self._is_closed = False

    def wait(
        self,
        trace_id: str,
        key: str,
        seconds: float,
        *,
        max_requests: int,
        start_client_check: Callable[[], Callable[[], bool]],
    ) -> AlertResult | None:
        """Wait until an alert is processed, and return its result.

        None if it is not processed after these seconds, if it became a dead letter, if the client has left,
        if the process stops, or at once if too many other requests wait. The function that
        `start_client_check` returns says whether the client has left.
        """
        request = self._add(_Request(trace_id, key, time.monotonic()), max_requests)
        if request is None:
            return None
        try:
            request.has_left = start_client_check()
            request.is_done.wait(seconds)
        finally:
            with self._changed:
                self._requests.remove(request)
        return request.result

    def close(self) -> None:
        """End all waits, those that begin later too: the process stops."""
        with self._changed:
            self._is_closed = True
            for request in self._requests:
                request.is_done.set()

    def _add(self, request: _Request, max_requests: int) -> _Request | None:
        """Add a request and start the reader if none runs. None if too many others wait."""
        with self._changed:
            same_key = sum(other.key == request.key for other in self._requests)
            if self._is_closed or len(self._requests) >= max_requests or same_key >= MAX_PER_KEY:
                return None
            self._requests.append(request)
            self._changed.notify()
            has_reader, self._has_reader = self._has_reader, True
        if not has_reader and not self._start_reader():
            with self._changed:
                self._requests.remove(request)
            return None
        return request

    def _start_reader(self) -> bool:
        """Start the reader. False if the system has no thread left; the alert is stored in any case."""
        try:
            threading.Thread(target=self._read_all, name="alert results", daemon=True).start()
        except RuntimeError:
            with self._changed:
                self._has_reader = False
            return False
        return True

    def _read_all(self) -> None:
        """Read results until no request waits."""
        known: list[_Request] = []
        try:
            while known := self._pause(known):
                _read(known)
        except BaseException:
            # The next request starts another reader.
            with self._changed:
                self._has_reader = False
            raise

    def _pause(self, known: list[_Request]) -> list[_Request]:
        """Pause before the next read, and return the requests that still wait.

        A request that is not one of the known ones ends the pause.
        """
        time.sleep(MIN_PAUSE_S)
        with self._changed:
            newest = max((request.added_at for request in self._requests), default=0.0)
            pause = min((time.monotonic() - newest) * PAUSE_PER_AGE, MAX_PAUSE_S) - MIN_PAUSE_S
            if pause > 0 and all(request in known for request in self._requests):
                self._changed.wait(pause)
            pending = [request for request in self._requests if not request.is_done.is_set()]
            if not pending:
                # Under the lock: a request that is added after this starts another reader.
                self._has_reader = False
        return pending


def _read(requests: list[_Request]) -> None:
    """End the waits of requests whose alert is processed, or whose client has left."""
    for request in requests:
        if request.has_left():
            request.is_done.set()
    try:
        with store().deadline(READ_S), connection():
            results = find_results({request.trace_id for request in requests})
    except (*STORE_ERRORS, OSError):
        # The alert is stored, and its sender gets the answer without the result in any case.
        return
    for request in requests:
        if request.trace_id in results:
            request.result = results[request.trace_id]
            request.is_done.set()
