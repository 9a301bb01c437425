"""Shut a connection down at a deadline.

The timeouts of the libraries apply to each read: a server that sends one byte now and then could block a
thread without limit.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple


class Watchdog:
    """Shut down a connection if a `with` block has not ended at `deadline` (of time.monotonic()).

    `expired`: whether the deadline has passed.
    """

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._sock: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(self.remaining(), self._expire)
        self._timer.daemon = True
        self.expired = False

    def __enter__(self) -> "Watchdog":
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._sock = None

    def remaining(self) -> float:
        """Return the remaining seconds, at least 0.01: a socket with timeout 0 does not wait at all."""
        return max(0.01, self._deadline - time.monotonic())

    def guard(self, sock: socket.socket) -> None:
        """Shut down this connection at the deadline, instead of the one before."""
        with self._lock:
            self._sock = sock
            if self.expired:
                _shut_down(sock)

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            if self._sock is not None:
                _shut_down(self._sock)


def _shut_down(sock: socket.socket) -> None:
    """Shut a socket down, which wakes a thread that reads from it; closing would not.

    The other side may have closed it already.
    """
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class HostAddress(NamedTuple):
    """An address of a host, in the form that a socket needs."""

    family: int
    kind: int
    protocol: int
    address: tuple[str | int | bytes, ...]


def resolve(host: str, port: int, flags: int = 0) -> list[HostAddress]:
    """Return the addresses of a host. Raise OSError or UnicodeError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [HostAddress(family, kind, protocol, address) for family, kind, protocol, _, address in found]


def connect(host: str, port: int, watchdog: Watchdog) -> socket.socket:
    """Connect to the first address of the host that answers. Each gets its share of the remaining time."""
    return connect_to(resolve(host, port), watchdog)


def connect_to(addresses: Sequence[HostAddress], watchdog: Watchdog) -> socket.socket:
    """Do the same with addresses that the caller found, and with no others."""
    failure: OSError = OSError("the name of the host has no address")
    for tried, (family, kind, protocol, address) in enumerate(addresses):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(watchdog.remaining() / (len(addresses) - tried))
            raw.connect(address)
            # The socket's timeout is 1 s later: the error of the watchdog says more.
            raw.settimeout(watchdog.remaining() + 1)
            return raw
        except OSError as error:
            raw.close()
            failure = error
    raise failure
