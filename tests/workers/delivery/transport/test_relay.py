"""When a relay counts as down, and how many threads get a slot."""

import pytest

from workers.delivery.transport.relay import FAILURE_THRESHOLD, PAUSE_S, SLOTS, Relay


@pytest.mark.parametrize(
    ("attempts", "now", "capacity"),
    [
        ((), 0.0, SLOTS),
        ((1.0,), 1.0, SLOTS),
        ((1.0, 2.0), 2.0, SLOTS),
        ((1.0, 2.0, "worked", 3.0, 4.0), 4.0, SLOTS),
        ((1.0, 2.0, 3.0), 3.0, 0),
        ((1.0, 2.0, 3.0), 3.0 + PAUSE_S, 1),
        ((1.0, 2.0, 3.0, 9.0), 9.0, 0),
        ((1.0, 2.0, 3.0, 9.0), 9.0 + PAUSE_S, 1),
        ((1.0, 2.0, 3.0, "worked"), 3.0, SLOTS),
    ],
)
def test_the_capacity_depends_on_recent_attempts(attempts, now, capacity):
    """An attempt "worked", or failed at this time."""
    moment = [0.0]
    relay = Relay(clock=lambda: moment[0])
    for attempt in attempts:
        if attempt == "worked":
            relay.record_success()
        else:
            moment[0] = attempt
            relay.record_failure()

    moment[0] = now

    assert [relay.enter() for _ in range(SLOTS + 1)].count(True) == capacity


def test_slots_are_limited_and_returned():
    relay = Relay()
    assert [relay.enter() for _ in range(SLOTS + 1)] == [True] * SLOTS + [False]

    # One thread got no slot: so the first thread that leaves looks again, the next one does not.
    assert (relay.leave(), relay.leave()) == (True, False)
    assert relay.enter()


def test_one_thread_tries_a_relay_that_is_down_after_each_pause():
    moment = [0.0]
    relay = Relay(clock=lambda: moment[0])
    failures = [relay.record_failure() for _ in range(FAILURE_THRESHOLD + 1)]
    assert failures == [False, False, True, False]
    assert not relay.enter()

    moment[0] = PAUSE_S

    assert (relay.enter(), relay.enter()) == (True, False)
    relay.record_success()
    assert relay.enter()
