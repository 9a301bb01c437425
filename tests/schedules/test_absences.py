"""When pings could not come, and who is given more time for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schedules.absences import REMEMBERED, Absence, Expectation, Watch, Web, look, more_time

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def absences(*spans):
    return tuple(Absence.between(at(began), at(ended)) for began, ended in spans)


def web(*beats):
    """Its start, and the last sign of life."""
    return Web(at(beats[0]), at(beats[-1]))


OLD = -3600
# At second 100, a second after the last look, when a web process had been seen to live at second 90.
LOOKS = {
    "it gave no sign of life since": ([web(OLD, 90)], True, ()),
    "it gave one": ([web(OLD, 99)], True, ()),
    "it is late": ([web(OLD, 74)], False, ()),
    "it ended, and none is there": ([], False, ()),
    "it ended, and another began": ([web(98)], True, ((90, 100),)),
    "it was killed some time ago, and another began": ([web(OLD, 74), web(95)], True, ((90, 100),)),
    "another began, and it may live": ([web(OLD, 90), web(98)], False, ()),
    "another began, and it lives": ([web(OLD, 99), web(98)], True, ()),
    "one of three lives": ([web(OLD, 60), web(50, 70), web(80, 99)], True, ()),
    "it was killed before the clock was set back": ([web(OLD, 140)], False, ()),
    "it began before the clock was set back": ([web(900, 99)], True, ()),
}


@pytest.mark.parametrize("case", LOOKS)
def test_what_web_processes_are_seen_is_what_is_known(case):
    webs, is_certain, away = LOOKS[case]
    seen, found = look(Watch(at(99), at(90)), webs, at(100))

    assert (found, seen.absences) == (is_certain, absences(*away))
    assert seen.at == at(100)


def test_who_looks_again_after_a_while_was_away():
    seen, is_certain = look(Watch(at(0), at(-10)), [web(OLD, 15)], at(16))
    assert (is_certain, seen.absences) == (True, absences((0, 16)))

    seen, is_certain = look(Watch(at(0), at(-10)), [web(12)], at(16))
    assert (is_certain, seen.absences) == (True, absences((-10, 16)))


def test_a_web_process_that_was_away_itself_took_no_pings():
    seen, is_certain = look(Watch(at(99), at(50)), [web(OLD, 96)], at(100))

    assert (is_certain, seen.absences) == (True, absences((50, 100)))


def test_an_absence_ends_only_with_a_web_process():
    noted = Watch(at(0), at(0))
    assert look(noted, [], at(16)) == (noted, False)
    assert look(noted, [web(OLD, 0)], at(60)) == (noted, False)
    assert look(noted, [web(700)], at(700))[0].absences == absences((0, 700))


def test_who_looks_first_knows_of_no_absence():
    assert look(None, [web(0)], at(0)) == (Watch(at(0), at(0)), True)
    assert look(None, [web(OLD, -60)], at(0)) == (None, False)


def test_a_crash_at_each_start_is_remembered_in_a_few_words():
    noted = Watch(at(0), at(0))
    for number in range(1, 200):
        noted, _ = look(noted, [web(number * 60)], at(number * 60))

    assert len(noted.absences) == REMEMBERED
    first, last = noted.absences[0], noted.absences[-1]
    assert (first.began_at, last.ended_at) == (at(0), at(199 * 60))
    assert first.longest == timedelta(seconds=60)


def test_what_no_ping_can_wait_for_any_more_is_forgotten():
    later = 64 * 86_400
    noted, _ = look(Watch(at(later), at(later), absences((0, 60))), [web(later + 60)], at(later + 60))

    assert noted.absences == absences((later, later + 60))


HOUR = 3600


@pytest.mark.parametrize("noted", [Watch(at(HOUR), at(HOUR)), Watch(at(0), at(HOUR)), Watch(at(HOUR), at(0))])
def test_after_the_clock_was_set_back_an_absence_is_found_as_before(noted):
    noted, is_certain = look(noted, [web(OLD, 5)], at(10))
    assert is_certain
    assert (noted.at, noted.until) == (at(10), at(5))
    before = noted.absences
    for second in (*range(15, 600, 5), *range(1200, 1220, 5)):
        began, beat = (OLD, second) if second < 600 else (1200, second)
        noted, is_certain = look(noted, [web(began, beat)], at(second))

    assert is_certain
    assert noted.absences == (*before, *absences((595, 1200)))


def test_after_the_clock_was_set_back_nobody_is_blamed_before_a_web_process_lives():
    noted = Watch(at(HOUR), at(HOUR))

    assert look(noted, [], at(0)) == (noted, False)
    assert look(noted, [web(OLD, HOUR)], at(0)) == (noted, False)


def test_clocks_that_differ_by_little_are_no_clock_that_was_set():
    seen, is_certain = look(Watch(at(15), at(15)), [web(OLD, 15)], at(0))

    assert (is_certain, seen) == (True, Watch(at(0), at(15)))


@pytest.mark.parametrize("is_excused", [False, True])
@pytest.mark.parametrize("expected_at", [0, 60, HOUR + 60])
def test_who_is_expected_when_the_clock_is_set_back_gets_more_time_once(expected_at, is_excused):
    """By either clock: what was expected before it was set is expected by the one that was ahead."""
    noted, _ = look(Watch(at(HOUR), at(HOUR - 10)), [web(OLD, 0)], at(0))
    expected = Expectation(at(expected_at), timedelta(seconds=90), timedelta(seconds=60), is_excused)
    until = more_time(expected, noted.absences)

    if is_excused and expected_at > HOUR:
        assert until is None
    else:
        assert until == at(150 if expected_at < HOUR else HOUR + 150)
        assert more_time(replace(expected, at=until, is_excused=True), noted.absences) is None


def test_absences_by_two_clocks_are_remembered_in_a_few_words():
    noted, _ = look(Watch(at(HOUR), at(HOUR)), [web(OLD, 0)], at(0))
    for number in range(1, 200):
        noted, _ = look(noted, [web(number * 10)], at(number * 10))

    assert len(noted.absences) == REMEMBERED
    assert all(one.began_at <= one.ended_at for one in noted.absences)


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


@pytest.mark.parametrize("away", EXCUSES)
def test_more_time_is_given_for_what_may_have_been_lost(away):
    spans, is_excused, until = EXCUSES[away]
    expected = Expectation(at(400), timedelta(seconds=300), timedelta(seconds=100), is_excused)

    assert more_time(expected, absences(*spans)) == (None if until is None else at(until))


def test_a_ping_cannot_have_been_lost_before_the_one_that_was_heard():
    """Where the grace is longer than the time between two."""
    expected = Expectation(at(660), timedelta(seconds=60), timedelta(seconds=600), is_excused=False)

    assert more_time(expected, absences((-30, -10))) is None
    assert more_time(expected, absences((10, 30))) == at(690)
