"""Decide whose message a thread sends next: accounts take turns, and none has more than its share of threads.

A message whose target is slow holds a thread for up to ten seconds, and nothing can stop it. So the share of
an account is at most half of the threads: the messages of the others always find one.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from threading import get_ident
from typing import NamedTuple, Protocol

from models.domain.channels import USER_EMAIL_CHANNEL
from workers.delivery import threads

# Threads of a process that send messages of one account in one channel. A channel with few threads has less.
THREADS_PER_ACCOUNT = 4
# The same for all channels but e-mail together, which share their threads.
THREADS_PER_ACCOUNT_ELSEWHERE = threads.MAX_THREADS // 2
# How long a process uses what it knows about the accounts that have due messages. One that is not among them
# gets its turn this much later.
KNOWN_FOR_S = 0.1


class Flight(NamedTuple):
    """A message that a thread of this process sends now. `row` 0: it is being claimed."""

    channel: int
    account: int
    row: int = 0


def choose_account(
    due: Sequence[int], full: Collection[int], served: Mapping[int, int], without: Collection[int] = ()
) -> int | None:
    """Return the account whose turn it is; None: none may have a thread now.

    That is the one that was served the longest time ago, of those that have a due message and are not full.
    `served`: a number for each account that was served, which is larger for a later time.
    """
    allowed = [account for account in due if account not in full and account not in without]
    return min(allowed, key=lambda account: served.get(account, 0), default=None)


def find_full(channel: int, flights: Collection[Flight], per_account: int) -> set[int]:
    """Return the accounts that have all threads of the channel that one account may have."""
    return _find_with(per_account, [each.account for each in flights if each.channel == channel])


def find_full_elsewhere(channel: int, flights: Collection[Flight]) -> set[int]:
    """Return the accounts that have their share of the threads of all channels but e-mail.

    They must not have one more in this channel.
    """
    if channel == USER_EMAIL_CHANNEL:
        return set()
    elsewhere = [each.account for each in flights if each.channel != USER_EMAIL_CHANNEL]
    return _find_with(THREADS_PER_ACCOUNT_ELSEWHERE, elsewhere)


def _find_with(count: int, accounts: Sequence[int]) -> set[int]:
    return {account for account in accounts if accounts.count(account) >= count}


class AccountLister(Protocol):
    def __call__(self, channel: int, now: datetime) -> list[int]:
        """Return the accounts that have due messages in a channel."""
        ...


class Turns:
    """The turns of the accounts in all channels of this process. `clock` is any monotonic clock, in seconds.

    A thread has one flight at most: from the claim of its message until it ends or claims the next one.
    """

    def __init__(self, list_due: AccountLister, clock: Callable[[], float] = time.monotonic) -> None:
        self._list_due = list_due
        self._clock = clock
        self._lock = threading.Lock()
        self._flights: dict[int, Flight] = {}
        # By channel: the accounts that have due messages, and when that was read.
        self._due: dict[int, tuple[list[int], float]] = {}
        # By channel and account: the number of the last turn.
        self._served: dict[int, dict[int, int]] = {}
        self._turn = 0
        # The channels that have a message for which its account had no thread left elsewhere.
        self._refused: set[int] = set()

    def is_due(self, channel: int, now: datetime) -> bool:
        """Return whether a message can be claimed. Read it from the database, without a lock."""
        return bool(self.read(channel, now))

    def read(self, channel: int, now: datetime) -> list[int]:
        """Read which accounts have due messages, and remember it for a moment."""
        due = self._list_due(channel, now)
        with self._lock:
            self._due[channel] = due, self._clock()
            served = self._served.get(channel, {})
            self._served[channel] = {account: served[account] for account in due if account in served}
        return due

    def list_known(self, channel: int) -> list[int]:
        """Return the accounts that had due messages a moment ago, without asking the database."""
        due, read_at = self._due.get(channel, ([], 0.0))
        return due if self._clock() - read_at < KNOWN_FOR_S else []

    def begin(
        self, channel: int, per_account: int, due: Sequence[int], without: Collection[int]
    ) -> int | None:
        """Begin a flight of this thread for the account whose turn it is; None: no account may have one.

        `due`: the accounts that have due messages. `without`: those that have none after all.
        """
        with self._lock:
            flights = [each for thread, each in self._flights.items() if thread != get_ident()]
            elsewhere = find_full_elsewhere(channel, flights)
            if not elsewhere.isdisjoint(due):
                self._refused.add(channel)
            full = find_full(channel, flights, per_account) | elsewhere
            served = self._served.setdefault(channel, {})
            account = choose_account(due, full, served, without)
            if account is None:
                self._flights.pop(get_ident(), None)
                return None
            self._turn += 1
            served[account] = self._turn
            self._flights[get_ident()] = Flight(channel, account)
            return account

    def list_rows(self) -> list[int]:
        """Return the messages that threads of this process send now."""
        with self._lock:
            return [each.row for each in self._flights.values() if each.row]

    def set_row(self, row: int) -> None:
        """Name the message of the flight of this thread."""
        with self._lock:
            self._flights[get_ident()] = self._flights[get_ident()]._replace(row=row)

    def end(self) -> None:
        """End the flight of this thread, if it has one."""
        with self._lock:
            self._flights.pop(get_ident(), None)

    def take_refused(self) -> set[int]:
        """Return the channels whose threads must look again, after a flight ended. Each is returned once."""
        with self._lock:
            refused, self._refused = self._refused, set()
            return refused
