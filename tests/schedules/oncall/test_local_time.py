"""Tests of local time and its moments in UTC."""

from zoneinfo import ZoneInfoNotFoundError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.oncall.local_time import from_local, get_zone, to_local
from tests.support.scenarios.combinations import count_examples
from tests.support.schedules import minute_model
from tests.support.schedules.facts import HOUR, MICROSECOND, SECOND, at, local_time

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("zone", "time", "moment"),
    [
        pytest.param("UTC", "2026-03-29 02:30", "2026-03-29 02:30", id="UTC is never changed"),
        pytest.param("Asia/Kathmandu", "2026-03-29 02:30", "2026-03-28 20:45", id="45 minutes"),
        pytest.param(BERLIN, "2026-03-01 02:30", "2026-03-01 01:30", id="winter"),
        pytest.param(BERLIN, "2026-07-01 02:30", "2026-07-01 00:30", id="summer"),
        # Berlin goes from 02:00 to 03:00 at 01:00 UTC.
        pytest.param(BERLIN, "2026-03-29 01:59:59.999999", "2026-03-29 00:59:59.999999", id="before a skip"),
        pytest.param(BERLIN, "2026-03-29 02:00", "2026-03-29 01:00", id="the beginning of a skip"),
        pytest.param(BERLIN, "2026-03-29 02:00:00.500000", "2026-03-29 01:00", id="half a second later"),
        pytest.param(BERLIN, "2026-03-29 02:17:09.000005", "2026-03-29 01:00", id="within a skip"),
        pytest.param(BERLIN, "2026-03-29 02:59:59.999999", "2026-03-29 01:00", id="the last of a skip"),
        pytest.param(BERLIN, "2026-03-29 03:00", "2026-03-29 01:00", id="the end of a skip"),
        pytest.param(BERLIN, "2026-03-29 03:00:00.000001", "2026-03-29 01:00:00.000001", id="after a skip"),
        # Berlin goes from 03:00 back to 02:00 at 01:00 UTC.
        pytest.param(BERLIN, "2026-10-25 01:59:59", "2026-10-24 23:59:59", id="before a doubled hour"),
        pytest.param(BERLIN, "2026-10-25 02:00", "2026-10-25 00:00", id="the beginning of a doubled hour"),
        pytest.param(BERLIN, "2026-10-25 02:59:59.999999", "2026-10-25 00:59:59.999999", id="the last of it"),
        pytest.param(BERLIN, "2026-10-25 03:00", "2026-10-25 02:00", id="after a doubled hour"),
        # New York goes forward at 02:00, 07:00 UTC, and back at 02:00, 06:00 UTC.
        pytest.param(NEW_YORK, "2026-03-08 02:30", "2026-03-08 07:00", id="a skipped hour west of Greenwich"),
        pytest.param(NEW_YORK, "2026-11-01 01:30", "2026-11-01 05:30", id="twice, west of Greenwich"),
        # Lord Howe goes from 02:00 to 02:30 at 15:30 UTC, and back from 02:00 to 01:30 at 15:00 UTC.
        pytest.param(LORD_HOWE, "2026-10-04 02:20", "2026-10-03 15:30", id="a skipped half hour"),
        pytest.param(LORD_HOWE, "2026-10-04 02:40", "2026-10-03 15:40", id="after it"),
        pytest.param(LORD_HOWE, "2026-04-05 01:40", "2026-04-04 14:40", id="half an hour that occurs twice"),
        pytest.param(LORD_HOWE, "2026-04-05 02:00", "2026-04-04 15:30", id="after it occurred twice"),
        # Apia went from the 29th of December to the 31st at 10:00 UTC.
        pytest.param("Pacific/Apia", "2011-12-29 23:00", "2011-12-30 09:00", id="before a skipped day"),
        pytest.param("Pacific/Apia", "2011-12-30 00:00", "2011-12-30 10:00", id="a skipped day"),
        pytest.param("Pacific/Apia", "2011-12-30 18:00", "2011-12-30 10:00", id="its evening"),
        pytest.param("Pacific/Apia", "2011-12-31 00:00", "2011-12-30 10:00", id="the day after it"),
        # Santiago skips a midnight in September, 04:00 UTC. In April, 23:00 occurs twice, from 03:00 UTC on.
        pytest.param("America/Santiago", "2026-09-06 00:00", "2026-09-06 04:00", id="a skipped midnight"),
        pytest.param("America/Santiago", "2026-04-05 00:00", "2026-04-05 04:00", id="a delayed midnight"),
        # In Dublin, winter time counts as the daylight saving time, with a negative offset.
        pytest.param("Europe/Dublin", "2026-03-29 01:30", "2026-03-29 01:00", id="a skipped hour in Dublin"),
        pytest.param("Europe/Dublin", "2026-10-25 01:30", "2026-10-25 00:30", id="twice in Dublin"),
        pytest.param(BERLIN, "2093-03-29 02:30", "2093-03-29 01:00", id="a skipped hour beyond the tables"),
        pytest.param(BERLIN, "1893-04-01 00:03", "1893-03-31 23:06:32", id="local mean time, before zones"),
    ],
)  # fmt: skip
def test_a_local_time_is_the_first_moment_that_shows_it_or_the_clock_change(zone, time, moment):
    assert from_local(local_time(time), get_zone(zone)) == at(moment)


