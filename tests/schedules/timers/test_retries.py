"""Tests of the delays between delivery attempts, of their guaranteed half hour, and of refusals."""

from datetime import timedelta

import pytest

from schedules.timers.retries import (
    GIVE_UP_AFTER,
    SETTLED_AFTER,
    FailedAttempt,
    get_evidence_times,
    get_next_attempt,
    is_permanent,
    needs_other_address,
)

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 120), (60, 120)]
)
def test_delays_grow_from_seconds_to_minutes(now, attempts, seconds):
    assert get_next_attempt(FailedAttempt(now, attempts, now)) == now + timedelta(seconds=seconds)


@pytest.mark.parametrize(("hours", "minutes"), [(1, 5), (23, 5), (24, 30), (1000, 30)])
def test_delays_of_a_triggered_incident_grow_with_its_age(now, hours, minutes):
    failed = FailedAttempt(now, 40, now - hours * HOUR, is_awaited=True)

    assert get_next_attempt(failed) == now + timedelta(minutes=minutes)


def test_retries_continue_for_more_than_half_an_hour_and_then_end(now):
    attempts, at = 0, now
    while (again := get_next_attempt(FailedAttempt(at, attempts := attempts + 1, now))) is not None:
        at = again

    assert at - now >= timedelta(minutes=30)
    assert GIVE_UP_AFTER <= at - now < GIVE_UP_AFTER + timedelta(minutes=2)
    assert attempts < 40


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, False),
        ({"others_accepted": True}, False),
        ({"is_test": True}, False),
        ({"is_refusal": True}, False),
        ({"is_refusal": True, "is_awaited": True}, False),
        ({"is_refusal": True, "others_accepted": True}, True),
        ({"is_refusal": True, "others_accepted": True, "is_awaited": True}, True),
        ({"is_refusal": True, "is_test": True}, True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_a_refusal_is_permanent_only_if_the_relay_accepts_others(now, facts, expected):
    failed = FailedAttempt(now, 1, now, **facts)

    assert is_permanent(failed) is expected
    assert (get_next_attempt(failed) is None) is expected


def test_a_refusal_without_evidence_is_retried_while_the_incident_is_triggered(now):
    failed = FailedAttempt(now, 50, now - 2 * HOUR, is_refusal=True)

    assert get_next_attempt(failed) is None
    assert get_next_attempt(FailedAttempt(now, 50, now - 2 * HOUR, is_refusal=True, is_awaited=True))


@pytest.mark.parametrize(
    ("is_refusal", "age", "expected"),
    [(True, timedelta(), True), (False, HOUR - SECOND, False), (False, HOUR, True)],
)
def test_the_other_address_is_tried_after_a_refusal_or_an_hour(now, is_refusal, age, expected):
    assert needs_other_address(FailedAttempt(now, 3, now - age, is_refusal=is_refusal)) is expected


def test_an_acceptance_counts_only_well_before_the_last_refusal(now):
    assert get_evidence_times(now, now + SETTLED_AFTER) is None
    last = now + SETTLED_AFTER + SECOND
    assert get_evidence_times(now, last) == (now, now + SECOND)
