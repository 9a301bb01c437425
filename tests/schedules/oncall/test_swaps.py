"""Which shifts two people can swap."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.oncall.swaps import MAX_LENGTH, HeldShift, find_obstacle

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def hold(username: str, first: float, days: float = 1) -> HeldShift:
    start = NOON + first * DAY
    return HeldShift(username, start, start + days * DAY)


ASKED, RETURNED = hold("alice", 1), hold("bob", 3)


def test_two_shifts_of_two_people_can_be_swapped():
    assert find_obstacle(ASKED, RETURNED, [ASKED, hold("charlie", 2), RETURNED], NOON) is None


@pytest.mark.parametrize(
    ("asked", "returned", "others", "reason"),
    [
        (hold("alice", 0), RETURNED, [], "has begun"),
        (ASKED, hold("bob", -2), [], "has begun"),
        (ASKED, hold("bob", 3, MAX_LENGTH.days + 1), [], "more than 31 days"),
        (ASKED, hold("bob", 3, -1), [], "more than 31 days"),
        (ASKED, hold("alice", 3), [], "same person"),
        (ASKED, hold("bob", 1.5), [], "overlap"),
        (ASKED, RETURNED, [hold("charlie", 3.5)], "Somebody else is on call"),
        (ASKED, RETURNED, [hold("bob", 1.5)], "Somebody else is on call"),
    ],
    ids=str,
)
def test_other_shifts_cannot(asked, returned, others, reason):
    assert reason in find_obstacle(asked, returned, [asked, returned, *others], NOON)


def test_a_shift_that_the_schedule_no_longer_has_cannot():
    assert "has changed" in find_obstacle(ASKED, RETURNED, [ASKED, hold("charlie", 3)], NOON)
