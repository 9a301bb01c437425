"""Law 6: the same history leaves the same rows, however its alerts fall into batches and among workers."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.histories import HISTORIES, MANNERS, Manner, lived, seeded

WHOLE = Manner()


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=HISTORIES, manner=st.sampled_from(MANNERS))
def test_any_history_leaves_the_same_rows_however_it_is_worked_on(store, home, now, history, manner):
    assert lived(home, now, history, manner) == lived(home, now, history, WHOLE)


@pytest.fixture(scope="module")
def outcomes() -> dict[object, object]:
    return {}


@pytest.mark.parametrize("manner", MANNERS, ids=lambda m: f"{m.size} {'+'.join(m.cuts) or 'uncut'}")
@pytest.mark.parametrize(
    ("routed", "grouped"), [(False, 0), (True, 0), (False, 4)], ids=["own key", "router", "groups"]
)
def test_a_long_history_leaves_the_same_rows_in_every_manner(
    store, home, now, manner, routed, grouped, outcomes
):
    found = lived(home, now, seeded(1, routed=routed, grouped=grouped), manner)

    assert found == outcomes.setdefault((routed, grouped), found)


@pytest.mark.parametrize("cuts", [(), ("normalize", "route", "rules")], ids=str)
@pytest.mark.parametrize("routed", [False, True], ids=["own key", "router"])
def test_several_workers_at_the_same_lanes_leave_the_same_rows(store, home, now, cuts, routed):
    history = seeded(11, alerts=40, routed=routed)
    alone = lived(home, now, history, WHOLE)

    assert lived(home, now, history, Manner(7, cuts, threads=3)) == alone
