"""Limit how often a client address sends invalid tokens: then the answer is 429 instead of 401.

A valid token is never refused and costs nothing here. An address may stand for many people (a proxy, an
office), and one of them must not keep out the others.
"""

import ipaddress
import threading
from contextlib import suppress
from datetime import datetime

import structlog

from models.store.prepared import in_list
from models.store.store import STORE_ERRORS, store
from models.tables.accounts import FailedAuthentication
from web.http.errors import Throttled

log = structlog.get_logger()

# Invalid tokens of one address in one minute, in all web processes together.
LIMIT = 60
# A process adds its count to that of the others in steps of this size. So the store writes at most six times
# a minute for one address, and never for an address that fails rarely.
STEP = 10
# Addresses that a process counts in one minute. Beyond them, failures are not counted.
MAX_ADDRESSES = 10_000
# A client with IPv6 usually has all addresses of a network of this size.
IPV6_PREFIX = 64

MINUTE_S = 60


class FailureCounter:
    """The failures of the present minute in this process, by address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = 0
        self._counts: dict[str, int] = {}
        self._refused: set[str] = set()

    def count(self, client: str, at: datetime) -> None:
        """Count an invalid token of this client, or raise Throttled."""
        minute, second = divmod(int(at.timestamp()), MINUTE_S)
        address = get_network(client)
        if self._add(address, minute) and _add_to_all(address, minute) >= LIMIT:
            self._refuse(address)
        if address in self._refused:
            raise Throttled(MINUTE_S - second)

    def _add(self, address: str, minute: int) -> bool:
        """Count one failure here, and return whether a step is complete."""
        with self._lock:
            if minute != self._minute:
                self._minute, self._counts, self._refused = minute, {}, set()
            if address in self._refused or (
                len(self._counts) >= MAX_ADDRESSES and address not in self._counts
            ):
                return False
            self._counts[address] = self._counts.get(address, 0) + 1
            return self._counts[address] % STEP == 0

    def _refuse(self, address: str) -> None:
        with self._lock:
            self._refused.add(address)
        log.warning("too many invalid tokens of one client", client=address, limit=LIMIT)

    def clear(self) -> None:
        with self._lock:
            self._minute = 0


failures = FailureCounter()


def _add_to_all(address: str, minute: int) -> int:
    """Add a step to the count of all processes, and return it; 0 if the store cannot write now."""
    table = FailedAuthentication
    with suppress(*STORE_ERRORS):
        _delete_before(minute)
        with store().write_transaction():
            table.insert(address=address, minute=minute, count=0).on_conflict_ignore().execute()
            row = store().for_update(table.select().where(table.address == address)).get()
            total: int = (row.count if row.minute == minute else 0) + STEP
            table.update(minute=minute, count=total).where(table.id == row.id).execute()
            return total
    return 0


def _delete_before(minute: int) -> None:
    """Delete old counts in a transaction of its own: with an insert in it, two processes could deadlock."""
    table = FailedAuthentication
    with store().write_transaction():
        old = table.select(table.id).where(table.minute < minute)
        # Another process deletes or counts the rows that it has locked. No process waits for them.
        rows = store().for_update(old, skip_locked=True).tuples()
        table.delete().where(in_list(table.id, [row for (row,) in rows])).execute()


def get_network(client: str) -> str:
    """Return the network that one client probably has; the text itself if it is no address."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client[:64]
    if address.version == 6:
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address)
