"""Limits of the mails that a listener takes: for each address, for each key, and for all together."""

import ipaddress
import threading
from dataclasses import dataclass


class Rates:
    """Counts what happens under a name: `limit` times in a minute, then as often as the minute allows.

    Used by several threads.
    """

    # More names than a listener sees in a minute. The one that was counted first is forgotten.
    max_names = 10_000

    def __init__(self, limit: int) -> None:
        self._limit = float(limit)
        # What is left under each name, and since when.
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str, now: float) -> bool:
        """Count once, at this monotonic time. False: the limit is used up."""
        with self._lock:
            left, at = self._left.pop(name, (self._limit, now))
            left = min(self._limit, left + (now - at) * self._limit / 60)
            is_taken = left >= 1
            if len(self._left) >= self.max_names:
                del self._left[next(iter(self._left))]
            self._left[name] = (left - is_taken, now)
        return is_taken


@dataclass(frozen=True, slots=True)
class MailLimits:
    """The limits of a listener.

    `seconds`: the life of a connection. `command_seconds`: how long it may be silent before each command.
    `commands`: of each kind in a connection, so also the mails in it. `connections`, `connections_of_address`
    and `connections_of_stranger`: at the same time. A stranger is an address that has delivered no mail. An
    address of IPv6 is its network (/64).
    """

    seconds: float = 60.0
    command_seconds: float = 10.0
    commands: int = 100
    recipients: int = 10
    connections: int = 50
    connections_of_address: int = 20
    connections_of_stranger: int = 5
    connections_a_minute: int = 300
    mails_of_key_a_minute: int = 300


class Connections:
    """Admits the connections of one listener. Used in the thread of its event loop only."""

    # Addresses that have delivered a mail, and are remembered. The first one is forgotten.
    max_known = 10_000

    def __init__(self, limits: MailLimits) -> None:
        self._limits = limits
        self._open: dict[str, int] = {}
        self._known: dict[str, None] = {}
        self._rates = Rates(limits.connections_a_minute)

    def is_full(self) -> bool:
        """Return whether no connection of any address can be admitted."""
        return sum(self._open.values()) >= self._limits.connections

    def may_open(self, address: str) -> bool:
        """Return whether this address may have one connection more."""
        name, limits = name_network(address), self._limits
        is_known = name in self._known
        most = limits.connections_of_address if is_known else limits.connections_of_stranger
        return self._open.get(name, 0) < most

    def admit(self, address: str, now: float) -> bool:
        """Count a new connection of this address. False: it is one too many."""
        name = name_network(address)
        if self.is_full() or not self.may_open(address) or not self._rates.take(name, now):
            return False
        self._open[name] = self._open.get(name, 0) + 1
        return True

    def remember(self, address: str) -> None:
        """Remember that this address has delivered a mail."""
        name = name_network(address)
        self._known.pop(name, None)
        if len(self._known) >= self.max_known:
            del self._known[next(iter(self._known))]
        self._known[name] = None

    def release(self, address: str) -> None:
        """Count the end of a connection that was admitted."""
        name = name_network(address)
        left = self._open.pop(name) - 1
        if left:
            self._open[name] = left


def name_network(address: str) -> str:
    """Return what limits count as one client: a client has all addresses of its IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
