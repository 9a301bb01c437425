"""One thread at a time for each thing to look at, so that one busy lane does not hold all threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How much was taken from a lane; `more` when it was left before it was empty."""

    taken: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Turn:
    at: float
    linger_s: float = 0.0


class Linger:
    """Lets alerts that follow each other closely gather: a batch costs the same statements, however small.

    Only while a lane is busy with small batches; an alert that comes alone waits for nobody (design,
    section 5). The more lanes are busy, the longer each of them rests, so that all together cost no more
    than so many batches a second.
    """

    # A lane that has work again so soon after its last turn, and the rest after that, is busy.
    BUSY_S = 0.15
    # Batches of fewer alerts are small.
    SMALL_BATCH = 50
    MIN_LINGER_S = 0.015
    MAX_LINGER_S = 0.25
    LINGER_PER_LANE_S = 0.01

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In their order.
        self._turns: OrderedDict[Hashable, _Turn] = OrderedDict()

    def record_turn(self, lane: Hashable, taken: int) -> float:
        """How many seconds a lane that so many alerts were taken from should rest; 0 for not at all."""
        now = monotonic()
        with self._lock:
            last = self._turns.pop(lane, None)
            self._drop_old(now)
            if not taken:
                return 0.0
            busy = last is not None and now - last.at < last.linger_s + self.BUSY_S
            linger_s = self._get_linger_s() if busy and taken < self.SMALL_BATCH else 0.0
            self._turns[lane] = _Turn(now, linger_s)
            return linger_s

    def is_lingering(self, lane: Hashable) -> bool:
        """Whether a lane rests now: who rang for it meanwhile need not be heard, it is rung afterwards."""
        with self._lock:
            turn = self._turns.get(lane)
            return turn is not None and monotonic() < turn.at + turn.linger_s

    def _get_linger_s(self) -> float:
        lingering = 1 + sum(turn.linger_s > 0 for turn in self._turns.values())
        return min(max(lingering * self.LINGER_PER_LANE_S, self.MIN_LINGER_S), self.MAX_LINGER_S)

    def _drop_old(self, now: float) -> None:
        while self._turns:
            lane, turn = next(iter(self._turns.items()))
            if now - turn.at < self.MAX_LINGER_S + self.BUSY_S:
                return
            del self._turns[lane]


def run_batches(
    batch: Callable[[], int], seconds: float | None = None, is_enough: Callable[[int], bool] | None = None
) -> TurnResult:
    """Take batch after batch until nothing waits, the time is over (None is no limit), or one was enough."""
    ends_at = None if seconds is None else monotonic() + seconds
    taken = 0
    while count := batch():
        taken += count
        if (is_enough and is_enough(count)) or (ends_at is not None and monotonic() > ends_at):
            return TurnResult(taken, more=True)
    return TurnResult(taken)


class LaneTurns:
    """Work that is asked for while it is being done is noted, and asked for again by whoever does it."""

    def __init__(self) -> None:
        self._requested_again: dict[Hashable, bool] = {}
        self._lock = threading.Lock()

    def work(self, lane: Hashable, work: Callable[[], object]) -> bool:
        """Do `work`, unless somebody does it now; whether it was asked for again meanwhile.

        Asking and leaving are one step: whoever asks later finds the lane free.
        """
        with self._lock:
            if lane in self._requested_again:
                self._requested_again[lane] = True
                return False
            self._requested_again[lane] = False
        try:
            work()
        finally:
            with self._lock:
                requested_again = self._requested_again.pop(lane)
        return requested_again
