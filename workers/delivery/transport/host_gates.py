"""Keep gates for each host to which a channel sends, so that a dead host pauses only its own messages.

Many accounts can have addresses at one host, and each may be slow or broken by itself. So each account has a
gate of its own for a host. The host pauses for all only after messages of several accounts failed.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from workers.delivery.transport.relay_gate import RelayGate, Suspect

# Threads of a process that may send to one host at the same time, for all accounts and for one.
THREADS_PER_HOST = 4
THREADS_PER_HOST_AND_ACCOUNT = 2
# All threads of a channel of hosts: two accounts with dead hosts do not fill them.
MAX_THREADS = 12
# The gates that are kept. The one that was used the longest time ago is forgotten first.
MAX_GATES = 2_000
# A message is tried again after this time if all threads of its host are in use.
BUSY_PAUSE_S = 1.0


class NotEntered(NamedTuple):
    """Why no thread may send to a host now, and after how many seconds to try again.

    `is_down`: the host does not answer. Otherwise, other threads send to it.
    """

    is_down: bool
    pause_s: float


class EnteredHost:
    """A host to which this thread may send a message of an account. It must leave it."""

    def __init__(self, shared: RelayGate, own: RelayGate, account: int) -> None:
        self._shared = shared
        self._own = own
        self._account = account

    def leave(self) -> None:
        self._own.leave()
        self._shared.leave()

    def record_success(self) -> None:
        self._own.record_success()
        self._shared.record_success()

    def record_failure(self) -> None:
        """Record that the host failed, or the part of it that the account uses."""
        self._own.record_failure()
        self._shared.record_failure(Suspect(self._account, str(self._account)))


class HostGates:
    """The gates of the hosts of one channel in this process.

    `max_threads`: how many threads may send to one host; `max_of_account`: for one account.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        max_threads: int = THREADS_PER_HOST,
        max_of_account: int = THREADS_PER_HOST_AND_ACCOUNT,
    ) -> None:
        self._clock = clock
        self._max_threads = max_threads
        self._max_of_account = max_of_account
        # By host and account; account 0: the gate for all accounts.
        self._gates: OrderedDict[tuple[str, int], RelayGate] = OrderedDict()
        self._lock = threading.Lock()

    def enter(self, host: str, account: int) -> EnteredHost | NotEntered:
        """Return the entered host, whose leave() must be called, or why it cannot be entered."""
        with self._lock:
            own = self._get(host, account, self._max_of_account)
            if not own.enter():
                return _explain(own)
            shared = self._get(host, 0, self._max_threads)
            if shared.enter():
                return EnteredHost(shared, own, account)
            own.leave()
            return _explain(shared)

    def _get(self, host: str, account: int, max_threads: int) -> RelayGate:
        gate = self._gates.get((host, account))
        if gate is None:
            gate = self._gates[host, account] = RelayGate(self._clock, max_threads=max_threads)
            self._forget_oldest()
        self._gates.move_to_end((host, account))
        return gate

    def _forget_oldest(self) -> None:
        if len(self._gates) <= MAX_GATES:
            return
        unused = (key for key, gate in self._gates.items() if gate.is_unused())
        # The newest gate is unused too, so there is always one.
        del self._gates[next(unused)]

    def __len__(self) -> int:
        return len(self._gates)


def _explain(gate: RelayGate) -> NotEntered:
    return NotEntered(gate.is_down(), max(gate.get_pause_s(), BUSY_PAUSE_S))
