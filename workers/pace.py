"""How many alerts a lane takes at once: no more than fit into the time that a batch may hold its lane."""

from dataclasses import dataclass

from models.base import store

# Where a lane holds the whole store (SQLite), what others wait for must be short, whatever the machine.
ALL_HELD_S = 0.04
# Elsewhere a batch must only end long before the server ends its transaction.
LANE_HELD_S = 5.0
# What a batch begins with where it holds all.
FIRST = 50
# Where a batch holds all, so few still share its statements.
FEWEST = 10
# What maintenance kept back is told in few pages, so it is taken in batches so many times as large: a window
# ends seldom, and others wait for a quarter of a second then.
RELEASED_TOGETHER = 6


@dataclass(slots=True)
class Pace:
    """By a batch's own computing, since waiting for other threads makes no batch larger."""

    target_s: float | None = None
    limit: int | None = None

    def most(self) -> int:
        if self.limit is None:
            self.limit = FIRST if store().lane_holds_all else store().lane_batch
        return self.limit

    def took(self, count: int, seconds: float) -> None:
        limit, target_s = self.most(), self._target_s()
        if count < limit // 2 and seconds < target_s:
            return
        fitting = int(count * target_s / max(seconds, 1e-4))
        fewest = FEWEST if store().lane_holds_all else 1
        self.limit = max(fewest, min(store().lane_batch, (limit + fitting) // 2))

    def failed(self) -> None:
        """The store ended a batch: it may have taken too long, and the next is to be smaller."""
        self.limit = max(1, self.most() // 2)

    def _target_s(self) -> float:
        if self.target_s is not None:
            return self.target_s
        return ALL_HELD_S if store().lane_holds_all else LANE_HELD_S
