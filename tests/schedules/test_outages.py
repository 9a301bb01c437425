"""Tests of outages and of the deadlines that they extend."""

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
    """Build a web process from its start and its last liveness."""
    return WebProcess(at(beats[0]), at(beats[-1]))


LONG_AGO = -3600
# Observed at second 100, a second after the last observation; a web process had liveness at second 90.
OBSERVATIONS = {
    "no liveness since the last observation": ([build_web(LONG_AGO, 90)], True, ()),
    "liveness since the last observation": ([build_web(LONG_AGO, 99)], True, ()),
    "liveness is late": ([build_web(LONG_AGO, 74)], False, ()),
    "the process ended and none runs": ([], False, ()),
    "the process ended and another began": ([build_web(98)], True, ((90, 100),)),
    "the process was killed and another began later": (
        [build_web(LONG_AGO, 74), build_web(95)],
        True,
        ((90, 100),),
    ),
    "another process began and the first may run": ([build_web(LONG_AGO, 90), build_web(98)], False, ()),
    "another process began and the first runs": ([build_web(LONG_AGO, 99), build_web(98)], True, ()),
    "one of three processes runs": (
        [build_web(LONG_AGO, 60), build_web(50, 70), build_web(80, 99)],
        True,
        (),
    ),
    "the process was killed before the clock was set back": ([build_web(LONG_AGO, 140)], False, ()),
    "the process began before the clock was set back": ([build_web(900, 99)], True, ()),
}


@pytest.mark.parametrize("case", OBSERVATIONS)
def test_an_observation_follows_the_liveness_of_web_processes(case):
    webs, is_certain, outage_expected = OBSERVATIONS[case]
    observed, found = observe(Observation(at(99), at(90)), webs, at(100))

    assert (found, observed.outages) == (is_certain, outages(*outage_expected))
    assert observed.at == at(100)


def test_a_gap_between_observations_is_an_outage():
    observed, is_certain = observe(Observation(at(0), at(-10)), [build_web(LONG_AGO, 15)], at(16))
    assert (is_certain, observed.outages) == (True, outages((0, 16)))

    observed, is_certain = observe(Observation(at(0), at(-10)), [build_web(12)], at(16))
    assert (is_certain, observed.outages) == (True, outages((-10, 16)))


def test_a_gap_in_the_liveness_of_a_web_process_is_an_outage():
    observed, is_certain = observe(Observation(at(99), at(50)), [build_web(LONG_AGO, 96)], at(100))

    assert (is_certain, observed.outages) == (True, outages((50, 100)))


def test_an_outage_ends_only_with_a_web_process():
    observation = Observation(at(0), at(0))
    assert observe(observation, [], at(16)) == (observation, False)
    assert observe(observation, [build_web(LONG_AGO, 0)], at(60)) == (observation, False)
    assert observe(observation, [build_web(700)], at(700))[0].outages == outages((0, 700))


def test_the_first_observation_has_no_outage():
    assert observe(None, [build_web(0)], at(0)) == (Observation(at(0), at(0)), True)
    assert observe(None, [build_web(LONG_AGO, -60)], at(0)) == (None, False)


def test_crashes_at_each_start_are_stored_as_a_limited_number_of_outages():
    observation = Observation(at(0), at(0))
    for number in range(1, 200):
        observation, _ = observe(observation, [build_web(number * 60)], at(number * 60))

    assert len(observation.outages) == MAX_OUTAGES
    first, last = observation.outages[0], observation.outages[-1]
    assert (first.began_at, last.ended_at) == (at(0), at(199 * 60))
    assert first.longest == timedelta(seconds=60)


def test_an_old_outage_is_dropped():
    later = 64 * 86_400
    observation, _ = observe(
        Observation(at(later), at(later), outages((0, 60))), [build_web(later + 60)], at(later + 60)
    )

    assert observation.outages == outages((later, later + 60))


HOUR = 3600


@pytest.mark.parametrize(
    "observation",
    [Observation(at(HOUR), at(HOUR)), Observation(at(0), at(HOUR)), Observation(at(HOUR), at(0))],
)
def test_an_outage_is_found_after_the_clock_was_set_back(observation):
    observation, is_certain = observe(observation, [build_web(LONG_AGO, 5)], at(10))
    assert is_certain
    assert (observation.at, observation.until) == (at(10), at(5))
    before = observation.outages
    for second in (*range(15, 600, 5), *range(1200, 1220, 5)):
        started, beat = (LONG_AGO, second) if second < 600 else (1200, second)
        observation, is_certain = observe(observation, [build_web(started, beat)], at(second))

    assert is_certain
    assert observation.outages == (*before, *outages((595, 1200)))


def test_no_ping_is_missing_after_the_clock_was_set_back_until_a_web_process_runs():
    observation = Observation(at(HOUR), at(HOUR))

    assert observe(observation, [], at(0)) == (observation, False)
    assert observe(observation, [build_web(LONG_AGO, HOUR)], at(0)) == (observation, False)


def test_a_small_difference_between_clocks_is_ignored():
    observed, is_certain = observe(Observation(at(15), at(15)), [build_web(LONG_AGO, 15)], at(0))

    assert (is_certain, observed) == (True, Observation(at(0), at(15)))


@pytest.mark.parametrize("is_extended", [False, True])
@pytest.mark.parametrize("expected_at", [0, 60, HOUR + 60])
def test_a_ping_expected_while_the_clock_is_set_back_has_its_deadline_extended_once(expected_at, is_extended):
    """Pings expected before the clock was set back still have a deadline by the clock that was ahead."""
    observation, _ = observe(Observation(at(HOUR), at(HOUR - 10)), [build_web(LONG_AGO, 0)], at(0))
    expected = Expectation(at(expected_at), timedelta(seconds=90), timedelta(seconds=60), is_extended)
    until = extend_deadline(expected, observation.outages)

    if is_extended and expected_at > HOUR:
        assert until is None
    else:
        assert until == at(150 if expected_at < HOUR else HOUR + 150)
        assert extend_deadline(replace(expected, at=until, is_extended=True), observation.outages) is None


def test_outages_of_two_clocks_are_stored_as_a_limited_number():
    observation, _ = observe(Observation(at(HOUR), at(HOUR)), [build_web(LONG_AGO, 0)], at(0))
    for number in range(1, 200):
        observation, _ = observe(observation, [build_web(number * 10)], at(number * 10))

    assert len(observation.outages) == MAX_OUTAGES
    assert all(one.began_at <= one.ended_at for one in observation.outages)


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
