"""The budgets of Tocsin (design, section 8), one line each, and whether a run met them.

The slowest way to send alerts counts: the operation (bench.traffic.Way) and the number of services.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.run import Figures
from bench.suite import GROUPS, LIGHT, POSTGRES, SQLITE, STORM, STORM_16, UNIQUE, Results

Measured = Callable[[Results], float | None]

# Megabytes in a MiB. The budgets of memory are in megabytes.
MB = 2**20 / 1e6


@dataclass(frozen=True, slots=True)
class Budget:
    """`limit` is the maximum, or the minimum if `at_least`. With a value below `floor`, the run fails."""

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
    floor: float | None
    verdict: str

    @property
    def is_below_floor(self) -> bool:
        return self.measured is not None and self.floor is not None and self.measured < self.floor

    def format_measured(self) -> str:
        return "-" if self.measured is None else f"{self.measured:,.2f}"

    def format_floor(self) -> str:
        return "" if self.floor is None else f"{self.floor:g}"


def _get_highest(target: str, run: str, value: Callable[[Figures], float]) -> Measured:
    """Return the highest value among all operations and numbers of services."""
    return lambda results: max(map(value, results.list_runs(target, run)), default=None)


def _get_lowest_rate(target: str, run: str) -> Measured:
    """Return the lowest full rate among all operations and numbers of services."""
    return lambda results: min((one.full_rate for one in results.list_runs(target, run)), default=None)


def _get_ratio(run: str, other: str, ours: str = POSTGRES) -> Measured:
    """Return the lowest ratio of one of our full rates to that of another target in the same run.

    It is compared with the other target's run of the same operation and number of services, if there is one,
    else with its slowest run: peers have one run for all ways.
    """

    def measured(results: Results) -> float | None:
        rates = {(one.way, one.services): one.full_rate for one in results.list_runs(other, run)}
        slowest = min(rates.values(), default=0.0)
        ratios = [
            one.full_rate / rate
            for one in results.list_runs(ours, run)
            if (rate := rates.get((one.way, one.services), slowest))
        ]
        return min(ratios, default=None)

    return measured


def _get_quiet_p99(target: str) -> Measured:
    return lambda results: next(
        (one.notification_p99_ms for one in results.quiet if one.target == target), None
    )


def _get_idle_cpu(results: Results) -> float | None:
    return next((one.cpu_share for one in results.idle), None)


def _get_idle_memory(results: Results) -> float | None:
    return next((one.mib * MB for one in results.idle), None)


def _get_accept_p99(run: Figures) -> float:
    return run.p99_ms


def _get_cpu(run: Figures) -> float:
    return run.cpu_ms


def _get_notify_p50(run: Figures) -> float:
    return run.notification_p50_ms


def _get_notify_p99(run: Figures) -> float:
    return run.notification_p99_ms


def _get_peak(run: Figures) -> float:
    return run.peak_mib * MB


BUDGETS = (
    Budget("full rate, unique, against Alerta", 25, "x", _get_ratio(UNIQUE, "Alerta"), True, 15),
    Budget("full rate, storm, against Alerta", 45, "x", _get_ratio(STORM, "Alerta"), True, 30),
    Budget("full rate, unique, against Alertmanager", 1.0, "x", _get_ratio(UNIQUE, "Alertmanager"), True),
    Budget("full rate, storm, against Alertmanager", 0.3, "x", _get_ratio(STORM, "Alertmanager"), True),
    Budget("full rate, groups of 50", 10_000, "a second", _get_lowest_rate(POSTGRES, GROUPS), True),
    Budget("accept p99, storm, 64 connections", 30, "ms", _get_highest(POSTGRES, STORM, _get_accept_p99)),
    Budget("accept p99, storm, 16 connections", 12, "ms", _get_highest(POSTGRES, STORM_16, _get_accept_p99)),
    Budget("accepted to mail, light load, p50", 30, "ms", _get_highest(POSTGRES, LIGHT, _get_notify_p50)),
    Budget("accepted to mail, light load, p99", 60, "ms", _get_highest(POSTGRES, LIGHT, _get_notify_p99)),
    Budget("the same on SQLite, light load, p50", 30, "ms", _get_highest(SQLITE, LIGHT, _get_notify_p50)),
    Budget("the same on SQLite, light load, p99", 60, "ms", _get_highest(SQLITE, LIGHT, _get_notify_p99)),
    Budget("accepted to mail, quiet key beside a flood, p99", 250, "ms", _get_quiet_p99(POSTGRES)),
    Budget("the same on SQLite, quiet key, p99", 250, "ms", _get_quiet_p99(SQLITE)),
    Budget("CPU per alert, unique", 0.5, "ms", _get_highest(POSTGRES, UNIQUE, _get_cpu)),
    Budget("CPU per alert, storm", 0.3, "ms", _get_highest(POSTGRES, STORM, _get_cpu)),
    Budget(
        "full rate, unique, SQLite against PostgreSQL", 0.5, "x", _get_ratio(UNIQUE, POSTGRES, SQLITE), True
    ),
    Budget(
        "full rate, storm, SQLite against PostgreSQL", 0.5, "x", _get_ratio(STORM, POSTGRES, SQLITE), True
    ),
    Budget("accept p99 in the storm on SQLite", 250, "ms", _get_highest(SQLITE, STORM, _get_accept_p99)),
    Budget("idle CPU of all processes, of a core", 4, "%", _get_idle_cpu),
    Budget("idle memory of all processes, SQLite", 350, "MB", _get_idle_memory),
    Budget("memory of all processes, storm on SQLite", 600, "MB", _get_highest(SQLITE, STORM, _get_peak)),
    Budget(
        "memory of all processes, storm on PostgreSQL", 600, "MB", _get_highest(POSTGRES, STORM, _get_peak)
    ),
)


def list_verdicts(results: Results) -> Iterator[Verdict]:
    for budget in BUDGETS:
        yield _judge(budget, budget.measured(results))


def list_below_floor(results: Results) -> list[str]:
    """Return the budgets whose measured values are below their floors."""
    return [one.what for one in list_verdicts(results) if one.is_below_floor]


def _judge(budget: Budget, measured: float | None) -> Verdict:
    sign = ">=" if budget.at_least else "<="
    text = f"{sign} {budget.limit:g} {budget.unit}"
    if measured is None:
        return Verdict(budget.what, None, text, budget.floor, "not measured")
    met = measured >= budget.limit if budget.at_least else measured <= budget.limit
    if met or budget.floor is None:
        return Verdict(budget.what, measured, text, budget.floor, "met" if met else "missed")
    side = "below" if measured < budget.floor else "above"
    return Verdict(budget.what, measured, text, budget.floor, f"missed, {side} the floor of {budget.floor:g}")
