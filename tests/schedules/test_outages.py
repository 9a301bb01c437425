"""Tests of outages and of the deadlines that they extend."""

from datetime import UTC, datetime, timedelta

import pytest

from schedules.outages import (
    MAX_OUTAGES,
    Coverage,
    Expectation,
    Outage,
    WebProcess,
    extend_deadline,
    observe,
    restart_deadline,
)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = 3600
LONG_AGO = -HOUR


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def outages(*spans):
    return tuple(Outage(at(began), at(ended), timedelta(seconds=ended - began)) for began, ended in spans)


def live(since, seen):
    return WebProcess(at(since), at(seen), may_live=True)


def dead(since, seen):
    return WebProcess(at(since), at(seen), may_live=False)


# Covered until second 90: the processes, the new end of the coverage, and the outages.
OBSERVATIONS = {
    "no liveness since": ([live(LONG_AGO, 90)], 90, ()),
    "liveness since": ([live(LONG_AGO, 99)], 99, ()),
    "none runs": ([], 90, ()),
    "liveness after a long time without a look": ([live(LONG_AGO, 9_000)], 9_000, ()),
    "the database was away": ([live(95, 99)], 99, ((90, 95),)),
    "the process ended and another began": ([live(98, 98)], 98, ((90, 98),)),
    "the process was killed and another began": ([dead(LONG_AGO, 70), live(95, 99)], 99, ((90, 95),)),
    "another began and the first may run": ([live(LONG_AGO, 90), live(98, 98)], 90, ()),
    "another began and the first runs": ([live(LONG_AGO, 99), live(98, 98)], 99, ()),
    "one relieved the other": ([dead(LONG_AGO, 200), dead(150, 300), live(280, 400)], 400, ()),
    "one of three runs": ([dead(LONG_AGO, 60), dead(50, 70), live(80, 99)], 99, ()),
    "two outages since the last look": (
        [dead(LONG_AGO, 100), dead(110, 120), live(200, 210)],
        210,
        ((100, 110), (120, 200)),
    ),
    "the second outage is uncertain": (
        [dead(LONG_AGO, 100), live(110, 120), live(125, 125)],
        120,
        ((100, 110),),
    ),
}


@pytest.mark.parametrize("case", OBSERVATIONS)
def test_the_coverage_follows_the_liveness_of_web_processes(case):
    processes, until, expected = OBSERVATIONS[case]

    assert observe(Coverage(at(90)), processes) == Coverage(at(until), outages(*expected))


def test_the_first_coverage_has_no_outage():
    assert observe(None, [live(0, 5), live(3, 4)]) == Coverage(at(5))
    assert observe(None, [dead(LONG_AGO, -60)]) is None


def test_crashes_at_each_start_are_stored_as_a_limited_number_of_outages():
    coverage = Coverage(at(0))
    for number in range(1, 200):
        coverage = observe(coverage, [live(number * 60, number * 60)])

    first, last = coverage.outages[0], coverage.outages[-1]
    assert len(coverage.outages) == MAX_OUTAGES
    assert (first.began_at, last.ended_at) == (at(0), at(199 * 60))
    assert first.lasted == timedelta(seconds=60)


# A ping expected within 300 s and a grace of 100 s, at the latest at 400 s.
OUTAGES = {
    "no outage": ([], False, None),
    "long before a ping can arrive": ([(100, 190)], False, None),
    "while a ping can arrive early": ([(100, 210)], False, 610),
    "when the ping was due": ([(290, 310)], False, 710),
    "after the deadline": ([(401, 410)], False, None),
    "over the deadline": ([(399, 2000)], False, 2400),
    "two outages": ([(290, 310), (350, 360)], False, 760),
    "when the ping was due, already extended": ([(290, 310)], True, None),
    "as long as interval and grace, already extended": ([(10, 410)], True, 810),
    "until the extension began": ([(-900, 0)], True, None),
}


@pytest.mark.parametrize("outage_expected", OUTAGES)
def test_a_deadline_is_extended_for_a_ping_that_may_be_lost(outage_expected):
    spans, is_extended, until = OUTAGES[outage_expected]
    expected = Expectation(at(400), timedelta(seconds=300), timedelta(seconds=100), is_extended)

    assert extend_deadline(expected, outages(*spans)) == (None if until is None else at(until))


def test_an_outage_before_the_last_ping_does_not_extend_the_deadline():
    """The grace is longer than the interval."""
    expected = Expectation(at(660), timedelta(seconds=60), timedelta(seconds=600), is_extended=False)

    assert extend_deadline(expected, outages((-30, -10))) is None
    assert extend_deadline(expected, outages((10, 30))) == at(690)


@pytest.mark.parametrize("is_extended", [False, True])
@pytest.mark.parametrize(
    ("expected_s", "restarts"),
    [
        (60, True),  # overdue
        (10 * HOUR, True),  # due soon by the clock as it was
        (13 * HOUR, False),  # due later
        (35 * HOUR, True),  # later than a period and grace from now
    ],
)
def test_deadlines_are_restarted_when_the_clock_is_set_back(expected_s, restarts, is_extended):
    """The clock showed ten hours more. The ping is expected each 24 hours with a grace of half an hour."""
    day, grace = timedelta(days=1), timedelta(minutes=30)
    expected = Expectation(at(expected_s), day, grace, is_extended)

    assert restart_deadline(expected, at(10 * HOUR), NOON) == (NOON + day + grace if restarts else None)
