"""Give each lane to one thread at a time, so that one busy lane does not occupy all threads.

Lanes with little work share a thread and its transactions.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep


@dataclass(frozen=True, slots=True)
class _Turn:
    at: float
    linger_s: float = 0.0


class Linger:
    """Let a busy lane wait a moment before its next batch, so that the batch contains more alerts.

    A batch needs almost the same number of statements for one alert as for fifty. Only a lane whose last
    batch was small lingers; a single alert is processed immediately (design, section 5). The more lanes are
    busy, the longer each of them lingers: so all lanes together run a limited number of batches a second.
    Lanes that share their batches linger a correspondingly shorter time.
    """

    # A lane is busy if it has work again within this time after its last turn and its linger.
    BUSY_S = 0.15
    # A batch with fewer alerts is small.
    SMALL_BATCH = 50
    MIN_LINGER_S = 0.015
    MAX_LINGER_S = 0.25
    LINGER_PER_LANE_S = 0.01

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order of the last turns.
        self._turns: OrderedDict[Hashable, _Turn] = OrderedDict()

    def record_turn(self, lane: Hashable, taken: int, sharing: int = 1) -> float:
        """Record a turn with `taken` alerts. Return how many seconds the lane should linger (0: none).

        `sharing` is the number of lanes that share the batch; `taken` counts the alerts of all of them.
        """
        now = monotonic()
        with self._lock:
            last = self._turns.pop(lane, None)
            self._drop_old(now)
            if not taken:
                return 0.0
            busy = last is not None and now - last.at < last.linger_s + self.BUSY_S
            linger_s = self._get_linger_s(sharing) if busy and taken < self.SMALL_BATCH else 0.0
            self._turns[lane] = _Turn(now, linger_s)
            return linger_s

    def is_lingering(self, lane: Hashable) -> bool:
        """Return whether a lane lingers now. Wake-ups for it can be dropped: it gets one after the linger."""
        with self._lock:
            turn = self._turns.get(lane)
            return turn is not None and monotonic() < turn.at + turn.linger_s

    def _get_linger_s(self, sharing: int) -> float:
        lingering = 1 + sum(turn.linger_s > 0 for turn in self._turns.values())
        linger_s = lingering * self.LINGER_PER_LANE_S / sharing
        return min(max(linger_s, self.MIN_LINGER_S), self.MAX_LINGER_S)

    def _drop_old(self, now: float) -> None:
        while self._turns:
            lane, turn = next(iter(self._turns.items()))
            if now - turn.at < self.MAX_LINGER_S + self.BUSY_S:
                return
            del self._turns[lane]


class LaneTurns:
    """Let one thread at a time work on a lane. Remember whether its work was requested again meanwhile."""

    def __init__(self) -> None:
        self._requested_again: dict[Hashable, bool] = {}
        self._lock = threading.Lock()

    def work(self, lane: Hashable, work: Callable[[], object]) -> bool:
        """Do `work` and return whether it was requested again meanwhile; then the caller enqueues it again.

        If another thread works on the lane, only record the request there and return False. A thread reads
        the record and leaves the lane under one lock, so that no request is lost between the two.
        """
        with self._lock:
            if self._request_again(lane):
                return False
            self._requested_again[lane] = False
        try:
            work()
        finally:
            with self._lock:
                requested_again = self._requested_again.pop(lane)
        return requested_again

    def request_again(self, lane: Hashable) -> bool:
        """Record a request there if a thread works on the lane. Return whether one does."""
        with self._lock:
            return self._request_again(lane)

    def _request_again(self, lane: Hashable) -> bool:
        if lane not in self._requested_again:
            return False
        self._requested_again[lane] = True
        return True


class BusyLanes:
    """Remember which lanes are locked by other transactions. Let one thread at a time wait for one of them.

    A lane that is locked is tried again in a moment, without waiting. But PostgreSQL gives a lock to the
    transactions that wait for it, so that a lane that many requests lock would never get its turn. After
    BLOCK_AFTER_S, a thread waits for it. In a storm, several workers find each other's lanes locked: a
    thread that waited earlier would get only what arrived meanwhile.
    """

    BLOCK_AFTER_S = 0.6

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Lane -> when it was found locked for the first time.
        self._since: dict[Hashable, float] = {}
        self._blocking = threading.Lock()

    def record(self, lane: Hashable, *, is_busy: bool) -> None:
        """Record whether the lane was locked at its turn."""
        with self._lock:
            if is_busy:
                self._since.setdefault(lane, monotonic())
            else:
                self._since.pop(lane, None)

    def is_starving(self, lane: Hashable) -> bool:
        """Return whether the lane was locked at each turn for so long that a thread should wait for it."""
        with self._lock:
            return monotonic() - self._since.get(lane, math.inf) >= self.BLOCK_AFTER_S

    @contextmanager
    def let_one_block(self, lane: Hashable) -> Iterator[bool]:
        """Yield whether this thread may wait for the lane: it is starving, and no other thread waits."""
        may_block = self.is_starving(lane) and self._blocking.acquire(blocking=False)
        try:
            yield may_block
        finally:
            if may_block:
                self._blocking.release()


class Gathering:
    """Let one thread process all lanes whose wake-ups arrive while it works, in common batches.

    The wake-ups of busy lanes arrive while a batch runs. The other threads only add them here, and the next
    batch processes all of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order of their wake-ups.
        self._requested: dict[int, None] = {}
        self._is_active = False

    def work(
        self, lane: int, process: Callable[[list[int]], tuple[Iterable[int], float]], seconds: float
    ) -> list[int]:
        """Add a lane. Unless another thread processes lanes now, do so until none is left.

        `process` gets the waiting lanes. It returns those to process again, and how many seconds to wait
        before the next batch, so that more alerts arrive for it. After `seconds`, return the lanes that still
        wait: the caller enqueues them. After an error, all waiting lanes are dropped, as their wake-ups would
        be.
        """
        with self._lock:
            self._requested.setdefault(lane)
            if self._is_active:
                return []
            self._is_active = True
        try:
            return self._process_requested(process, monotonic() + seconds)
        except BaseException:
            self._leave()
            raise

    def _process_requested(
        self, process: Callable[[list[int]], tuple[Iterable[int], float]], ends_at: float
    ) -> list[int]:
        while lanes := self._take():
            again, pause_s = process(lanes)
            with self._lock:
                self._requested = dict.fromkeys((*again, *self._requested))
            if monotonic() > ends_at:
                return self._leave()
            if pause_s:
                sleep(pause_s)
        return []

    def add_to_running(self, lane: int) -> bool:
        """Add a lane if a thread processes lanes now. Return whether one does."""
        with self._lock:
            if self._is_active:
                self._requested.setdefault(lane)
            return self._is_active

    def _take(self) -> list[int]:
        """Take all waiting lanes. If there are none, leave under the same lock, so that no lane is lost."""
        with self._lock:
            lanes = list(self._requested)
            self._requested.clear()
            self._is_active = bool(lanes)
            return lanes

    def _leave(self) -> list[int]:
        """Let another thread process lanes from now on. Return those that wait, and forget them."""
        with self._lock:
            lanes = list(self._requested)
            self._requested.clear()
            self._is_active = False
            return lanes


# The turns of this process.
turns = LaneTurns()
