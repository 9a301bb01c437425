"""Limit the total time of one step of an SMTP session: connect, send one mail, or quit.

The time-out of smtplib applies to each read: a server that sends one byte now and then could block a thread
without limit. The watchdog shuts the connection down at the deadline.
"""

import contextlib
import socket
import threading
import time
from types import TracebackType


class Watchdog:
    """Limit one `with` block until `deadline` (of time.monotonic()). `expired` says that the time is over."""

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
        """Return the remaining seconds, at least 0.01: a socket with time-out 0 does not wait at all."""
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
