"""The batch size adapts to the load, and is reduced when batches take too long."""

from contextlib import suppress

import peewee
import pytest

from models.store.store import STORE_ERRORS
from models.tables.events import Event, Receipt
from tests.support.alerts import accept
from workers.alerts import batches, pending, process_lane
from workers.alerts.batches import (
    INITIAL_SIZE,
    MIN_LANE_SIZE,
    MIN_SIZE,
    BatchSize,
    CostlyLanes,
    DecisionTime,
    TurnResult,
    run_batches,
)


def test_batches_of_a_full_lane_end_when_the_time_is_over():
    assert run_batches(lambda: 3, seconds=0) == TurnResult(3, more=True)
    counts = [2, 1, 0]
    assert run_batches(lambda: counts.pop(0)) == TurnResult(3)
    assert run_batches(lambda: 2, is_enough=lambda count: count < 3) == TurnResult(2, more=True)


@pytest.mark.parametrize(("is_released", "limit_s"), [(False, 0.2), (True, 1.2)])
def test_the_decisions_of_a_batch_have_a_limited_cpu_time(monkeypatch, is_released, limit_s):
    """The time between them does not count."""
    now_s = 7.0
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.2)
    monkeypatch.setattr(batches, "thread_time", lambda: now_s)
    monkeypatch.setattr(batches, "monotonic", lambda: now_s)
    time = DecisionTime(is_released=is_released)

    with time:
        now_s += limit_s / 2
    now_s += 100
    with time:
        now_s += limit_s / 2 - 0.01
        assert not time.is_over()
        now_s += 0.02
        assert time.is_over()
    assert time.is_over()


def test_time_in_which_the_thread_waited_is_no_time_of_decisions(monkeypatch):
    now_s = 7.0
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.2)
    monkeypatch.setattr(batches, "thread_time", lambda: 3.0)
    monkeypatch.setattr(batches, "monotonic", lambda: now_s)
    time = DecisionTime()

    with time:
        now_s += 100
        assert not time.is_over()
    assert not time.is_over()


def test_the_batch_size_grows_to_its_limit_and_shrinks_to_the_time(store):
    batch_size = BatchSize(target_s=1.0)
    assert batch_size.get_limit() == (INITIAL_SIZE if store.has_single_writer else store.lane_batch)
    for _ in range(20):
        batch_size.adjust(batch_size.get_limit(), 0.001)
    assert batch_size.get_limit() == store.lane_batch
    for _ in range(20):
        batch_size.adjust(batch_size.get_limit(), batch_size.get_limit() * 1.0)
    assert batch_size.get_limit() == (MIN_SIZE if store.has_single_writer else MIN_LANE_SIZE)


def test_a_failed_batch_is_followed_by_smaller_ones(store):
    batch_size = BatchSize()
    for _ in range(20):
        batch_size.reduce()

    assert batch_size.get_limit() == 1


def test_a_size_below_the_smallest_one_grows_only_with_fast_batches(store):
    batch_size = BatchSize(target_s=1.0, limit=4)
    batch_size.adjust(4, 2.0)
    assert batch_size.get_limit() == 4
    batch_size.adjust(4, 0.5)
    assert batch_size.get_limit() == 6


def test_a_lane_with_costly_rules_has_small_batches_until_its_rules_are_cheap():
    lanes = CostlyLanes()
    lanes.record("search", loaded=1_000, decided=5)
    assert (lanes.get_limit("search", 1_000), lanes.get_limit("mail", 1_000)) == (10, 1_000)
    assert lanes.get_limit("search", 3) == 3

    lanes.record("search", loaded=10, decided=10)
    assert lanes.get_limit("search", 1_000) == 20
    for _ in range(10):
        lanes.record("search", loaded=20, decided=20)
    assert lanes.get_limit("search", 1_000) == 1_000


def test_a_lane_is_processed_even_if_large_batches_fail(world, now, monkeypatch):
    """A server ends transactions that exceed its time limit."""
    for number in range(40):
        accept(world, now, message="m", alert_type="critical", entity_id=f"e{number}")
    run_stages = process_lane.run_stages

    def fail_when_large(batch, *arguments):
        if len(batch) > MIN_SIZE:
            raise peewee.OperationalError("terminating connection due to idle-in-transaction timeout")
        return run_stages(batch, *arguments)

    monkeypatch.setattr(process_lane, "run_stages", fail_when_large)
    # As on a machine that is too slow for any batch.
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=0.0))
    for _ in range(10):
        with suppress(*STORE_ERRORS):
            process_lane.run(world.service.id)

    assert Event.select().count() == 40


def test_the_bodies_of_a_batch_are_limited_in_size(world, now, monkeypatch):
    monkeypatch.setattr(pending, "MAX_BYTES", 100)
    for _ in range(3):
        accept(world, now, message="x" * 60, alert_type="critical")

    assert len(pending.load_pending_receipts(world.service.id, 300)) == 1
    process_lane.run(world.service.id)
    assert not Receipt.select().where(Receipt.state == 0).exists()


@pytest.fixture(autouse=True)
def _new_batch_size(monkeypatch):
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize())
