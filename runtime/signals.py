"""Wait for signals with select: no signal handler runs code of Tocsin, so no handler can cause a deadlock."""

import os
import select
import signal
import socket
import threading

STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class Signals:
    """Catches the signals that ask a process to stop, and the `extra` ones. Create it in the main thread."""

    def __init__(self, *extra: signal.Signals) -> None:
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        sender.setblocking(False)
        # Open until the process ends: another signal can come while it stops. The kernel sends one for each
        # thread of a parent that is killed, and Python would print a traceback for each that it cannot write.
        self._receiver = receiver.detach()
        signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
        for number in STOP | set(extra):
            signal.signal(number, lambda *_: None)

    def wait(self, timeout: float | None = None) -> set[int]:
        """Wait for a signal and return the received signals; empty if none came within `timeout` seconds."""
        ready, _, _ = select.select([self._receiver], [], [], timeout)
        return set(os.read(self._receiver, 4096)) if ready else set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Return True as soon as this process is asked to stop, False after `timeout` seconds."""
        return bool(self.wait(timeout) & STOP)


def exit_after(seconds: float) -> None:
    """End this process after `seconds`, even if threads still run. Unfinished work stays in the database."""
    exit_timer = threading.Timer(seconds, os._exit, (1,))
    exit_timer.daemon = True
    exit_timer.start()
