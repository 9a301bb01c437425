"""A limit on how long a conversation may take as a whole.

smtplib's time-out is for each read: a server that sends a byte now and then holds a thread for as
long as it likes. The watchdog shuts the connection at the deadline, whatever is going on over it.
"""

import contextlib
import socket
import threading
import time
from types import TracebackType


class Watchdog:
    """For one `with` block, until `ends` (of time.monotonic()). `bit` says that the time was up."""

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
        """Seconds that are left; a hundredth at least, since a socket takes 0 for "do not wait"."""
        return max(0.01, self._deadline - time.monotonic())

    def guard(self, sock: socket.socket) -> None:
        """From now on it is this connection that is shut."""
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
    """Wakes whoever waits on it; closing alone would not. The other side may have closed it already."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
