"""The budgets of Tocsin (design, section 8), one line each, and whether a run met them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.run import Figures
from bench.suite import GROUPS, LIGHT, POSTGRES, SQLITE, STORM, STORM_16, UNIQUE, Results

Measured = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Budget:
    """`limit` is the maximum, or the minimum if `at_least`. A value below `floor` is far too low."""

    what: str
    limit: float
    unit: str
    measured: Measured
    at_least: bool = False
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    what: str
    measured: float | None
    budget: str
    verdict: str


def _get_highest(target: str, run: str, value: Callable[[Figures], float]) -> Measured:
    """Return the highest value among all operations and numbers of services."""
    return lambda results: max(map(value, results.list_runs(target, run)), default=None)


def _get_lowest_rate(target: str, run: str) -> Measured:
    """Return the lowest full rate among all operations and numbers of services."""
    return lambda results: min((one.full_rate for one in results.list_runs(target, run)), default=None)


def _get_ratio(run: str, other: str, ours: str = POSTGRES) -> Measured:
    """Return the ratio of our lowest full rate to that of another target in the same run."""

    def measured(results: Results) -> float | None:
        mine, theirs = (_get_lowest_rate(target, run)(results) for target in (ours, other))
        return mine / theirs if mine and theirs else None

    return measured


def _get_quiet_p99(target: str) -> Measured:
    return lambda results: next(
        (one.notification_p99_ms for one in results.quiet if one.target == target), None
    )


def _get_idle_cpu(results: Results) -> float | None:
    return next((one.cpu_share for one in results.idle), None)


def _get_peak_memory(results: Results) -> float | None:
    return max((run.peak_mib for run in results.runs if run.target == SQLITE), default=None)


BUDGETS = (
    Budget("full rate, unique, against Alerta", 25, "x", _get_ratio(UNIQUE, "Alerta"), True, 8),
    Budget("full rate, storm, against Alerta", 45, "x", _get_ratio(STORM, "Alerta"), True, 15),
    Budget("full rate, unique, against Alertmanager", 1.0, "x", _get_ratio(UNIQUE, "Alertmanager"), True),
    Budget("full rate, storm, against Alertmanager", 0.3, "x", _get_ratio(STORM, "Alertmanager"), True),
    Budget("full rate, groups of 50", 10_000, "a second", _get_lowest_rate(POSTGRES, GROUPS), True),
    Budget(
        "accept p99 in the storm, 64 connections", 30, "ms", _get_highest(POSTGRES, STORM, lambda r: r.p99_ms)
    ),
    Budget(
        "accept p99 in the storm, 16 connections",
        12,
        "ms",
        _get_highest(POSTGRES, STORM_16, lambda r: r.p99_ms),
    ),
    Budget(
        "accepted to mail, light load, p50",
        30,
        "ms",
        _get_highest(POSTGRES, LIGHT, lambda r: r.notification_p50_ms),
    ),
    Budget(
        "accepted to mail, light load, p99",
        60,
        "ms",
        _get_highest(POSTGRES, LIGHT, lambda r: r.notification_p99_ms),
    ),
    Budget(
        "accepted to mail, light load on SQLite, p99",
        60,
        "ms",
        _get_highest(SQLITE, LIGHT, lambda r: r.notification_p99_ms),
    ),
    Budget("accepted to mail, quiet key beside a flood, p99", 250, "ms", _get_quiet_p99(POSTGRES)),
    Budget("the same on SQLite, quiet key, p99", 250, "ms", _get_quiet_p99(SQLITE)),
    Budget("CPU per alert, unique", 0.5, "ms", _get_highest(POSTGRES, UNIQUE, lambda r: r.cpu_ms)),
    Budget("CPU per alert, storm", 0.3, "ms", _get_highest(POSTGRES, STORM, lambda r: r.cpu_ms)),
    Budget(
        "full rate, SQLite against PostgreSQL, unique", 0.5, "x", _get_ratio(UNIQUE, POSTGRES, SQLITE), True
    ),
    Budget(
        "full rate, SQLite against PostgreSQL, storm", 0.5, "x", _get_ratio(STORM, POSTGRES, SQLITE), True
    ),
    Budget("accept p99 in the storm on SQLite", 250, "ms", _get_highest(SQLITE, STORM, lambda r: r.p99_ms)),
    Budget("idle CPU of all processes, of a core", 4, "%", _get_idle_cpu),
    Budget("most memory of all processes, SQLite", 350, "MiB", _get_peak_memory),
)


def list_verdicts(results: Results) -> Iterator[Verdict]:
    for budget in BUDGETS:
        yield _judge(budget, budget.measured(results))


def _judge(budget: Budget, measured: float | None) -> Verdict:
    sign = ">=" if budget.at_least else "<="
    text = f"{sign} {budget.limit:g} {budget.unit}"
    if measured is None:
        return Verdict(budget.what, None, text, "not measured")
    met = measured >= budget.limit if budget.at_least else measured <= budget.limit
    if met or budget.floor is None:
        return Verdict(budget.what, measured, text, "met" if met else "missed")
    below = measured < budget.floor
    return Verdict(
        budget.what, measured, text, f"missed, {'below' if below else 'above'} the floor of {budget.floor:g}"
    )
