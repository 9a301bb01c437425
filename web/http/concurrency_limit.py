"""Limit how many expensive requests run in a web process at once, so that it can still accept alerts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from models.tables.accounts import Account
from web.http.errors import Throttled

# The end of the running requests is not known, so this is only a guess.
RETRY_AFTER_S = 1


class ConcurrencyLimit:
    """At most `max_requests` at the same time in this process, and one per account."""

    def __init__(self, max_requests: int) -> None:
        self.max_requests = max_requests
        self._lock = threading.Lock()
        self._accounts: set[int] = set()

    @contextmanager
    def acquire(self, account: Account) -> Iterator[None]:
        """Count a request of this account while it runs, or raise Throttled.

        A request does not wait for its turn, because it would occupy a thread.
        """
        with self._lock:
            if account.id in self._accounts or len(self._accounts) >= self.max_requests:
                raise Throttled(RETRY_AFTER_S)
            self._accounts.add(account.id)
        try:
            yield
        finally:
            with self._lock:
                self._accounts.discard(account.id)
