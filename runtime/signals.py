"""Signals as something to wait for: no handler runs code of ours, so none can deadlock with it."""

import os
import select
import signal
import socket
import threading

STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class Signals:
    """Catches the signals that ask a process to stop, and `also` others; to be made in the main thread."""

    def __init__(self, *extra: signal.Signals) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in STOP | set(extra):
            signal.signal(number, lambda *_: None)

    def wait(self, timeout: float | None = None) -> set[int]:
        """The signals that came, as soon as one has; empty when none did within `timeout` seconds."""
        ready, _, _ = select.select([self._receiver], [], [], timeout)
        return set(self._receiver.recv(4096)) if ready else set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """True as soon as this process is asked to stop, False after `timeout` seconds."""
        return bool(self.wait(timeout) & STOP)


def exit_after(seconds: float) -> None:
    """End this process then, whatever still hangs in it: what was not finished is found in the database."""
    last_resort = threading.Timer(seconds, os._exit, (1,))
    last_resort.daemon = True
    last_resort.start()
