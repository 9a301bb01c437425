"""What costs so much that a web process does little of it at once, so that alerts are taken meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from models.tables.accounts import Account
from web.http.errors import Throttled

# Which request ends when nobody knows.
RETRY_AFTER_S = 1


class ConcurrencyLimit:
    """So many requests at a time in this process, and one of each account."""

    def __init__(self, max_requests: int) -> None:
        self.max_requests = max_requests
        self._lock = threading.Lock()
        self._accounts: set[int] = set()

    @contextmanager
    def acquire(self, account: Account) -> Iterator[None]:
        """A request of this account, or Throttled: nobody waits, since whoever waits holds a thread."""
        with self._lock:
            if account.id in self._accounts or len(self._accounts) >= self.max_requests:
                raise Throttled(RETRY_AFTER_S)
            self._accounts.add(account.id)
        try:
            yield
        finally:
            with self._lock:
                self._accounts.discard(account.id)
