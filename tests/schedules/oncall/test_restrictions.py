"""Tests of the restrictions of a layer."""

from datetime import timedelta

import pytest

from models.domain.enums import RestrictionType
from schedules.oncall.local_time import get_zone
from schedules.oncall.restrictions import is_unrestricted, list_windows
from tests.support.schedules.facts import DAY, DAYS, HOUR, SECOND, WEEK, at, daily, layer, restricted, weekly


def list_allowed(restrictions, start, end, zone="UTC"):
    """Return the allowed spans as "Mon 22:00 - Tue 08:00", in UTC."""
    found = list_windows(layer(**restrictions), get_zone(zone), at(start), at(end))
    return [f"{opens:%a %H:%M} - {closes:%a %H:%M}" for opens, closes in found]


# 2026-03-02 is a Monday.
@pytest.mark.parametrize(
    ("restrictions", "expected"),
    [
        pytest.param(
            daily(("09:00", 8 * HOUR)),
            ["Mon 09:00 - Mon 17:00", "Tue 09:00 - Tue 17:00"],
            id="each day",
        ),
        pytest.param(
            daily(("22:00", 10 * HOUR)),
            ["Sun 22:00 - Mon 08:00", "Mon 22:00 - Tue 08:00", "Tue 22:00 - Wed 08:00"],
            id="over midnight, and last night's",
        ),
        pytest.param(
            daily(("14:00", HOUR), ("09:00", HOUR)),
            [
                "Mon 09:00 - Mon 10:00",
                "Mon 14:00 - Mon 15:00",
                "Tue 09:00 - Tue 10:00",
                "Tue 14:00 - Tue 15:00",
            ],
            id="in whatever order they are given",
        ),
        pytest.param(
            daily(("09:00", 4 * HOUR), ("10:00", HOUR), ("12:00", 3 * HOUR)),
            ["Mon 09:00 - Mon 15:00", "Tue 09:00 - Tue 15:00"],
            id="those that overlap are one",
        ),
        pytest.param(
            daily(("12:00", 2 * HOUR), ("09:00", 3 * HOUR)),
            ["Mon 09:00 - Mon 14:00", "Tue 09:00 - Tue 14:00"],
            id="those that touch are one",
        ),
        pytest.param(
            daily(("00:00", 6 * HOUR), ("20:00", 4 * HOUR)),
            ["Sun 20:00 - Mon 06:00", "Mon 20:00 - Tue 06:00", "Tue 20:00 - Wed 06:00"],
            id="those that touch at midnight are one",
        ),
        pytest.param(
            daily(("20:00", 12 * HOUR), ("06:00", 3 * HOUR), ("08:30", 2 * HOUR)),
            ["Sun 20:00 - Mon 10:30", "Mon 20:00 - Tue 10:30", "Tue 20:00 - Wed 10:30"],
            id="those that overlap after midnight are one",
        ),
        pytest.param(
            daily(("20:00", 12 * HOUR), ("01:00", HOUR), ("06:00", 3 * HOUR)),
            ["Sun 20:00 - Mon 09:00", "Mon 20:00 - Tue 09:00", "Tue 20:00 - Wed 09:00"],
            id="those within a night are part of it",
        ),
        pytest.param(
            daily(("23:59", DAY - SECOND)),
            ["Sun 23:59 - Mon 23:58", "Mon 23:59 - Tue 23:58", "Tue 23:59 - Wed 23:58"],
            id="all but a second",
        ),
    ],
)
def test_daily_restrictions_allow_the_listed_spans(restrictions, expected):
    assert list_allowed(restrictions, "2026-03-02 00:00", "2026-03-04 00:00") == expected


@pytest.mark.parametrize(
    ("restrictions", "expected"),
    [
        pytest.param(
            weekly(("Tue 09:00", 8 * HOUR)),
            ["Tue 09:00 - Tue 17:00", "Tue 09:00 - Tue 17:00"],
            id="a day each week",
        ),
        pytest.param(
            weekly(("Fri 18:00", 60 * HOUR)),
            ["Fri 18:00 - Mon 06:00", "Fri 18:00 - Mon 06:00", "Fri 18:00 - Mon 06:00"],
            id="over the week's end, and the last one's",
        ),
        pytest.param(
            weekly(("Sat 00:00", DAY), ("Sun 00:00", DAY), ("Mon 00:00", 6 * HOUR)),
            ["Sat 00:00 - Mon 06:00", "Sat 00:00 - Mon 06:00", "Sat 00:00 - Mon 06:00"],
            id="those that touch around the week's end are one",
        ),
        pytest.param(
            weekly(("Sun 12:00", 6 * DAY), ("Tue 09:00", HOUR)),
            ["Sun 12:00 - Sat 12:00", "Sun 12:00 - Sat 12:00", "Sun 12:00 - Sat 12:00"],
            id="one within another that began last week is part of it",
        ),
    ],
)
def test_weekly_restrictions_allow_the_listed_spans(restrictions, expected):
    assert list_allowed(restrictions, "2026-03-02 00:00", "2026-03-16 00:00") == expected


