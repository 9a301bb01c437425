"""The memory of an instance is read every minute under load, and its growth is compared with the budget."""

import os

import pytest

from bench.memory import Load, Minute, format_minutes, get_growth_percent, sum_by_kind
from bench.servers.processes import Process
from bench.suite import SQLITE
from tests.support.bench.figures import figures


def build_minutes(*totals: float) -> list[Minute]:
    return [Minute({"web": total / 2, "worker": total / 2}, figures(SQLITE, "", 1)) for total in totals]


@pytest.mark.parametrize(
    ("totals", "growth"),
    [
        pytest.param((100, 150, 180, 190, 200, 202, 210), 5.0, id="from the fifth minute"),
        pytest.param((100, 120, 110), 10.0, id="from the first of a short run"),
    ],
)
def test_the_growth_begins_when_caches_are_filled(totals, growth):
    assert get_growth_percent(build_minutes(*totals)) == pytest.approx(growth)


def test_the_table_has_each_minute_with_each_kind_of_process():
    rows = [row.split() for row in format_minutes(build_minutes(100, 110)).splitlines()[1:]]

    assert [row[:4] for row in rows] == [["1", "100.0", "50.0", "50.0"], ["2", "110.0", "55.0", "55.0"]]


def test_a_process_that_has_ended_has_no_memory():
    found = sum_by_kind([Process(os.getpid(), "this"), Process(2**22 + 1, "gone")])

    assert found["this"] > 10
    assert found["gone"] == 0


def test_each_minute_has_as_many_alerts_as_its_rate_says():
    spec = Load(rate=50.0, seconds=60.0).build_spec()

    assert (spec.alerts, spec.entities, spec.rate) == (3_000, 300, 50.0)
