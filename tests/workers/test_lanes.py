"""One thread at a time per lane, and nothing that was asked for is forgotten."""

import threading

import pytest

from workers.lanes import Lanes


def test_what_is_asked_for_meanwhile_is_done_once_more():
    lanes, done = Lanes(), []

    def work():
        done.append(threading.current_thread())
        if len(done) == 1:
            others = [threading.Thread(target=lanes.work, args=("lane", work)) for _ in range(5)]
            for other in others:
                other.start()
            for other in others:
                other.join()

    lanes.work("lane", work)

    assert done == [threading.current_thread()] * 2


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
