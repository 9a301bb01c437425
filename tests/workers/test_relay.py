"""When a relay counts as down, as a table; and who gets a slot."""

import pytest

from workers.channels.relay import FAILURES_TO_DOWN, PAUSE_S, SLOTS, Breaker, Relay


def after(*story: str | float) -> Breaker:
    """The breaker after "worked"s and failures, each failure told by its moment."""
    breaker = Breaker()
    for happening in story:
        breaker = breaker.worked() if isinstance(happening, str) else breaker.failed(happening)
    return breaker


@pytest.mark.parametrize(
    ("story", "now", "room"),
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
def test_how_many_may_use_a_relay(story, now, room):
    assert after(*story).room(now) == room


def test_slots_run_out_and_come_back():
    relay = Relay()
    assert [relay.enter() for _ in range(SLOTS + 1)] == [True] * SLOTS + [False]

    # Somebody was turned away: whoever leaves looks once more, the next one need not.
    assert (relay.leave(), relay.leave()) == (True, False)
    assert relay.enter()


def test_a_relay_that_is_down_lets_one_try_after_each_pause():
    moment = [0.0]
    relay = Relay(clock=lambda: moment[0])
    told = [relay.failed() for _ in range(FAILURES_TO_DOWN + 1)]
    assert told == [False, False, True, False]
    assert not relay.enter()

    moment[0] = PAUSE_S

    assert (relay.enter(), relay.enter()) == (True, False)
    relay.worked()
    assert relay.enter()
