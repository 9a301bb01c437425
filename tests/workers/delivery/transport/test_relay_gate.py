"""When a relay counts as down, and how many threads may use it."""

import pytest

from workers.delivery.transport.relay_gate import (
    FAILURE_THRESHOLD,
    MAX_THREADS,
    PAUSE_S,
    RelayGate,
    Suspect,
    count_failures,
)


@pytest.mark.parametrize(
    ("attempts", "now", "capacity"),
    [
        ((), 0.0, MAX_THREADS),
        ((1.0,), 1.0, MAX_THREADS),
        ((1.0, 2.0), 2.0, MAX_THREADS),
        ((1.0, 2.0, "worked", 3.0, 4.0), 4.0, MAX_THREADS),
        ((1.0, 2.0, 3.0), 3.0, 0),
        ((1.0, 2.0, 3.0), 3.0 + PAUSE_S, 1),
        ((1.0, 2.0, 3.0, 9.0), 9.0, 0),
        ((1.0, 2.0, 3.0, 9.0), 9.0 + PAUSE_S, 1),
        ((1.0, 2.0, 3.0, "worked"), 3.0, MAX_THREADS),
    ],
)
def test_the_capacity_depends_on_recent_attempts(attempts, now, capacity):
    """An attempt "worked", or failed at this time."""
    moment = [0.0]
    gate = RelayGate(clock=lambda: moment[0])
    for attempt in attempts:
        if attempt == "worked":
            gate.record_success()
        else:
            moment[0] = attempt
            gate.record_failure()

    moment[0] = now

    assert [gate.enter() for _ in range(MAX_THREADS + 1)].count(True) == capacity


def test_the_number_of_threads_is_limited():
    gate = RelayGate()
    assert [gate.enter() for _ in range(MAX_THREADS + 1)] == [True] * MAX_THREADS + [False]

    # One thread was refused: so the first thread that leaves looks again, the next one does not.
    assert (gate.leave(), gate.leave()) == (True, False)
    assert gate.enter()


def test_one_thread_tries_a_relay_that_is_down_after_each_pause():
    moment = [0.0]
    gate = RelayGate(clock=lambda: moment[0])
    failures = [gate.record_failure() for _ in range(FAILURE_THRESHOLD + 1)]
    assert failures == [False, False, True, False]
    assert not gate.enter()

    moment[0] = PAUSE_S

    assert (gate.enter(), gate.enter()) == (True, False)
    gate.record_success()
    assert gate.enter()


@pytest.mark.parametrize(
    ("failures", "suspects", "counted"),
    [
        (0, [], 0),
        (2, [], 2),
        (0, [(1, "a"), (1, "b"), (1, "c")], 0),
        (2, [(1, "a"), (1, "b")], 2),
        (0, [(1, "a"), (2, "a")], 1),
        (0, [(1, "a"), (1, "b"), (2, "c")], 3),
        (1, [(1, "a"), (2, "b")], 3),
    ],
)
def test_failures_that_targets_can_cause_count_once_for_each_target_of_two_accounts(
    failures, suspects, counted
):
    assert count_failures(failures, [Suspect(*each) for each in suspects]) == counted


def test_an_answer_clears_all_suspects():
    gate = RelayGate()
    gate.record_failure(Suspect(1, "a"))
    gate.record_failure(Suspect(1, "b"))
    gate.record_success()
    assert not gate.record_failure(Suspect(2, "c"))
    assert not gate.is_down()
