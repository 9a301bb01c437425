"""When a message is tried again: a table, and the promise of half an hour."""

from datetime import timedelta

import pytest

from schedules.retries import GIVEN_UP_AFTER, next_try


@pytest.mark.parametrize(
    ("tries", "seconds"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 120), (60, 120)]
)
def test_soon_at_first_then_calmly(now, tries, seconds):
    assert next_try(tries, now, now) == now + timedelta(seconds=seconds)


def test_it_goes_on_for_longer_than_half_an_hour_and_then_ends(now):
    tries, at = 0, now
    while (again := next_try(tries := tries + 1, now, at)) is not None:
        at = again

    assert at - now >= timedelta(minutes=30)
    assert GIVEN_UP_AFTER <= at - now < GIVEN_UP_AFTER + timedelta(minutes=2)
    assert tries < 40
