"""Limit how many expensive requests run at once, so that web processes can still accept alerts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

import peewee
from flask import request

from models.store.store import STORE_ERRORS, store
from models.tables.accounts import Account, RateLimit
from models.write.rates import lock_rate
from web.http.errors import Throttled
from web.server_interface import CLIENT_CHECK

# The end of the running requests is not known, so this is only a guess.
RETRY_AFTER_S = 1
# A process that is killed does not release its lease. Longer than an expensive request takes under load.
LEASE_S = 30.0


def start_client_check() -> Callable[[], bool]:
    """Return a function that says whether the client of this request has left, so that work for it can end.

    Without support by the server, the client never leaves.
    """
    start: Callable[[], Callable[[], bool]] | None = request.environ.get(CLIENT_CHECK)
    return start() if start is not None else lambda: False


class ConcurrencyLimit:
    """At most `max_requests` at the same time in this process, and one per account.

    With a name, the account has one in all processes together: the request holds a lease in the store. While
    the store takes no writes, only the limit of the process counts, so that questions are still answered.

    Two values are only for the description. `applies_to`: which requests of an operation are limited, if not
    all of them are. `ends_with_client`: whether the work ends when the client leaves.
    """

    def __init__(
        self, max_requests: int, name: str = "", applies_to: str = "", *, ends_with_client: bool = True
    ) -> None:
        self.max_requests = max_requests
        self.applies_to = applies_to
        self.ends_with_client = ends_with_client
        self._name = name
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
            with _hold_lease(account, f"running {self._name}") if self._name else nullcontext():
                yield
        finally:
            with self._lock:
                self._accounts.discard(account.id)


@contextmanager
def _hold_lease(account: Account, operation: str) -> Iterator[None]:
    """Hold the lease of an account for an operation. Raises Throttled if another process holds it.

    It is a row of the table of rate limits, whose only time is the end of the lease.
    """

    def select() -> "peewee.ModelSelect[RateLimit]":
        return RateLimit.select().where(RateLimit.account == account, RateLimit.operation == operation)

    def take() -> list[float]:
        with store().write_transaction():
            row = lock_rate(account, operation)
            now = store().now()
            _check_lease(row, now.timestamp())
            lease = [now.timestamp() + LEASE_S]
            RateLimit.update(recent=lease, used_at=now).where(RateLimit.id == row.id).execute()
        return lease

    # Check first without a lock, so that a client with many requests does not block others.
    _check_lease(select().first(), store().now().timestamp())
    lease = []
    try:
        lease = take()
    except (*STORE_ERRORS, OSError) as error:
        # If the store cannot be read either, the request fails at its next query.
        if not _refuses_writes(error):
            raise
    try:
        yield
    finally:
        # Without the store, the lease ends by itself. The answer of the request is complete.
        if lease:
            with suppress(*STORE_ERRORS), store().write_transaction():
                if (row := store().for_update(select()).first()) is not None and row.recent == lease:
                    RateLimit.update(recent=[]).where(RateLimit.id == row.id).execute()


def _refuses_writes(error: Exception) -> bool:
    """Return whether the store takes no writes at all, and not only a lock was held for too long."""
    # The file of SQLite's lock is in a folder that cannot be written.
    if isinstance(error, OSError):
        return True
    return store().is_unavailable(error) and not store().is_lock_timeout(error)


def _check_lease(row: RateLimit | None, now_s: float) -> None:
    # A later time was stored before the clock was set back.
    if row is not None and any(now_s < until <= now_s + LEASE_S for until in row.recent):
        raise Throttled(RETRY_AFTER_S)
