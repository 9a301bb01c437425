"""Run batches, and adapt their size to the load, so that a batch holds its lane only for a limited time."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic, thread_time

from models.store.store import store

# The CPU time of a batch on SQLite. It locks the whole database, for about 40 ms with the commit. Other
# writers wait for it, so it must be short on every machine.
MAX_STORE_HOLD_S = 0.03
# The CPU time on PostgreSQL that the next batches aim at. A batch locks only its lane, for about half as long
# again: a request that changes an incident of the service waits for it.
MAX_LANE_HOLD_S = 0.2
# The first batch size on SQLite.
INITIAL_SIZE = 50
# The smallest sizes to which slow batches lead, on SQLite and PostgreSQL. Smaller ones would need too many
# statements per alert, and costly rules of one service would make the batches of all services small.
MIN_SIZE = 10
MIN_LANE_SIZE = 100
# Factor for batches of alerts that maintenance deferred: larger batches lead to fewer messages. Maintenance
# windows end seldom, and other writers then wait for a quarter of a second.
RELEASED_FACTOR = 6
# The most alerts of such a batch: its lane is locked for less than two seconds on PostgreSQL.
MAX_RELEASED = 1_800
# The part of a batch's CPU time after which it decides on no further alert. Without costly rules, decisions
# take a smaller part. The rules of the last alert can take 0.25 s more
# (docs/decisions/0026-rules-have-a-budget-of-counted-work.md).
DECISION_SHARE = 0.5


def _get_max_hold_s() -> float:
    return MAX_STORE_HOLD_S if store().has_single_writer else MAX_LANE_HOLD_S


class DecisionTime:
    """The CPU time that this thread may spend on the decisions of a batch. It is counted in `with` blocks.

    `is_released`: maintenance deferred all these alerts. The batch is then larger, as RELEASED_FACTOR says.
    """

    def __init__(self, *, is_released: bool = False) -> None:
        self._left_s = get_max_decision_s() * (RELEASED_FACTOR if is_released else 1)
        self._began_at: float | None = None
        self._began_monotonic = 0.0

    def __enter__(self) -> None:
        self._began_at, self._began_monotonic = thread_time(), monotonic()

    def __exit__(self, *error: object) -> None:
        self._left_s -= self._get_current_s()
        self._began_at = None

    def is_over(self) -> bool:
        # Asked before each alert. A thread uses no more CPU time than passes on the monotonic clock, which is
        # read ten times as fast.
        if self._began_at is not None and monotonic() - self._began_monotonic < self._left_s:
            return False
        return self._get_current_s() > self._left_s

    def _get_current_s(self) -> float:
        return 0.0 if self._began_at is None else thread_time() - self._began_at


def get_max_decision_s() -> float:
    return DECISION_SHARE * _get_max_hold_s()


@dataclass(slots=True)
class BatchSize:
    """The batch size, adjusted by the CPU time of each batch, not by the time it waits for other threads."""

    target_s: float | None = None
    limit: int | None = None
    min_size: int | None = None

    def get_limit(self) -> int:
        if self.limit is None:
            self.limit = INITIAL_SIZE if store().has_single_writer else store().lane_batch
        return self.limit

    def get_small_limit(self) -> int:
        """Return the batch size, but at most the number of alerts that are written at once."""
        return min(self.get_limit(), store().write_batch)

    def adjust(self, count: int, seconds: float) -> None:
        limit, target_s = self.get_limit(), self._get_target_s()
        if count < limit // 2 and seconds < target_s:
            return
        fitting = int(count * target_s / max(seconds, 1e-4))
        # After reduce(), the limit may be lower than the smallest size.
        smallest = min(limit, self._get_min_size())
        self.limit = max(smallest, min(store().lane_batch, (limit + fitting) // 2))

    def reduce(self) -> None:
        """Halve the batch size after the database ended a batch, which may have taken too long."""
        self.limit = max(1, self.get_limit() // 2)

    def _get_min_size(self) -> int:
        if self.min_size is not None:
            return self.min_size
        return MIN_SIZE if store().has_single_writer else MIN_LANE_SIZE

    def _get_target_s(self) -> float:
        if self.target_s is not None:
            return self.target_s
        return _get_max_hold_s()


@dataclass(slots=True)
class CostlyLanes:
    """The limits of lanes whose batches end early because their rules take much time (DecisionTime).

    What such a batch loaded and parsed, but did not decide, is loaded and parsed again for the next one. So
    the next batch takes at most twice as many alerts as were decided. After each batch that was decided
    completely, the limit is doubled, until it is no limit any more.
    """

    _limits: dict[Hashable, int] = field(default_factory=dict)

    def get_limit(self, lane: Hashable, limit: int) -> int:
        """Return how many alerts the next batch of a lane may load: at most `limit`."""
        return min(limit, self._limits.get(lane, limit))

    def record(self, lane: Hashable, loaded: int, decided: int) -> None:
        """Record how many alerts a batch loaded, and how many of them it decided on."""
        if decided < loaded:
            self._limits[lane] = 2 * max(decided, 1)
        elif (limit := self._limits.pop(lane, 0)) and 2 * limit < store().lane_batch:
            self._limits[lane] = 2 * limit


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What became of a lane: `taken` alerts. `more`: the thread left the lane before it was empty.

    `is_busy`: another transaction has locked the lane.
    """

    taken: int
    more: bool = False
    is_busy: bool = False


def run_batches(
    batch: Callable[[], int], seconds: float | None = None, is_enough: Callable[[int], bool] | None = None
) -> TurnResult:
    """Run batches until nothing is pending, `seconds` are over (None: no limit), or `is_enough` is true."""
    ends_at = None if seconds is None else monotonic() + seconds
    taken = 0
    while count := batch():
        taken += count
        if (is_enough and is_enough(count)) or (ends_at is not None and monotonic() > ends_at):
            return TurnResult(taken, more=True)
    return TurnResult(taken)