@pytest.mark.parametrize(
    ("zone", "moment", "time"),
    [
        pytest.param(BERLIN, "2026-10-25 00:30", "2026-10-25 02:30", id="the first of two"),
        pytest.param(BERLIN, "2026-10-25 01:30", "2026-10-25 02:30", id="the second of two"),
        pytest.param(BERLIN, "2026-03-29 01:00", "2026-03-29 03:00", id="at the end of a skipped hour"),
        pytest.param("Asia/Kathmandu", "2026-03-29 00:00", "2026-03-29 05:45", id="45 minutes"),
        pytest.param(NEW_YORK, "0001-01-01 00:00", "0001-01-01 00:00", id="before the first year"),
    ],
)
def test_a_moment_has_the_local_time_of_its_zone(zone, moment, time):
    assert to_local(at(moment), get_zone(zone)) == local_time(time)


CLOCK_CHANGES = [
    (BERLIN, at("2026-03-29 01:00")),
    (BERLIN, at("2026-10-25 01:00")),
    (LORD_HOWE, at("2026-10-03 15:30")),
    (LORD_HOWE, at("2026-04-04 15:00")),
    ("Pacific/Apia", at("2011-12-30 10:00")),
    ("Asia/Kathmandu", at("1985-12-31 18:30")),
    ("Antarctica/Casey", at("2018-03-10 17:00")),
]
seconds = st.integers(-5 * 3600, 5 * 3600).map(lambda number: number * SECOND)
bounded = settings(derandomize=True, database=None, deadline=None, max_examples=count_examples(200))


@bounded
@given(st.sampled_from(CLOCK_CHANGES), seconds)
def test_a_search_second_by_second_finds_the_same_moment(change, offset):
    zone, near = change
    time = minute_model.get_local_time(zone, near) + offset

    assert from_local(time, get_zone(zone)) == minute_model.find_first_moment(zone, time, near)


@bounded
@given(st.sampled_from(CLOCK_CHANGES), seconds, seconds)
def test_later_local_times_are_never_earlier_moments(change, one, other):
    zone, near = change
    times = sorted(
        (minute_model.get_local_time(zone, near) + one, minute_model.get_local_time(zone, near) + other)
    )
    moments = [from_local(time, get_zone(zone)) for time in times]

    assert moments == sorted(moments)


@pytest.mark.parametrize(
    ("alias", "name"), [("US/Eastern", NEW_YORK), ("Asia/Calcutta", "Asia/Kolkata"), ("Zulu", "UTC")]
)
def test_an_alias_is_the_same_zone(alias, name):
    for moment in (at("2026-01-01 00:00"), at("2026-11-01 05:59"), at("2026-11-01 06:00")):
        assert to_local(moment, get_zone(alias)) == to_local(moment, get_zone(name))


@pytest.mark.parametrize(
    "name", ["Middle/Earth", "", "America", "../etc/passwd", "/etc/localtime", "a\0b", "x" * 300, "zone.tab"]
)
def test_an_unknown_time_zone_is_not_found(name):
    with pytest.raises(ZoneInfoNotFoundError):
        get_zone(name)


@pytest.mark.parametrize("hours", range(-3, 4))
def test_a_moment_survives_the_conversion_unless_its_local_time_occurs_twice(hours):
    moment = at("2026-10-25 01:00") + hours * HOUR - MICROSECOND
    first = from_local(to_local(moment, get_zone(BERLIN)), get_zone(BERLIN))

    assert first == (moment - HOUR if hours == 1 else moment)
