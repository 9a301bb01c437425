"""Keep a gate for each host to which a channel sends, so that a dead host pauses only its own messages."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from workers.delivery.transport.relay_gate import RelayGate

# Threads of a process that may send to one host at the same time.
THREADS_PER_HOST = 2
# All threads of a channel of hosts: two accounts with dead hosts do not fill them.
MAX_THREADS = 12
# The gates that are kept. The one that was used the longest time ago is forgotten first.
MAX_HOSTS = 1_000
# A message is tried again after this time if all threads of its host are in use.
BUSY_PAUSE_S = 1.0


class NotEntered(NamedTuple):
    """Why no thread may send to a host now, and after how many seconds to try again.

    `is_down`: the host does not answer. Otherwise, other threads send to it.
    """

    is_down: bool
    pause_s: float


class HostGates:
    """The gates of the hosts of one channel in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gates: OrderedDict[str, RelayGate] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, host: str) -> RelayGate | NotEntered:
        """Return the entered gate of a host, whose leave() must be called, or why it cannot be entered."""
        with self._lock:
            gate = self._gates.get(host)
            if gate is None:
                gate = self._gates[host] = RelayGate(self._clock, max_threads=THREADS_PER_HOST)
                self._forget_oldest()
            self._gates.move_to_end(host)
            if gate.enter():
                return gate
            return NotEntered(gate.is_down(), max(gate.get_pause_s(), BUSY_PAUSE_S))

    def _forget_oldest(self) -> None:
        if len(self._gates) <= MAX_HOSTS:
            return
        unused = (host for host, gate in self._gates.items() if gate.is_unused())
        # The newest gate is unused too, so there is always one.
        del self._gates[next(unused)]

    def __len__(self) -> int:
        return len(self._gates)
