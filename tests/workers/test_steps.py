"""Long work of the clock process rests between its steps, and stops after a step."""

from threading import Event

import pytest

from workers import steps
from workers.steps import REST_FACTOR, Steps


@pytest.fixture
def stopping(monkeypatch):
    """A process that has not been asked to stop."""
    monkeypatch.setattr(steps, "_stopping", Event())


def count_steps(of, left):
    """Run steps until `left` of them are done. Return how many were done."""
    done = []

    def step():
        done.append(len(done))
        return len(done) < left

    of.run(step)
    return len(done)


def test_there_is_a_rest_between_two_steps_and_none_before_the_first(stopping):
    rests = []
    assert count_steps(Steps(rests.append), 4) == 4
    assert len(rests) == 3


def test_a_rest_is_in_proportion_to_the_step_before_it(stopping, monkeypatch):
    # The beginning of the work; then each step: now, and after the rest.
    moments = iter([0.0, 100.0, 100.0, 100.5, 105.0, 107.0, 125.0])
    monkeypatch.setattr(steps.time, "monotonic", lambda: next(moments))
    rests = []
    work = Steps(rests.append)
    assert [work.begin(), work.begin(), work.begin()] == [True, True, True]
    assert rests == [REST_FACTOR * 0.5, REST_FACTOR * 2.0]


def test_a_rest_has_a_least_length(stopping):
    rests = []
    count_steps(Steps(rests.append, min_rest_s=1000.0), 3)
    assert rests == [1000.0, 1000.0]


def test_there_are_no_rests_after_the_time_for_them(stopping):
    rests = []
    assert count_steps(Steps(rests.append, rest_for_s=0.0), 4) == 4
    assert rests == []


def test_work_without_rests_does_all_steps(stopping):
    assert count_steps(Steps(None), 4) == 4


def test_a_process_that_stops_during_a_rest_begins_no_other_step(stopping):
    assert count_steps(Steps(lambda _: steps.stop()), 4) == 1


def test_a_rest_ends_when_the_process_stops(stopping):
    steps.stop()
    # Without the stop, the test would last an hour.
    steps.rest(3600.0)
    assert steps.is_stopping()