def test_the_day_of_a_daily_restriction_is_ignored():
    restrictions = restricted(RestrictionType.DAILY, (7, "09:00", HOUR))

    assert list_allowed(restrictions, "2026-03-02 00:00", "2026-03-04 00:00") == [
        "Mon 09:00 - Mon 10:00",
        "Tue 09:00 - Tue 10:00",
    ]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("2026-03-02 09:30", "2026-03-02 09:31", ["Mon 09:00 - Mon 10:00"]),
        ("2026-03-02 08:00", "2026-03-02 09:00", []),
        ("2026-03-02 08:00", "2026-03-02 09:01", ["Mon 09:00 - Mon 10:00"]),
        ("2026-03-02 10:00", "2026-03-03 09:00", []),
        ("2026-03-02 09:59", "2026-03-03 09:00", ["Mon 09:00 - Mon 10:00"]),
    ],
    ids=[
        "whole, though little was asked about",
        "until it begins",
        "and a minute",
        "since it ended",
        "and a minute before",
    ],
)
def test_spans_that_reach_into_the_requested_time_are_whole(start, end, expected):
    assert list_allowed(daily(("09:00", HOUR)), start, end) == expected


@pytest.mark.parametrize(
    ("restrictions", "expected"),
    [
        pytest.param({}, True, id="none"),
        pytest.param(restricted(RestrictionType.NONE, (1, "09:00", HOUR)), True, id="none but a list"),
        pytest.param(restricted(RestrictionType.DAILY), True, id="daily with an empty list"),
        pytest.param(restricted(RestrictionType.WEEKLY), True, id="weekly with an empty list"),
        pytest.param(daily(("09:00", DAY)), True, id="from nine to nine"),
        pytest.param(daily(("09:00", DAY - SECOND)), False, id="all day but a second"),
        pytest.param(daily(("09:00", WEEK)), True, id="seven days of every day"),
        pytest.param(daily(("09:00", 12 * HOUR), ("21:00", 12 * HOUR)), True, id="days and nights"),
        pytest.param(
            daily(("00:00", 10 * HOUR), ("09:00", 13 * HOUR), ("20:00", 5 * HOUR)), True, id="three shifts"
        ),
        pytest.param(daily(("00:00", 10 * HOUR), ("10:01", 14 * HOUR)), False, id="all but a minute"),
        pytest.param(weekly(("Wed 09:00", timedelta(seconds=604_800))), True, id="a week from Wednesday"),
        pytest.param(weekly(("Wed 09:00", WEEK - SECOND)), False, id="a week but a second"),
        pytest.param(weekly(*((f"{day} 08:00", DAY) for day in DAYS[1:])), True, id="every day"),
        pytest.param(weekly(*((f"{day} 08:00", DAY) for day in DAYS[2:])), False, id="all days but one"),
    ],
)
def test_restrictions_that_cover_the_whole_time_are_none(restrictions, expected):
    assert is_unrestricted(layer(**restrictions)) is expected


# Local time of Berlin: the clock skips the hour from 02:00 on Sunday 29 March 2026, at 01:00 UTC. The hour
# from 02:00 occurs twice on Sunday 25 October, from 00:00 UTC.
@pytest.mark.parametrize(
    ("opens", "duration", "spring", "autumn"),
    [
        ("22:00", 10 * HOUR, "Sat 21:00 - Sun 06:00", "Sat 20:00 - Sun 07:00"),
        ("01:30", HOUR, "Sun 00:30 - Sun 01:00", "Sat 23:30 - Sun 00:30"),
        ("02:30", HOUR, "Sun 01:00 - Sun 01:30", "Sun 00:30 - Sun 02:30"),
        ("02:00", HOUR, None, "Sun 00:00 - Sun 02:00"),
        ("02:15", HOUR / 2, None, "Sun 00:15 - Sun 00:45"),
        ("03:00", HOUR, "Sun 01:00 - Sun 02:00", "Sun 02:00 - Sun 03:00"),
    ],
    ids=[
        "a night", "into the hour", "out of the hour", "the hour", "within the hour", "after the hour",
    ],
)  # fmt: skip
def test_restrictions_begin_and_end_at_local_times(opens, duration, spring, autumn):
    asked = {"2026-03-28 20:00": "2026-03-29 19:00", "2026-10-24 19:30": "2026-10-25 20:00"}
    found = [list_allowed(daily((opens, duration)), *each, "Europe/Berlin") for each in asked.items()]

    assert found == [[spring] if spring else [], [autumn]]


def test_spans_touch_if_the_clock_skips_the_time_between_them():
    """At the clock change, one span has ended and the next has begun."""
    restrictions = daily(("02:40", 23 * HOUR + HOUR / 2))

    assert list_allowed(restrictions, "2026-03-28 12:00", "2026-03-30 12:00", "Europe/Berlin") == [
        "Sat 01:40 - Sun 01:00",
        "Sun 01:00 - Mon 00:10",
        "Mon 00:40 - Tue 00:10",
    ]
