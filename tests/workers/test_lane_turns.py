"""One thread at a time works on a lane, and no request for work is lost."""

import threading

import pytest

from workers.lane_turns import BusyLanes, Gathering, LaneTurns, Linger


def test_requests_for_running_work_are_reported_to_its_caller():
    lanes, done = LaneTurns(), []

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


def test_two_lanes_are_processed_at_the_same_time():
    lanes, met = LaneTurns(), threading.Barrier(2, timeout=30)
    other = threading.Thread(target=lanes.work, args=("other", met.wait))
    other.start()

    lanes.work("lane", met.wait)

    other.join()


def test_a_lane_is_free_after_an_error():
    lanes, done = LaneTurns(), []
    with pytest.raises(ZeroDivisionError):
        lanes.work("lane", lambda: 1 / 0)

    lanes.work("lane", lambda: done.append(1))

    assert done == [1]


@pytest.fixture
def clock(monkeypatch):
    """The time of all lanes: it stands still unless a test changes it."""
    clock = [100.0]
    monkeypatch.setattr("workers.lane_turns.monotonic", lambda: clock[0])
    return clock


def test_only_a_busy_lane_with_small_batches_lingers(clock):
    linger = Linger()

    assert linger.record_turn("lane", 1) == 0
    assert linger.record_turn("lane", 1) == Linger.MIN_LINGER_S
    assert linger.record_turn("other", 1) == 0
    assert linger.record_turn("lane", Linger.SMALL_BATCH) == 0
    assert linger.record_turn("lane", 0) == 0
    assert linger.record_turn("lane", 1) == 0, "the lane was empty before"


def test_a_lane_lingers_for_the_returned_time(clock):
    linger = Linger()
    linger.record_turn("lane", 1)
    assert not linger.is_lingering("lane")

    linger_s = linger.record_turn("lane", 1)

    assert linger.is_lingering("lane")
    assert not linger.is_lingering("other")
    clock[0] += linger_s
    assert not linger.is_lingering("lane")


def test_lanes_linger_longer_when_more_lanes_are_busy(clock):
    linger = Linger()
    durations = []
    for lanes in (1, 5, 10, 100):
        for _ in range(2):
            for lane in range(lanes):
                linger.record_turn(lane, 1)
        durations.append(linger.record_turn(0, 1))

    assert durations == sorted(set(durations))
    assert durations[-1] == Linger.MAX_LINGER_S


def test_lanes_that_arrive_during_a_batch_are_in_the_next_one():
    gathering, batches = Gathering(), []

    def process(lanes):
        batches.append(lanes)
        if len(batches) == 1:
            others = [
                threading.Thread(target=gathering.work, args=(lane, process, 30.0)) for lane in (2, 3, 2)
            ]
            for other in others:
                other.start()
                other.join()
        return ([3] if len(batches) == 2 else []), 0.0

    assert gathering.work(1, process, 30.0) == []
    assert batches == [[1], [2, 3], [3]]


def test_after_its_time_a_thread_returns_the_remaining_lanes(clock):
    gathering, batches = Gathering(), []

    def process(lanes):
        batches.append(lanes)
        clock[0] += 2.0
        return [2], 0.0

    assert gathering.work(1, process, 1.0) == [2]
    assert gathering.work(3, lambda lanes: batches.append(lanes) or ([], 0.0), 1.0) == []
    assert batches == [[1], [3]], "lane 2 is not processed here"


def test_after_an_error_another_thread_processes_lanes():
    gathering, batches = Gathering(), []
    with pytest.raises(ZeroDivisionError):
        gathering.work(1, lambda lanes: 1 / 0, 1.0)

    gathering.work(2, lambda lanes: batches.append(lanes) or ([], 0.0), 1.0)

    assert batches == [[2]]


def test_after_an_error_in_a_pause_another_thread_processes_lanes():
    gathering, batches = Gathering(), []
    with pytest.raises(ValueError):
        gathering.work(1, lambda lanes: ([3], -1.0), 1.0)

    gathering.work(2, lambda lanes: batches.append(lanes) or ([], 0.0), 1.0)

    assert batches == [[2]]


def test_a_lane_is_added_to_a_running_gathering_only():
    gathering, batches = Gathering(), []

    def process(lanes):
        batches.append(lanes)
        if len(batches) == 1:
            assert gathering.add_to_running(2)
        return [], 0.0

    assert not gathering.add_to_running(5)
    gathering.work(1, process, 30.0)
    assert not gathering.add_to_running(5)
    assert batches == [[1], [2]]


def test_lanes_that_arrive_during_a_pause_are_in_the_next_batch(monkeypatch):
    gathering, batches, pauses = Gathering(), [], []

    def pause(seconds):
        pauses.append(seconds)
        assert gathering.add_to_running(2)

    def process(lanes):
        batches.append(lanes)
        return [], 0.02 if len(batches) == 1 else 0.0

    monkeypatch.setattr("workers.lane_turns.sleep", pause)
    gathering.work(1, process, 30.0)

    assert batches == [[1], [2]]
    assert pauses == [0.02]


def test_a_lane_is_requested_again_only_while_a_thread_works_on_it():
    turns = LaneTurns()
    found = []

    assert not turns.request_again(1)
    assert turns.work(1, lambda: found.extend((turns.request_again(1), turns.request_again(2))))
    assert found == [True, False]
    assert not turns.work(1, lambda: None)


def test_a_thread_may_block_for_a_lane_that_was_busy_for_a_while(clock):
    lanes = BusyLanes()
    lanes.record("lane", is_busy=True)
    with lanes.let_one_block("lane") as may_block:
        assert not may_block
    clock[0] += BusyLanes.BLOCK_AFTER_S * 0.7
    lanes.record("lane", is_busy=True)
    clock[0] += BusyLanes.BLOCK_AFTER_S * 0.7

    assert lanes.is_starving("lane")
    assert not lanes.is_starving("other")
    with lanes.let_one_block("lane") as may_block:
        assert may_block


def test_a_lane_that_got_its_turn_is_not_waited_for(clock):
    lanes = BusyLanes()
    lanes.record("lane", is_busy=True)
    clock[0] += 10
    lanes.record("lane", is_busy=False)

    assert not lanes.is_starving("lane")


def test_only_one_thread_waits_for_busy_lanes(clock):
    lanes = BusyLanes()
    for lane in ("lane", "other"):
        lanes.record(lane, is_busy=True)
    clock[0] += 10

    with lanes.let_one_block("lane") as first, lanes.let_one_block("other") as second:
        assert (first, second) == (True, False)
    with lanes.let_one_block("other") as later:
        assert later
