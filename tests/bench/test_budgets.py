"""The budgets are compared with measured figures."""

import pytest

from bench.budgets import BUDGETS, list_verdicts
from bench.report import build_json, format_report
from bench.run import Figures
from bench.suite import OWN_RUNS, PEER_RUNS, POSTGRES, STORM, Results


def figures(target: str, run: str, full_rate: float) -> Figures:
    """Return figures with only a full rate."""
    numbers = dict.fromkeys(
        (name for name in Figures.__dataclass_fields__ if name not in ("target", "name")), 1
    )
    return Figures(**{**numbers, "target": target, "name": run, "full_rate": full_rate})


def verdict(what: str, results: Results):
    return next(one for one in list_verdicts(results) if one.what == what)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (4_500, "met"),
        (4_400, "missed, above the floor of 15"),
        (1_400, "missed, below the floor of 15"),
    ],
)
def test_a_ratio_is_that_of_the_full_rates_of_one_run(ours, expected):
    results = Results([figures(POSTGRES, STORM, ours), figures("Alerta", STORM, 100)])

    found = verdict("full rate, storm, against Alerta", results)

    assert (found.measured, found.verdict) == (ours / 100, expected)


def test_the_slowest_operation_counts():
    runs = [figures(POSTGRES, STORM, rate) for rate in (4_500, 1_400, 3_000)]

    found = verdict("full rate, storm, against Alerta", Results([*runs, figures("Alerta", STORM, 100)]))

    assert found.measured == 14


def test_a_report_shows_every_figure_of_a_run():
    report = format_report(Results([figures(POSTGRES, STORM, 4_321)]), {})

    assert "4,321" in report
    assert "notify p99 ms" in report


def test_a_budget_without_a_measurement_is_neither_met_nor_missed():
    results = Results(unavailable={"Alerta": "not installed"})

    assert {one.verdict for one in list_verdicts(results)} == {"not measured"}
    assert "Alerta: not measured: not installed" in format_report(results, {})
    assert build_json(results, {})["not_measured"] == {"Alerta": "not installed"}


def test_each_run_that_a_budget_names_exists():
    specs = {**OWN_RUNS, **PEER_RUNS}
    results = Results([figures(target, spec.name, 1) for target, runs in specs.items() for spec in runs])

    unmeasured = {one.what for one in list_verdicts(results) if one.verdict == "not measured"}

    assert unmeasured == {one.what for one in BUDGETS if "quiet key" in one.what or "idle" in one.what}


def test_the_names_of_budgets_differ():
    names = [budget.what for budget in BUDGETS]

    assert len(set(names)) == len(names)
