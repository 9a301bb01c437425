"""The same alerts leave the same rows with any batches and any workers: invariant 6 (design, section 2)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.alert_sequences import (
    PROCESSING_MODES,
    SEQUENCES,
    ProcessingMode,
    build_sequence,
    run_sequence,
)
from tests.support.scenarios.combinations import combine, count_examples

ONE_BATCH = ProcessingMode()


@settings(
    max_examples=count_examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sequence=SEQUENCES, mode=st.sampled_from(PROCESSING_MODES))
def test_any_sequence_of_alerts_leaves_the_same_rows_in_every_mode(store, home, now, sequence, mode):
    assert run_sequence(home, now, sequence, mode) == run_sequence(home, now, sequence, ONE_BATCH)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, object]:
    return {}


KINDS = {
    "own key": {},
    "router": {"is_routed": True},
    "groups": {"grouped": 4},
    "by content": {"by_content": True},
    "router by content": {"by_content": True, "is_routed": True},
    "groups by content": {"by_content": True, "grouped": 4},
}


@pytest.mark.parametrize(("mode", "kind"), combine(PROCESSING_MODES[1:], tuple(KINDS)), ids=str)
def test_a_long_sequence_of_alerts_leaves_the_same_rows_in_every_mode(store, home, now, mode, kind, outcomes):
    sequence = build_sequence(1, **KINDS[kind])
    if kind not in outcomes:
        outcomes[kind] = run_sequence(home, now, sequence, ONE_BATCH)

    assert run_sequence(home, now, sequence, mode) == outcomes[kind]


@pytest.mark.parametrize(
    "kind", [{}, {"is_routed": True}, {"grouped": 4}], ids=["own key", "router", "groups"]
)
def test_alerts_of_a_sequence_are_grouped_by_content(store, home, now, kind):
    """Otherwise, the sequences by content would prove nothing."""
    rows = run_sequence(home, now, build_sequence(1, **kind, by_content=True), ONE_BATCH)

    assert any("joins_group" in row for row in rows["Event"])


@pytest.mark.parametrize(
    ("queue_splits", "is_routed"), combine([(), ("normalize", "route", "rules")], [False, True]), ids=str
)
def test_concurrent_workers_leave_the_same_rows(store, home, now, queue_splits, is_routed):
    sequence = build_sequence(11, alerts=40, is_routed=is_routed, by_content=True)
    alone = run_sequence(home, now, sequence, ONE_BATCH)

    assert run_sequence(home, now, sequence, ProcessingMode(7, queue_splits, threads=3)) == alone


COMMON_BATCHES = (
    ProcessingMode(has_common_batches=True),
    ProcessingMode(40, has_common_batches=True),
    ProcessingMode(has_common_batches=True, ends_early=0.02),
)


@pytest.mark.parametrize(
    ("seed", "kind", "mode"),
    combine([1, 2, 3], ["own key", "groups", "by content", "groups by content"], COMMON_BATCHES),
    ids=str,
)
def test_lanes_in_common_batches_leave_the_same_rows_as_alone(store, home, now, mode, kind, seed):
    sequence = build_sequence(seed, alerts=60, services=4, **KINDS[kind])
    alone = run_sequence(home, now, sequence, ONE_BATCH)

    assert run_sequence(home, now, sequence, mode) == alone
