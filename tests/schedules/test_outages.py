"""When pings could not come, and who is given more time for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schedules.outages import (
    MAX_OUTAGES,
    Expectation,
    Observation,
    Outage,
    WebProcess,
    extend_deadline,
    observe,
)

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def outages(*spans):
    return tuple(Outage.between(at(started), at(ended)) for started, ended in spans)


def build_web(*beats):
    """Its start, and the last sign of life."""
    return WebProcess(at(beats[0]), at(beats[-1]))


LONG_AGO = -3600
# At second 100, a second after the last look, when a web process had been seen to live at second 90.
LOOKS = {
    "it gave no sign of life since": ([build_web(LONG_AGO, 90)], True, ()),
    "it gave one": ([build_web(LONG_AGO, 99)], True, ()),
    "it is late": ([build_web(LONG_AGO, 74)], False, ()),
    "it ended, and none is there": ([], False, ()),
    "it ended, and another began": ([build_web(98)], True, ((90, 100),)),
    "it was killed some time ago, and another began": (
        [build_web(LONG_AGO, 74), build_web(95)],
        True,
        ((90, 100),),
    ),
    "another began, and it may live": ([build_web(LONG_AGO, 90), build_web(98)], False, ()),
    "another began, and it lives": ([build_web(LONG_AGO, 99), build_web(98)], True, ()),
    "one of three lives": ([build_web(LONG_AGO, 60), build_web(50, 70), build_web(80, 99)], True, ()),
    "it was killed before the clock was set back": ([build_web(LONG_AGO, 140)], False, ()),
    "it began before the clock was set back": ([build_web(900, 99)], True, ()),
}


@pytest.mark.parametrize("case", LOOKS)
def test_what_web_processes_are_seen_is_what_is_known(case):
    webs, is_certain, outage_expected = LOOKS[case]
    seen, found = observe(Observation(at(99), at(90)), webs, at(100))

    assert (found, seen.outages) == (is_certain, outages(*outage_expected))
    assert seen.at == at(100)


def test_who_looks_again_after_a_while_was_away():
    seen, is_certain = observe(Observation(at(0), at(-10)), [build_web(LONG_AGO, 15)], at(16))
    assert (is_certain, seen.outages) == (True, outages((0, 16)))

    seen, is_certain = observe(Observation(at(0), at(-10)), [build_web(12)], at(16))
    assert (is_certain, seen.outages) == (True, outages((-10, 16)))


def test_a_web_process_that_was_away_itself_took_no_pings():
    seen, is_certain = observe(Observation(at(99), at(50)), [build_web(LONG_AGO, 96)], at(100))

    assert (is_certain, seen.outages) == (True, outages((50, 100)))


def test_an_absence_ends_only_with_a_web_process():
    noted = Observation(at(0), at(0))
    assert observe(noted, [], at(16)) == (noted, False)
    assert observe(noted, [build_web(LONG_AGO, 0)], at(60)) == (noted, False)
    assert observe(noted, [build_web(700)], at(700))[0].outages == outages((0, 700))


def test_who_looks_first_knows_of_no_absence():
    assert observe(None, [build_web(0)], at(0)) == (Observation(at(0), at(0)), True)
    assert observe(None, [build_web(LONG_AGO, -60)], at(0)) == (None, False)


def test_a_crash_at_each_start_is_remembered_in_a_few_words():
    noted = Observation(at(0), at(0))
    for number in range(1, 200):
        noted, _ = observe(noted, [build_web(number * 60)], at(number * 60))

    assert len(noted.outages) == MAX_OUTAGES
    first, last = noted.outages[0], noted.outages[-1]
    assert (first.began_at, last.ended_at) == (at(0), at(199 * 60))
    assert first.longest == timedelta(seconds=60)


def test_what_no_ping_can_wait_for_any_more_is_forgotten():
    later = 64 * 86_400
    noted, _ = observe(
        Observation(at(later), at(later), outages((0, 60))), [build_web(later + 60)], at(later + 60)
    )

    assert noted.outages == outages((later, later + 60))


HOUR = 3600


@pytest.mark.parametrize(
    "noted", [Observation(at(HOUR), at(HOUR)), Observation(at(0), at(HOUR)), Observation(at(HOUR), at(0))]
)
def test_after_the_clock_was_set_back_an_absence_is_found_as_before(noted):
    noted, is_certain = observe(noted, [build_web(LONG_AGO, 5)], at(10))
    assert is_certain
    assert (noted.at, noted.until) == (at(10), at(5))
    before = noted.outages
    for second in (*range(15, 600, 5), *range(1200, 1220, 5)):
        started, beat = (LONG_AGO, second) if second < 600 else (1200, second)
        noted, is_certain = observe(noted, [build_web(started, beat)], at(second))

    assert is_certain
    assert noted.outages == (*before, *outages((595, 1200)))


def test_after_the_clock_was_set_back_nobody_is_blamed_before_a_web_process_lives():
    noted = Observation(at(HOUR), at(HOUR))

    assert observe(noted, [], at(0)) == (noted, False)
    assert observe(noted, [build_web(LONG_AGO, HOUR)], at(0)) == (noted, False)


def test_clocks_that_differ_by_little_are_no_clock_that_was_set():
    seen, is_certain = observe(Observation(at(15), at(15)), [build_web(LONG_AGO, 15)], at(0))

    assert (is_certain, seen) == (True, Observation(at(0), at(15)))


@pytest.mark.parametrize("is_extended", [False, True])
@pytest.mark.parametrize("expected_at", [0, 60, HOUR + 60])
def test_who_is_expected_when_the_clock_is_set_back_gets_more_time_once(expected_at, is_extended):
    """By either clock: what was expected before it was set is expected by the one that was ahead."""
    noted, _ = observe(Observation(at(HOUR), at(HOUR - 10)), [build_web(LONG_AGO, 0)], at(0))
    expected = Expectation(at(expected_at), timedelta(seconds=90), timedelta(seconds=60), is_extended)
    until = extend_deadline(expected, noted.outages)

    if is_extended and expected_at > HOUR:
        assert until is None
    else:
        assert until == at(150 if expected_at < HOUR else HOUR + 150)
        assert extend_deadline(replace(expected, at=until, is_extended=True), noted.outages) is None


def test_absences_by_two_clocks_are_remembered_in_a_few_words():
    noted, _ = observe(Observation(at(HOUR), at(HOUR)), [build_web(LONG_AGO, 0)], at(0))
    for number in range(1, 200):
        noted, _ = observe(noted, [build_web(number * 10)], at(number * 10))

    assert len(noted.outages) == MAX_OUTAGES
    assert all(one.began_at <= one.ended_at for one in noted.outages)


# Expected within 300 s and a grace of 100 s, at the latest at 400 s.
EXCUSES = {
    "none": ([], False, None),
    "long before one could come": ([(100, 190)], False, None),
    "when it could come early": ([(100, 210)], False, 610),
    "when it was due": ([(290, 310)], False, 710),
    "after the last moment": ([(401, 410)], False, None),
    "over the last moment": ([(399, 2000)], False, 2400),
    "twice": ([(290, 310), (350, 360)], False, 760),
    "when it was due, and more time was given": ([(290, 310)], True, None),
    "for as long as one may take, and more time was given": ([(10, 410)], True, 810),
    "until that more time began": ([(-900, 0)], True, None),
}


@pytest.mark.parametrize("outage_expected", EXCUSES)
def test_more_time_is_given_for_what_may_have_been_lost(outage_expected):
    spans, is_extended, until = EXCUSES[outage_expected]
    expected = Expectation(at(400), timedelta(seconds=300), timedelta(seconds=100), is_extended)

    assert extend_deadline(expected, outages(*spans)) == (None if until is None else at(until))


def test_a_ping_cannot_have_been_lost_before_the_one_that_was_heard():
    """Where the grace is longer than the time between two."""
    expected = Expectation(at(660), timedelta(seconds=60), timedelta(seconds=600), is_extended=False)

    assert extend_deadline(expected, outages((-30, -10))) is None
    assert extend_deadline(expected, outages((10, 30))) == at(690)
