"""Tests of the delays between delivery attempts, and of their guaranteed half hour."""

from datetime import timedelta

import pytest

from schedules.timers.retries import GIVE_UP_AFTER, get_next_attempt


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 120), (60, 120)]
)
def test_delays_grow_from_seconds_to_minutes(now, attempts, seconds):
    assert get_next_attempt(attempts, now, now) == now + timedelta(seconds=seconds)


def test_retries_continue_for_more_than_half_an_hour_and_then_end(now):
    attempts, at = 0, now
    while (again := get_next_attempt(attempts := attempts + 1, now, at)) is not None:
        at = again

    assert at - now >= timedelta(minutes=30)
    assert GIVE_UP_AFTER <= at - now < GIVE_UP_AFTER + timedelta(minutes=2)
    assert attempts < 40
