"""The work that rules may cause for one alert: a budget of evaluation steps, searched bytes and written text.

Work is counted, not timed. So the same alert gets the same result on every machine and in every batch.
"""

from enum import StrEnum

from models.domain.reasons import Reason, make_reason


class Work(StrEnum):
    """A kind of work."""

    # An item that a path visits or the engine receives; other work is counted in as many steps as it takes
    # time. Measured: about 0.2 microseconds.
    STEPS = "steps"
    # A byte that a pattern searches, times the size of patterns that can be slow (patterns.py). Measured:
    # at most 5 nanoseconds.
    SEARCHED = "searched"
    # A character that a template writes. Measured, with the cleaning: at most 0.1 microseconds.
    WRITTEN = "written"


# In Python 3.11, reading a member of an enum class takes as long as taking work from a budget.
STEPS = Work.STEPS

# The budget of an alert: in the worst case about 50, 150 and 50 ms of CPU time.
LIMITS = {Work.STEPS: 250_000, Work.SEARCHED: 30_000_000, Work.WRITTEN: 500_000}
# The alerts of one body share this many budgets equally. None gets more than one, or less than a MIN_SHARE of
# it: enough for 500 ordinary rules that do not match, or for 100 actions.
BUDGETS_PER_BODY = 20
MIN_SHARE = 50


class BudgetExceeded(Exception):
    """The rules of an alert need more work than its budget allows. `reason` says so to people."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _explain(kind: Work, limit: int) -> Reason:
    match kind:
        case Work.STEPS:
            return make_reason("steps_exceeded", limit=limit)
        case Work.SEARCHED:
            return make_reason("patterns_exceeded", limit=limit)
        case Work.WRITTEN:
            return make_reason("templates_exceeded", limit=limit)


class Budget:
    """The work that the rules of one alert may still cause.

    `group_size` is the number of alerts in the alert's body.
    """

    __slots__ = ("_left", "_limits")

    def __init__(self, group_size: int = 1) -> None:
        self._limits = LIMITS if group_size <= BUDGETS_PER_BODY else _get_share(group_size)
        self._left = dict(self._limits)

    def spend(self, kind: Work, amount: int) -> None:
        """Take work from the budget before it is done.

        Raises BudgetExceeded if not enough is left. Then nothing of this kind is left for what follows.
        """
        left = self._left[kind] - amount
        if left < 0:
            self._left[kind] = 0
            raise BudgetExceeded(_explain(kind, self._limits[kind]))
        self._left[kind] = left

    def get_left(self, kind: Work) -> int:
        return self._left[kind]


def _get_share(group_size: int) -> dict[Work, int]:
    return {
        kind: max(limit * BUDGETS_PER_BODY // group_size, limit // MIN_SHARE)
        for kind, limit in LIMITS.items()
    }


_CONTAINERS = frozenset((dict, list))


def count_items(value: object, limit: int) -> int:
    """Return how many items and members a value has at all levels; stop counting above `limit`.

    A long text counts as more than one item.
    """
    if isinstance(value, str):
        return 1 + len(value) // 500
    count = 1
    pending = [value]
    while pending:
        outer = pending.pop()
        inner = outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()
        count += len(inner)
        if count > limit:
            break
        if not _CONTAINERS.isdisjoint(map(type, inner)):
            pending += [each for each in inner if isinstance(each, dict | list)]
    return count
