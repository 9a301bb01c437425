"""Places: how many requests of a process may compute something dear at the same time.

CPU time is what requests share in a process: one that computes for a second delays all others, also the
acceptance of alerts. So dear work holds one of few places, but only while it computes: a thread that waits
for the database or for a lock has given its place back. A dear route says so in web/routes.py. The work that
people and alerts wait for (acknowledge, resolve, callbacks, health, usual alerts) needs no place.

An account gets one place at a time: Python computes in one thread anyway, and a second one would only delay
others. Of the accounts that wait, the one that was served longest ago gets the next place.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from runtime import waiting
from web.http.errors import Busy, Throttled

# Requests that compute something dear at the same time, in one web process.
PLACES = 2
# Each request that waits occupies a thread; there are 32 of them (TOCSIN_WEB_THREADS).
MAX_PENDING = 12
MAX_PENDING_OF_ACCOUNT = 4
# How long a request waits for its place.
TIMEOUT_S = 5.0
# After a wait for the database, a request goes on without a place rather than fail.
RETURN_S = 1.0
RETRY_AFTER_S = 1


class NoPlaceError(Exception):
    """No place became free in time. `is_own`: the account itself has too many requests that wait."""

    def __init__(self, *, is_own: bool) -> None:
        super().__init__()
        self.is_own = is_own


class _Ticket:
    """A request that waits for a place."""

    __slots__ = ("account", "granted")

    def __init__(self, account: Hashable) -> None:
        self.account = account
        self.granted = threading.Event()


class Places:
    """Admits `count` holders at a time, of accounts that take turns."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._held: Counter[Hashable] = Counter()
        self._waiting: list[_Ticket] = []
        # When accounts got their last places, as a running number.
        self._served: dict[Hashable, int] = {}
        self._number = 0

    @contextmanager
    def hold(self, account: Hashable, seconds: float = TIMEOUT_S) -> Iterator[None]:
        """Hold a place while the context is open, except while this thread waits for the store.

        Raise NoPlaceError if none is free after so many seconds, at most TIMEOUT_S. A thread that holds a
        place already needs no other.
        """
        if waiting.get_pause() is not None:
            yield
            return
        self._take(account, min(seconds, TIMEOUT_S))
        waiting.set_pause(lambda: self._pause(account))
        try:
            yield
        finally:
            waiting.set_pause(None)
            self._give_back(account)

    def _pause(self, account: Hashable) -> Callable[[bool], None]:
        self._give_back(account)
        return lambda may_wait: self._return(account, RETURN_S if may_wait else 0.0)

    def _take(self, account: Hashable, seconds: float) -> None:
        with self._lock:
            if self._free > 0 and not self._held[account]:
                self._grant(account)
                return
            own = sum(ticket.account == account for ticket in self._waiting)
            if own >= MAX_PENDING_OF_ACCOUNT or len(self._waiting) >= MAX_PENDING:
                raise NoPlaceError(is_own=own >= MAX_PENDING_OF_ACCOUNT)
            ticket = self._append(account)
        if not self._is_granted(ticket, seconds):
            raise NoPlaceError(is_own=False)

    def _return(self, account: Hashable, seconds: float) -> None:
        with self._lock:
            if not seconds or (self._free > 0 and not self._held[account]):
                self._grant(account)
                return
            ticket = self._append(account)
        if not self._is_granted(ticket, seconds):
            with self._lock:
                self._grant(account)

    def _append(self, account: Hashable) -> _Ticket:
        ticket = _Ticket(account)
        self._waiting.append(ticket)
        return ticket

    def _is_granted(self, ticket: _Ticket, seconds: float) -> bool:
        if ticket.granted.wait(seconds):
            return True
        with self._lock:
            if ticket.granted.is_set():
                return True
            self._waiting.remove(ticket)
            self._forget(ticket.account)
        return False

    def _grant(self, account: Hashable) -> None:
        """Count a holder. More than all places are held if some returned without waiting."""
        self._free -= 1
        self._number += 1
        self._held[account] += 1
        self._served[account] = self._number

    def _give_back(self, account: Hashable) -> None:
        with self._lock:
            self._free += 1
            self._held[account] -= 1
            # Of one account, the request that has waited longest: it is the first in the list.
            ready = [ticket for ticket in self._waiting if not self._held[ticket.account]]
            if self._free > 0 and ready:
                ticket = min(ready, key=lambda ticket: self._served.get(ticket.account, 0))
                self._waiting.remove(ticket)
                self._grant(ticket.account)
                ticket.granted.set()
            self._forget(account)

    def _forget(self, account: Hashable) -> None:
        if not self._held[account]:
            del self._held[account]
            if all(ticket.account != account for ticket in self._waiting):
                self._served.pop(account, None)


places = Places(PLACES)


@contextmanager
def hold_place(account: Hashable) -> Iterator[None]:
    """Hold a place while this request computes. Raise Throttled or Busy if it gets none in time."""
    try:
        with places.hold(account):
            yield
    except NoPlaceError as error:
        raise (Throttled(RETRY_AFTER_S) if error.is_own else Busy()) from None
