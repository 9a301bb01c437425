"""How many alerts a lane takes at once: no more than fit into the time that a batch may hold its lane."""

from dataclasses import dataclass

from models.store.base import store

# Where a lane holds the whole store (SQLite), what others wait for must be short, whatever the machine.
MAX_STORE_HOLD_S = 0.04
# Elsewhere a batch must only end long before the server ends its transaction.
MAX_LANE_HOLD_S = 5.0
# What a batch begins with where it holds all.
INITIAL_SIZE = 50
# Where a batch holds all, so few still share its statements.
MIN_SIZE = 10
# What maintenance kept back is told in few pages, so it is taken in batches so many times as large: a window
# ends seldom, and others wait for a quarter of a second then.
RELEASED_FACTOR = 6


@dataclass(slots=True)
class BatchSize:
    """By a batch's own computing, since waiting for other threads makes no batch larger."""

    target_s: float | None = None
    limit: int | None = None

    def get_limit(self) -> int:
        if self.limit is None:
            self.limit = INITIAL_SIZE if store().has_single_writer else store().lane_batch
        return self.limit

    def adjust(self, count: int, seconds: float) -> None:
        limit, target_s = self.get_limit(), self._get_target_s()
        if count < limit // 2 and seconds < target_s:
            return
        fitting = int(count * target_s / max(seconds, 1e-4))
        min_size = MIN_SIZE if store().has_single_writer else 1
        self.limit = max(min_size, min(store().lane_batch, (limit + fitting) // 2))

    def reduce(self) -> None:
        """The store ended a batch: it may have taken too long, and the next is to be smaller."""
        self.limit = max(1, self.get_limit() // 2)

    def _get_target_s(self) -> float:
        if self.target_s is not None:
            return self.target_s
        return MAX_STORE_HOLD_S if store().has_single_writer else MAX_LANE_HOLD_S
