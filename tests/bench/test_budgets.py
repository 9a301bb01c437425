"""The budgets are compared with measured figures."""

from itertools import product

import pytest

from bench.budgets import BUDGETS, list_below_floor, list_verdicts
from bench.report import build_json, format_report
from bench.suite import GROUPS, OWN_RUNS, PEER_RUNS, POSTGRES, SERVICES, SQLITE, STORM, UNIQUE, Results
from bench.traffic import Way
from tests.support.bench.figures import figures


def verdict(what: str, results: Results):
    return next(one for one in list_verdicts(results) if one.what == what)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (4_500, "met"),
        (4_400, "missed, above the floor of 30"),
        (2_900, "missed, below the floor of 30"),
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


def test_sqlite_is_compared_with_the_same_operation_and_services_on_postgresql():
    rates = {POSTGRES: (1_000, 4_000), SQLITE: (800, 1_600)}
    runs = [
        figures(target, UNIQUE, rate, services=services)
        for target, both in rates.items()
        for services, rate in zip((1, 20), both, strict=True)
    ]

    assert verdict("full rate, unique, SQLite against PostgreSQL", Results(runs)).measured == 0.4


def test_only_a_value_below_its_floor_fails_the_run():
    peer = figures("Alerta", STORM, 100)

    assert list_below_floor(Results([figures(POSTGRES, STORM, 2_900), peer])) == [
        "full rate, storm, against Alerta"
    ]
    assert list_below_floor(Results([figures(POSTGRES, STORM, 3_000), peer])) == []
    assert list_below_floor(Results([peer])) == []


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


def test_each_run_is_measured_for_each_operation_and_number_of_services():
    ways = {
        (target, name): {(spec.way, spec.services) for spec in runs if spec.name == name}
        for target, runs in OWN_RUNS.items()
        for name in {spec.name for spec in runs}
    }

    # Only one operation accepts groups.
    assert ways.pop((POSTGRES, GROUPS)) == set(product([Way.ALERTMANAGER], SERVICES))
    assert [each for each in ways.values() if each != set(product(Way, SERVICES))] == []


def test_the_names_of_budgets_differ():
    names = [budget.what for budget in BUDGETS]

    assert len(set(names)) == len(names)
