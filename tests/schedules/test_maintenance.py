"""Tests of maintenance windows, over both clock changes, and compared with a slow model."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.domain.facts import WindowFacts
from models.domain.values import replace
from schedules.maintenance import (
    INSTANT,
    LAST_MOMENT,
    NOTHING,
    find_in_force,
    find_next_span,
    find_span,
    was_in_force,
)
from tests.support.offenders import list_offenders
from tests.support.scenarios.combinations import count_examples
from tests.support.schedules.facts import DAY, HOUR, at
from tests.support.schedules.minute_model import get_latest_local_time, get_local_time

MINUTE = timedelta(minutes=1)
BERLIN = "Europe/Berlin"


def build_window(start, end, days=0, until=None, time_zone="UTC", name="Deploy"):
    return WindowFacts("window-1", name, at(start), at(end), days, at(until) if until else None, time_zone)


def get_span(found):
    if found is None:
        return None
    return " - ".join(f"{moment:%m-%d %H:%M}" if moment else "for ever" for moment in found)


ONE_TIME = build_window("2026-03-04 22:00", "2026-03-05 02:00")
NIGHTLY = build_window("2026-03-27 00:30", "2026-03-27 01:30", 1, "2026-03-31 00:30", BERLIN)


@pytest.mark.parametrize(
    ("moment", "expected", "next_start"),
    [
        ("2026-03-04 21:59:59", None, "03-04 22:00 - 03-05 02:00"),
        ("2026-03-04 22:00", "03-04 22:00 - 03-05 02:00", None),
        ("2026-03-05 01:59:59", "03-04 22:00 - 03-05 02:00", None),
        ("2026-03-05 02:00", None, None),
    ],
)
def test_a_window_is_in_force_from_its_start_until_just_before_its_end(moment, expected, next_start):
    assert (get_span(find_span(ONE_TIME, at(moment))), get_span(find_next_span(ONE_TIME, at(moment)))) == (
        expected,
        next_start,
    )


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-03-27 00:45", "03-27 00:30 - 03-27 01:30"),
        ("2026-03-28 00:30", "03-28 00:30 - 03-28 01:30"),
        # The clock skips from two to three: half an hour of the hour is left.
        ("2026-03-29 00:29:59", None),
        ("2026-03-29 00:30", "03-29 00:30 - 03-29 01:00"),
        ("2026-03-29 01:00", None),
        ("2026-03-29 23:29:59", None),
        ("2026-03-29 23:45", "03-29 23:30 - 03-30 00:30"),
        # The last repeat begins before the end of the repeats, and lasts its whole length.
        ("2026-03-31 00:15", "03-30 23:30 - 03-31 00:30"),
        ("2026-03-31 23:45", None),
    ],
)
def test_a_repeated_window_keeps_its_local_hour_when_clocks_go_forward(moment, expected):
    assert get_span(find_span(NIGHTLY, at(moment))) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-10-24 00:15", "10-24 00:00 - 10-24 01:30"),
        # From two to half past three, with an hour that occurs twice.
        ("2026-10-25 02:15", "10-25 00:00 - 10-25 02:30"),
        ("2026-10-25 02:30", None),
        ("2026-10-26 00:59", None),
        ("2026-10-26 01:00", "10-26 01:00 - 10-26 02:30"),
    ],
)
def test_a_repeated_window_keeps_its_local_hour_when_clocks_go_back(moment, expected):
    nightly = build_window("2026-10-20 00:00", "2026-10-20 01:30", 1, None, BERLIN)

    assert get_span(find_span(nightly, at(moment))) == expected


def test_a_repeat_that_the_clock_skips_does_not_happen():
    nightly = build_window("2026-03-28 01:15", "2026-03-28 01:45", 1, None, BERLIN)

    assert get_span(find_next_span(nightly, at("2026-03-28 02:00"))) == "03-30 00:15 - 03-30 00:45"
    assert all(find_span(nightly, at("2026-03-29 00:00") + n * MINUTE) is None for n in range(24 * 60))


def test_the_first_occurrence_can_begin_in_the_second_of_two_equal_hours():
    """From the first 02:30 until the second 02:10, forty minutes later."""
    odd = build_window("2026-10-25 00:30", "2026-10-25 01:10", 1, None, BERLIN)
    second = build_window("2026-10-25 01:30", "2026-10-25 01:50", 1, None, BERLIN)

    assert get_span(find_span(odd, at("2026-10-25 01:09"))) == "10-25 00:30 - 10-25 01:10"
    assert get_span(find_span(odd, at("2026-10-26 02:00"))) == "10-26 01:30 - 10-26 02:10"
    assert find_span(second, at("2026-10-25 00:40")) is None
    assert get_span(find_span(second, at("2026-10-25 01:40"))) == "10-25 01:30 - 10-25 01:50"


@pytest.mark.parametrize(
    ("until", "expected"),
    [(None, "03-27 12:00 - for ever"), ("2026-03-30 12:00", "03-27 12:00 - 03-31 22:00")],
)
def test_overlapping_repeats_are_one_span(until, expected):
    daily = build_window("2026-03-27 12:00", "2026-03-28 23:00", 1, until, BERLIN)

    assert get_span(find_span(daily, at("2026-03-28 15:00"))) == expected
    assert find_next_span(daily, at("2026-03-28 15:00")) is None
    assert find_next_span(daily, at("2027-01-01 00:00")) is None
    assert get_span(find_next_span(daily, at("2026-01-01 00:00"))) == expected


def test_repeats_without_a_gap_are_one_span():
    daily = build_window("2026-03-27 12:00", "2026-03-28 12:00", 1, "2026-04-02 12:00", BERLIN)

    assert get_span(find_span(daily, at("2026-03-30 15:00"))) == "03-27 12:00 - 04-03 11:00"


def test_a_repeat_every_seven_days_keeps_weekday_and_hour():
    weekly = build_window("2026-01-04 03:00", "2026-01-04 05:00", 7, None, BERLIN)
    found, moment = [], at("2026-03-20 00:00")
    for _ in range(3):
        begins, moment = find_next_span(weekly, moment)
        found.append(f"{get_local_time(BERLIN, begins):%a %H:%M} - {get_local_time(BERLIN, moment):%H:%M}")

    assert found == ["Sun 04:00 - 06:00"] * 3


def test_the_window_that_lasts_longest_is_named():
    short = build_window("2026-03-04 21:00", "2026-03-04 23:00", name="Backup")
    endless = build_window("2026-03-04 22:30", "2026-03-06 00:00", 1, name="Move")

    def get_named(moment):
        found = find_in_force([short, ONE_TIME, endless], at(moment))
        return found and str(found.why)

    assert get_named("2026-03-04 20:00") is None
    assert (
        get_named("2026-03-04 21:30")
        == "Maintenance window Backup is in force until 2026-03-04 23:00:00 UTC."
    )
    assert (
        get_named("2026-03-04 22:10")
        == "Maintenance window Deploy is in force until 2026-03-05 02:00:00 UTC."
    )
    assert get_named("2026-03-04 22:40") == "Maintenance window Move is in force and has no end."


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-03-04 20:00", "2026-03-04 21:59", False),
        ("2026-03-04 20:00", "2026-03-04 22:00", True),
        ("2026-03-05 01:59", "2026-03-05 01:59", True),
        ("2026-03-05 01:59", "2026-03-06 01:59", True),
        ("2026-03-05 02:00", "2026-03-06 02:00", False),
    ],
)
def test_a_window_was_in_force_at_any_time_since_a_moment(since, until, expected):
    long_ago = build_window("2026-01-04 22:00", "2026-01-05 02:00")

    assert was_in_force([long_ago, ONE_TIME], at(since), at(until)) == expected


def test_a_window_without_a_name_is_described_by_its_end():
    found = find_in_force(
        [build_window("2026-03-04 21:00", "2026-03-04 23:00", name="")], at("2026-03-04 22:00")
    )

    assert str(found.why) == "A maintenance window is in force until 2026-03-04 23:00:00 UTC."


def test_an_unknown_zone_counts_as_utc():
    nightly = build_window("2026-03-27 00:30", "2026-03-27 01:30", 1, None, "Mars/Olympus")

    assert get_span(find_span(nightly, at("2026-03-30 01:00"))) == "03-30 00:30 - 03-30 01:30"


LAST_DAY = "9999-12-31 23:59:59"
EVERY_TEN_YEARS = build_window("2026-01-01 00:00", "2026-01-01 01:00", 3650, "9998-12-31 00:00")


ZONES = ["UTC", BERLIN, "Asia/Tokyo", "America/New_York", "Pacific/Apia"]
REPEATS = [
    (build_window("2026-03-04 01:00", "2026-03-04 02:00", 1, LAST_DAY), "2026-01-05 01:30", False),
    (build_window("2026-03-04 01:00", "2026-03-04 02:00", 1, LAST_DAY), "2026-03-05 01:30", True),
    (build_window("2026-03-04 01:00", "2026-03-04 02:00", 1, LAST_DAY), "9999-12-30 01:30", True),
    (build_window("2026-03-04 00:00", LAST_DAY, 1), "2026-03-05 00:00", True),
    (build_window("0001-01-01 00:00", LAST_DAY, 3650, LAST_DAY), "2026-03-05 00:00", True),
    (build_window("9999-12-31 00:00", LAST_DAY, 1), "2026-03-05 00:00", False),
    (build_window("9999-12-31 00:00", LAST_DAY, 1), LAST_DAY, False),
    (build_window("0001-01-01 12:00", "0001-01-01 12:30", 1), "0001-01-01 12:15", True),
    (EVERY_TEN_YEARS, "2026-01-01 00:30", True),
    (EVERY_TEN_YEARS, "9999-06-01 00:30", False),
]


def test_repeats_continue_until_the_end_of_the_calendar():
    def check(case):
        zone, (facts, moment, expected) = case
        assert (find_span(replace(facts, time_zone=zone), at(moment)) is not None) == expected

    assert list_offenders(check, itertools.product(ZONES, REPEATS)) == []


def test_a_window_beyond_the_calendar_ends_with_it():
    nightly = build_window("9999-12-29 23:00", "9999-12-30 03:00", 1)
    overlapping = build_window("9999-12-01 00:00", "9999-12-03 00:00", 1, LAST_DAY)

    assert find_span(nightly, at(LAST_DAY)) == (at("9999-12-31 23:00"), LAST_MOMENT)
    assert find_next_span(nightly, at("9999-12-31 12:00")) == (at("9999-12-31 23:00"), LAST_MOMENT)
    assert find_next_span(nightly, at(LAST_DAY)) is None
    assert find_span(overlapping, at("9999-12-05 00:00")) == (at("9999-12-01 00:00"), LAST_MOMENT)


def is_in_force_by_counting(facts, moment):
    """Return whether a window is in force, by counting days against the latest local time so far."""
    if facts.start <= moment < facts.end:
        return True
    if not facts.repeat_interval or moment < facts.start:
        return False
    opens, closes = (get_local_time(facts.time_zone, each) for each in (facts.start, facts.end))
    if closes <= opens:
        closes = opens + (facts.end - facts.start)
    latest_time = get_latest_local_time(facts.time_zone, moment)
    until = facts.repeat_until
    k = 1
    while opens + k * facts.repeat_interval * DAY <= latest_time:
        later = k * facts.repeat_interval * DAY
        in_time = until is None or get_latest_local_time(facts.time_zone, until - INSTANT) >= opens + later
        if in_time and latest_time < closes + later:
            return True
        k += 1
    return False


ZONES = (BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC", "America/Santiago")
WINDOWS = st.builds(
    lambda start, length, days, until, zone: WindowFacts(
        "w", "W", start, start + length, days, start + until if until else None, zone
    ),
    st.datetimes(datetime(2026, 3, 1), datetime(2026, 4, 10)).map(  # noqa: DTZ001 - UTC is put to it
        lambda moment: moment.replace(tzinfo=UTC, second=0, microsecond=0)
    )
    | st.datetimes(datetime(2026, 10, 1), datetime(2026, 11, 5)).map(  # noqa: DTZ001
        lambda moment: moment.replace(tzinfo=UTC, second=0, microsecond=0)
    ),
    st.integers(1, 60 * 60).map(lambda minutes: minutes * MINUTE),
    st.integers(0, 4),
    st.none() | st.integers(1, 20 * 24).map(lambda hours: hours * HOUR),
    st.sampled_from(ZONES),
)


@settings(max_examples=count_examples(300), deadline=None)
@given(WINDOWS, st.integers(-60, 40 * 24 * 60))
def test_a_window_is_in_force_when_the_slow_model_says_so(facts, minutes):
    moment = facts.start + minutes * MINUTE

    assert (find_span(facts, moment) is not None) == is_in_force_by_counting(facts, moment)


@settings(max_examples=count_examples(200), deadline=None)
@given(WINDOWS, st.integers(-60, 40 * 24 * 60))
def test_spans_begin_and_end_where_the_slow_model_changes(facts, minutes):
    moment = facts.start + minutes * MINUTE
    found = find_span(facts, moment) or find_next_span(facts, moment)
    if found is None:
        steps = (moment + n * 6 * HOUR for n in range(20))
        assert not any(is_in_force_by_counting(facts, step) for step in steps)
        return

    begins, ends = found
    assert is_in_force_by_counting(facts, begins)
    assert not is_in_force_by_counting(facts, begins - INSTANT)
    if ends is not None:
        assert is_in_force_by_counting(facts, ends - INSTANT)
        assert not is_in_force_by_counting(facts, ends)
    assert begins <= moment or not any(
        is_in_force_by_counting(facts, moment + (begins - moment) * n / 20) for n in range(20)
    )


def is_in_force_by_utc(facts, moment):
    """Return whether a window is in force in UTC, without clock changes: the last repeat ends last."""
    since, length = moment - facts.start, facts.end - facts.start
    if since < NOTHING or not facts.repeat_interval:
        return NOTHING <= since < length
    every = facts.repeat_interval * DAY
    repeats = (facts.repeat_until or LAST_MOMENT) - facts.start
    last = max((repeats - INSTANT) // every, 0)
    return since - min(since // every, last) * every < length


FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
# The first and the last year of the calendar, and a present one.
MOMENTS = st.one_of(
    st.datetimes(datetime(year, 1, 1), datetime(year, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001
    for year in (1, 2, 2026, 9998, 9999)
).map(lambda moment: moment.replace(tzinfo=UTC)) | st.sampled_from([FIRST_MOMENT, LAST_MOMENT])
FAR_WINDOWS = st.builds(
    lambda moments, days, until, zone: WindowFacts("w", "W", *sorted(moments), days, until, zone),
    st.lists(MOMENTS, min_size=2, max_size=2, unique=True),
    st.sampled_from((0, 1, 2, 365, 3650)),
    st.none() | MOMENTS,
    st.sampled_from(ZONES),
).filter(lambda facts: facts.repeat_until is None or facts.repeat_until > facts.start)


@settings(max_examples=count_examples(500), deadline=None)
@given(FAR_WINDOWS, MOMENTS)
def test_a_window_can_be_checked_at_any_time_of_the_calendar(facts, moment):
    found, later = find_span(facts, moment), find_next_span(facts, moment)

    assert found is None or found[0] <= moment
    assert found is None or found[1] is None or moment < found[1]
    assert later is None or moment < later[0]
    facts = replace(facts, time_zone="UTC")
    if moment < LAST_MOMENT:
        assert (find_span(facts, moment) is not None) == is_in_force_by_utc(facts, moment)
    begins, ends = find_span(facts, moment) or find_next_span(facts, moment) or (None, None)
    if begins is not None:
        assert is_in_force_by_utc(facts, begins)
        assert begins == FIRST_MOMENT or not is_in_force_by_utc(facts, begins - INSTANT)
    if ends is not None:
        assert is_in_force_by_utc(facts, ends - INSTANT)
        assert ends == LAST_MOMENT or not is_in_force_by_utc(facts, ends)
