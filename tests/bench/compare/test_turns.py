"""Two sides are measured in turn, and compared by the means of their figures."""

import pytest

from bench.compare.turns import Comparison, Side, format_comparison, list_turns, shrink
from bench.run import RunSpec
from tests.support.bench.figures import figures


@pytest.fixture
def found():
    comparison = Comparison(("empty", "full"))
    for run, rates in {"unique": ((900, 1_100), (800, 1_000)), "storm": ((3_000,), (1_500,))}.items():
        for side, each in zip(comparison.sides, rates, strict=True):
            comparison.figures[run][side] += [figures(side, run, rate) for rate in each]
    return comparison


def test_a_machine_that_becomes_slower_harms_both_sides_alike():
    sides = tuple(Side(name, target=None) for name in "AB")

    turns = [side.name for side in list_turns(sides, rounds=2)]

    assert "".join(turns) == "ABBAABBA"


def test_a_ratio_is_that_of_the_means(found):
    assert found.get_ratio("unique") == 0.9


def test_the_error_of_a_ratio_is_that_of_neighbouring_runs(found):
    # 800 / 900 and 1,000 / 1,100
    assert found.get_error("unique") == pytest.approx(0.0101, abs=0.0001)
    assert found.get_error("storm") == 0


def test_the_run_with_the_lowest_ratio_counts(found):
    assert found.get_lowest_ratio() == ("storm", 0.5)


def test_the_table_has_both_sides_and_their_ratio(found):
    rows = [row.split() for row in format_comparison(found).splitlines()]

    assert [row[:2] for row in rows[1:]] == [
        [run, name] for run in ("unique", "storm") for name in ("empty", "full", "ratio", "±")
    ]
    assert [row[5] for row in rows[1:5]] == ["1,000", "900", "0.90", "0.01"]


def test_a_trial_has_fewer_alerts_and_no_more_entities_than_alerts():
    (one,) = shrink([RunSpec("storm", 10_000, 200)], 100)

    assert (one.alerts, one.entities) == (100, 100)
