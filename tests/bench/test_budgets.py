"""What was promised is held against what was measured."""

import pytest

from bench.budgets import BUDGETS, list_verdicts
from bench.report import build_json, format_report
from bench.run import Figures
from bench.suite import OWN_RUNS, PEER_RUNS, POSTGRES, STORM, Results


def figures(target: str, run: str, full_rate: float) -> Figures:
    """A run of which only its full rate matters."""
    numbers = dict.fromkeys(
        (name for name in Figures.__dataclass_fields__ if name not in ("target", "name")), 1
    )
    return Figures(**{**numbers, "target": target, "name": run, "full_rate": full_rate})


def verdict(what: str, results: Results):
    return next(one for one in list_verdicts(results) if one.what == what)


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (4_500, "met"),
        (4_400, "missed, above the floor of 15"),
        (1_400, "missed, below the floor of 15"),
    ],
)
def test_a_ratio_is_that_of_the_full_rates_of_one_run(ours, said):
    results = Results([figures(POSTGRES, STORM, ours), figures("Alerta", STORM, 100)])

    found = verdict("full rate, storm, against Alerta", results)

    assert (found.measured, found.verdict) == (ours / 100, said)


def test_what_was_not_measured_is_neither_met_nor_missed():
    results = Results(unavailable={"Alerta": "not installed"})

    assert {one.verdict for one in list_verdicts(results)} == {"not measured"}
    assert "Alerta: not measured: not installed" in format_report(results, {})
    assert build_json(results, {})["not_measured"] == {"Alerta": "not installed"}


def test_every_budget_that_names_a_run_names_one_that_is_run():
    specs = {**OWN_RUNS, **PEER_RUNS}
    results = Results([figures(target, spec.name, 1) for target, runs in specs.items() for spec in runs])

    unmeasured = {one.what for one in list_verdicts(results) if one.verdict == "not measured"}

    assert unmeasured == {one.what for one in BUDGETS if "quiet key" in one.what or "idle" in one.what}


def test_the_names_of_budgets_differ():
    names = [budget.what for budget in BUDGETS]

    assert len(set(names)) == len(names)
