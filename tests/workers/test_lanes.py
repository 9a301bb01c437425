"""One thread at a time per lane, and nothing that was asked for is forgotten."""

import threading

import pytest

from workers.lanes import Lanes, Linger, Ran, run_batches


def test_what_is_asked_for_meanwhile_is_told_to_the_one_who_works():
    lanes, done = Lanes(), []

    def work():
        done.append(threading.current_thread())
        others = [threading.Thread(target=lanes.work, args=("lane", work)) for _ in range(5)]
        for other in others:
            other.start()
        for other in others:
            other.join()

    assert lanes.work("lane", work)
    assert done == [threading.current_thread()]
    assert not lanes.work("lane", lambda: None)


def test_a_lane_that_is_never_empty_is_left_when_its_time_is_over():
    assert run_batches(lambda: 3, seconds=0) == Ran(3, more=True)
    batches = [2, 1, 0]
    assert run_batches(lambda: batches.pop(0)) == Ran(3)
    assert run_batches(lambda: 2, is_enough=lambda count: count < 3) == Ran(2, more=True)


def test_lanes_do_not_wait_for_each_other():
    lanes, met = Lanes(), threading.Barrier(2, timeout=5)
    other = threading.Thread(target=lanes.work, args=("other", met.wait))
    other.start()

    lanes.work("lane", met.wait)

    other.join()


def test_an_error_leaves_the_lane_free():
    lanes, done = Lanes(), []
    with pytest.raises(ZeroDivisionError):
        lanes.work("lane", lambda: 1 / 0)

    lanes.work("lane", lambda: done.append(1))

    assert done == [1]


def test_a_lane_that_is_busy_with_small_batches_rests_and_one_that_was_quiet_does_not():
    linger = Linger()

    assert linger.after("lane", 1) == 0
    assert linger.after("lane", 1) == Linger.SHORTEST_S
    assert linger.after("other", 1) == 0
    assert linger.after("lane", Linger.SMALL) == 0
    assert linger.after("lane", 0) == 0
    assert linger.after("lane", 1) == 0, "it was empty, so nothing had gathered"


def test_a_lane_rests_only_as_long_as_it_was_told_to(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("workers.lanes.monotonic", lambda: clock[0])
    linger = Linger()
    linger.after("lane", 1)
    assert not linger.rests("lane")

    rest_s = linger.after("lane", 1)

    assert linger.rests("lane")
    assert not linger.rests("other")
    clock[0] += rest_s
    assert not linger.rests("lane")


def test_the_more_lanes_are_busy_the_longer_each_rests():
    linger = Linger()
    rests = []
    for lanes in (1, 5, 10, 100):
        for _ in range(2):
            for lane in range(lanes):
                linger.after(lane, 1)
        rests.append(linger.after(0, 1))

    assert rests == sorted(set(rests))
    assert rests[-1] == Linger.LONGEST_S
