"""Handoffs in the nights of both clock changes of a year in each zone, listed by hand.

All times are in UTC. The clock changes, with local times:

    Australia/Lord_Howe  2026-04-04 15:00  02:00 +11:00 -> 01:30 +10:30  half an hour occurs twice
                         2026-10-03 15:30  02:00 +10:30 -> 02:30 +11:00  half an hour is skipped
    Pacific/Apia         2011-04-02 14:00  04:00 -10:00 -> 03:00 -11:00
                         2011-09-24 14:00  03:00 -11:00 -> 04:00 -10:00
                         2011-12-30 10:00  00:00 -10:00 -> 00:00 +14:00  Friday the 30th is skipped
    Asia/Kathmandu       never, +05:45
    America/New_York     2026-03-08 07:00  02:00 -05:00 -> 03:00 -04:00
                         2026-11-01 06:00  02:00 -04:00 -> 01:00 -05:00
    Europe/Berlin        2026-03-29 01:00  02:00 +01:00 -> 03:00 +02:00
                         2026-10-25 01:00  03:00 +02:00 -> 02:00 +01:00
    UTC                  never
"""

import pytest

from schedules.oncall.schedule_shifts import list_shifts
from tests.support.schedules.facts import DAY, HOUR, WEEK, at, daily, handoffs, layer, schedule, spans, weekly

BY_ELAPSED_TIME, BY_LOCAL_TIME = False, True
LORD_HOWE, APIA, KATHMANDU = "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"
NEW_YORK, BERLIN, UTC = "America/New_York", "Europe/Berlin", "UTC"


def list_handoffs(zone, by_local_time, schedule_facts, expected, year=2026):
    """Return the shifts from the start of the first expected one until just after the start of the last."""
    first, last = expected[0][:11], expected[-1][:11]
    start, end = at(f"{year}-{first}"), at(f"{year if first <= last else year + 1}-{last}")
    return list_shifts(
        schedule(schedule_facts, time_zone=zone, by_local_time=by_local_time), start, end + HOUR / 60
    )


# 09:00 on Monday 5 January 2026.
NINE = {
    LORD_HOWE: "2026-01-04 22:00",
    KATHMANDU: "2026-01-05 03:15",
    NEW_YORK: "2026-01-05 14:00",
    BERLIN: "2026-01-05 08:00",
    UTC: "2026-01-05 09:00",
}


@pytest.mark.parametrize(
    ("zone", "by_local_time", "expected"),
    [
        (
            LORD_HOWE,
            BY_LOCAL_TIME,
            "04-02 22:00 bob, 04-03 22:00 charlie, 04-04 22:30 alice, 04-05 22:30 bob",
        ),
        (
            LORD_HOWE,
            BY_LOCAL_TIME,
            "10-01 22:30 alice, 10-02 22:30 bob, 10-03 22:00 charlie, 10-04 22:00 alice",
        ),
        (
            LORD_HOWE,
            BY_ELAPSED_TIME,
            "04-02 22:00 bob, 04-03 22:00 charlie, 04-04 22:00 alice, 04-05 22:00 bob",
        ),
        (LORD_HOWE, BY_ELAPSED_TIME, "10-02 22:00 bob, 10-03 22:00 charlie, 10-04 22:00 alice"),
        (KATHMANDU, BY_LOCAL_TIME, "03-28 03:15 bob, 03-29 03:15 charlie, 03-30 03:15 alice"),
        (KATHMANDU, BY_LOCAL_TIME, "10-24 03:15 bob, 10-25 03:15 charlie, 10-26 03:15 alice"),
        (KATHMANDU, BY_ELAPSED_TIME, "03-28 03:15 bob, 03-29 03:15 charlie, 03-30 03:15 alice"),
        (KATHMANDU, BY_ELAPSED_TIME, "10-24 03:15 bob, 10-25 03:15 charlie, 10-26 03:15 alice"),
        (
            NEW_YORK,
            BY_LOCAL_TIME,
            "03-06 14:00 alice, 03-07 14:00 bob, 03-08 13:00 charlie, 03-09 13:00 alice",
        ),
        (NEW_YORK, BY_LOCAL_TIME, "10-30 13:00 bob, 10-31 13:00 charlie, 11-01 14:00 alice, 11-02 14:00 bob"),
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            "03-06 14:00 alice, 03-07 14:00 bob, 03-08 14:00 charlie, 03-09 14:00 alice",
        ),
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            "10-30 14:00 bob, 10-31 14:00 charlie, 11-01 14:00 alice, 11-02 14:00 bob",
        ),
        (BERLIN, BY_LOCAL_TIME, "03-27 08:00 alice, 03-28 08:00 bob, 03-29 07:00 charlie, 03-30 07:00 alice"),
        (BERLIN, BY_LOCAL_TIME, "10-23 07:00 alice, 10-24 07:00 bob, 10-25 08:00 charlie, 10-26 08:00 alice"),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            "03-27 08:00 alice, 03-28 08:00 bob, 03-29 08:00 charlie, 03-30 08:00 alice",
        ),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            "10-23 08:00 alice, 10-24 08:00 bob, 10-25 08:00 charlie, 10-26 08:00 alice",
        ),
        (UTC, BY_LOCAL_TIME, "03-28 09:00 bob, 03-29 09:00 charlie, 03-30 09:00 alice"),
        (UTC, BY_ELAPSED_TIME, "10-24 09:00 bob, 10-25 09:00 charlie, 10-26 09:00 alice"),
    ],
)
def test_daily_turns_hand_off_at_the_listed_times(zone, by_local_time, expected):
    expected = expected.split(", ")

    assert expected == handoffs(list_handoffs(zone, by_local_time, layer(start=NINE[zone]), expected))


@pytest.mark.parametrize(
    ("zone", "by_local_time", "expected"),
    [
        (LORD_HOWE, BY_LOCAL_TIME, "03-29 22:00 alice, 04-05 22:30 bob, 04-12 22:30 charlie"),
        (LORD_HOWE, BY_LOCAL_TIME, "09-27 22:30 charlie, 10-04 22:00 alice, 10-11 22:00 bob"),
        (LORD_HOWE, BY_ELAPSED_TIME, "03-29 22:00 alice, 04-05 22:00 bob, 04-12 22:00 charlie"),
        (LORD_HOWE, BY_ELAPSED_TIME, "09-27 22:00 charlie, 10-04 22:00 alice, 10-11 22:00 bob"),
        (KATHMANDU, BY_LOCAL_TIME, "03-23 03:15 charlie, 03-30 03:15 alice, 04-06 03:15 bob"),
        (KATHMANDU, BY_ELAPSED_TIME, "10-19 03:15 charlie, 10-26 03:15 alice, 11-02 03:15 bob"),
        (NEW_YORK, BY_LOCAL_TIME, "03-02 14:00 charlie, 03-09 13:00 alice, 03-16 13:00 bob"),
        (NEW_YORK, BY_LOCAL_TIME, "10-26 13:00 alice, 11-02 14:00 bob, 11-09 14:00 charlie"),
        (NEW_YORK, BY_ELAPSED_TIME, "03-02 14:00 charlie, 03-09 14:00 alice, 03-16 14:00 bob"),
        (NEW_YORK, BY_ELAPSED_TIME, "10-26 14:00 alice, 11-02 14:00 bob, 11-09 14:00 charlie"),
        (BERLIN, BY_LOCAL_TIME, "03-23 08:00 charlie, 03-30 07:00 alice, 04-06 07:00 bob"),
        (BERLIN, BY_LOCAL_TIME, "10-19 07:00 charlie, 10-26 08:00 alice, 11-02 08:00 bob"),
        (BERLIN, BY_ELAPSED_TIME, "03-23 08:00 charlie, 03-30 08:00 alice, 04-06 08:00 bob"),
        (BERLIN, BY_ELAPSED_TIME, "10-19 08:00 charlie, 10-26 08:00 alice, 11-02 08:00 bob"),
        (UTC, BY_LOCAL_TIME, "03-23 09:00 charlie, 03-30 09:00 alice, 04-06 09:00 bob"),
        (UTC, BY_ELAPSED_TIME, "10-19 09:00 charlie, 10-26 09:00 alice, 11-02 09:00 bob"),
    ],
)
def test_weekly_turns_hand_off_at_the_listed_times(zone, by_local_time, expected):
    expected = expected.split(", ")

    assert expected == handoffs(
        list_handoffs(zone, by_local_time, layer(start=NINE[zone], length=WEEK), expected)
    )


# From midnight in local time.
@pytest.mark.parametrize(
    ("zone", "by_local_time", "expected"),
    [
        # 01:00 lasts for 90 minutes, since its second half occurs twice.
        (
            LORD_HOWE,
            BY_LOCAL_TIME,
            "04-04 13:00 alice, 04-04 14:00 bob, 04-04 15:30 charlie, 04-04 16:30 alice",
        ),
        (
            LORD_HOWE,
            BY_ELAPSED_TIME,
            "04-04 13:00 alice, 04-04 14:00 bob, 04-04 15:00 charlie, 04-04 16:00 alice",
        ),
        # 02:00 lasts for half an hour.
        (
            LORD_HOWE,
            BY_LOCAL_TIME,
            "10-03 13:30 alice, 10-03 14:30 bob, 10-03 15:30 charlie, 10-03 16:00 alice",
        ),
        (
            LORD_HOWE,
            BY_ELAPSED_TIME,
            "10-03 13:30 alice, 10-03 14:30 bob, 10-03 15:30 charlie, 10-03 16:30 alice",
        ),
        (
            KATHMANDU,
            BY_LOCAL_TIME,
            "03-28 18:15 alice, 03-28 19:15 bob, 03-28 20:15 charlie, 03-28 21:15 alice",
        ),
        (
            KATHMANDU,
            BY_ELAPSED_TIME,
            "10-24 18:15 alice, 10-24 19:15 bob, 10-24 20:15 charlie, 10-24 21:15 alice",
        ),
        # 02:00, which would be Charlie's handoff, is skipped.
        (NEW_YORK, BY_LOCAL_TIME, "03-08 05:00 alice, 03-08 06:00 bob, 03-08 07:00 alice, 03-08 08:00 bob"),
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            "03-08 05:00 alice, 03-08 06:00 bob, 03-08 07:00 charlie, 03-08 08:00 alice",
        ),
        # 01:00 occurs twice.
        (
            NEW_YORK,
            BY_LOCAL_TIME,
            "11-01 04:00 alice, 11-01 05:00 bob, 11-01 07:00 charlie, 11-01 08:00 alice",
        ),
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            "11-01 04:00 alice, 11-01 05:00 bob, 11-01 06:00 charlie, 11-01 07:00 alice",
        ),
        # 02:00 is skipped.
        (BERLIN, BY_LOCAL_TIME, "03-28 23:00 alice, 03-29 00:00 bob, 03-29 01:00 alice, 03-29 02:00 bob"),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            "03-28 23:00 alice, 03-29 00:00 bob, 03-29 01:00 charlie, 03-29 02:00 alice",
        ),
        # 02:00 occurs twice.
        (BERLIN, BY_LOCAL_TIME, "10-24 22:00 alice, 10-24 23:00 bob, 10-25 00:00 charlie, 10-25 02:00 alice"),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            "10-24 22:00 alice, 10-24 23:00 bob, 10-25 00:00 charlie, 10-25 01:00 alice",
        ),
        (UTC, BY_LOCAL_TIME, "03-29 00:00 alice, 03-29 01:00 bob, 03-29 02:00 charlie, 03-29 03:00 alice"),
        (UTC, BY_ELAPSED_TIME, "10-25 00:00 alice, 10-25 01:00 bob, 10-25 02:00 charlie, 10-25 03:00 alice"),
    ],
)
def test_hourly_turns_over_a_clock_change(zone, by_local_time, expected):
    expected = expected.split(", ")
    from_midnight = layer(start=f"2026-{expected[0][:11]}", length=HOUR)

    assert expected == handoffs(list_handoffs(zone, by_local_time, from_midnight, expected))


# From 09:00 on Monday 3 January, and on Monday 26 December.
JANUARY, DECEMBER = "2011-01-03 19:00", "2011-12-26 19:00"


@pytest.mark.parametrize(
    ("by_local_time", "start", "length", "expected"),
    [
        # Back from 04:00 to 03:00 on 2 April, and forward at 03:00 on 24 September.
        (BY_LOCAL_TIME, JANUARY, DAY, "04-01 19:00 bob, 04-02 20:00 charlie, 04-03 20:00 alice"),
        (BY_ELAPSED_TIME, JANUARY, DAY, "04-01 19:00 bob, 04-02 19:00 charlie, 04-03 19:00 alice"),
        (
            BY_LOCAL_TIME,
            JANUARY,
            DAY,
            "09-22 20:00 bob, 09-23 20:00 charlie, 09-24 19:00 alice, 09-25 19:00 bob",
        ),
        (BY_ELAPSED_TIME, JANUARY, DAY, "09-23 19:00 charlie, 09-24 19:00 alice, 09-25 19:00 bob"),
        # Bob's turn lasts from the 30th, 09:00, which is the clock change, until the 31st, 09:00.
        (
            BY_LOCAL_TIME,
            DECEMBER,
            DAY,
            "12-29 19:00 alice, 12-30 10:00 bob, 12-30 19:00 charlie, 12-31 19:00 alice",
        ),
        (BY_ELAPSED_TIME, DECEMBER, DAY, "12-28 19:00 charlie, 12-29 19:00 alice, 12-30 19:00 bob"),
        # A week of six days; by elapsed time it ends on a Tuesday.
        (
            BY_LOCAL_TIME,
            JANUARY,
            WEEK,
            "12-19 19:00 charlie, 12-26 19:00 alice, 01-01 19:00 bob, 01-08 19:00 charlie",
        ),
        (BY_ELAPSED_TIME, JANUARY, WEEK, "12-19 19:00 charlie, 12-26 19:00 alice, 01-02 19:00 bob"),
    ],
)
def test_turns_in_the_year_in_which_apia_skipped_a_day(by_local_time, start, length, expected):
    expected = expected.split(", ")

    assert expected == handoffs(
        list_handoffs(APIA, by_local_time, layer(start=start, length=length), expected, 2011)
    )


@pytest.mark.parametrize(
    ("by_local_time", "expected"),
    [
        # In local time, the hour from midnight on the 31st is the 27th after 22:00 on the 29th: Bob's again.
        (BY_LOCAL_TIME, "12-30 08:00 alice, 12-30 09:00 bob, 12-30 10:00 bob, 12-30 11:00 charlie"),
        (BY_ELAPSED_TIME, "12-30 08:00 alice, 12-30 09:00 bob, 12-30 10:00 charlie, 12-30 11:00 dora"),
    ],
)
def test_hourly_turns_in_the_night_in_which_apia_skipped_a_day(by_local_time, expected):
    expected = expected.split(", ")
    schedule_facts = layer("alice bob charlie dora eve", "2011-12-30 08:00", length=HOUR)

    assert expected == handoffs(list_handoffs(APIA, by_local_time, schedule_facts, expected, 2011))


# 22:00 on Monday 5 January 2026, or 26 December 2011.
TEN_AT_NIGHT = {
    LORD_HOWE: "2026-01-05 11:00",
    APIA: "2011-12-27 08:00",
    KATHMANDU: "2026-01-05 16:15",
    NEW_YORK: "2026-01-06 03:00",
    BERLIN: "2026-01-05 21:00",
    UTC: "2026-01-05 22:00",
}


@pytest.mark.parametrize(
    ("zone", "by_local_time", "expected"),
    [
        (LORD_HOWE, BY_LOCAL_TIME, ["04-04 11:00 - 04-04 21:30 charlie", "04-05 11:30 - 04-05 21:30 alice"]),
        (LORD_HOWE, BY_LOCAL_TIME, ["10-03 11:30 - 10-03 21:00 bob", "10-04 11:00 - 10-04 21:00 charlie"]),
        (
            LORD_HOWE,
            BY_ELAPSED_TIME,
            ["04-04 11:00 - 04-04 21:30 charlie", "04-05 11:30 - 04-05 21:30 alice"],
        ),
        (LORD_HOWE, BY_ELAPSED_TIME, ["10-03 11:30 - 10-03 21:00 bob", "10-04 11:00 - 10-04 21:00 charlie"]),
        # At the clock change, the night to the 30th ends and the night to the 31st begins.
        (
            APIA,
            BY_LOCAL_TIME,
            [
                "12-29 08:00 - 12-29 18:00 charlie",
                "12-30 08:00 - 12-30 10:00 alice",
                "12-30 10:00 - 12-30 18:00 bob",
                "12-31 08:00 - 12-31 18:00 charlie",
            ],
        ),
        (
            APIA,
            BY_ELAPSED_TIME,
            [
                "12-29 08:00 - 12-29 18:00 charlie",
                "12-30 08:00 - 12-30 10:00 alice",
                "12-30 10:00 - 12-30 18:00 alice",
                "12-31 08:00 - 12-31 18:00 bob",
            ],
        ),
        (KATHMANDU, BY_LOCAL_TIME, ["03-28 16:15 - 03-29 02:15 bob", "03-29 16:15 - 03-30 02:15 charlie"]),
        (KATHMANDU, BY_ELAPSED_TIME, ["10-24 16:15 - 10-25 02:15 bob", "10-25 16:15 - 10-26 02:15 charlie"]),
        (NEW_YORK, BY_LOCAL_TIME, ["03-08 03:00 - 03-08 12:00 bob", "03-09 02:00 - 03-09 12:00 charlie"]),
        (NEW_YORK, BY_LOCAL_TIME, ["11-01 02:00 - 11-01 13:00 charlie", "11-02 03:00 - 11-02 13:00 alice"]),
        # In summer, turns end at 23:00.
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            [
                "03-08 03:00 - 03-08 12:00 bob",
                "03-09 02:00 - 03-09 03:00 bob",
                "03-09 03:00 - 03-09 12:00 charlie",
            ],
        ),
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            [
                "11-01 02:00 - 11-01 03:00 bob",
                "11-01 03:00 - 11-01 13:00 charlie",
                "11-02 03:00 - 11-02 13:00 alice",
            ],
        ),
        (BERLIN, BY_LOCAL_TIME, ["03-28 21:00 - 03-29 06:00 bob", "03-29 20:00 - 03-30 06:00 charlie"]),
        (BERLIN, BY_LOCAL_TIME, ["10-24 20:00 - 10-25 07:00 bob", "10-25 21:00 - 10-26 07:00 charlie"]),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            [
                "03-28 21:00 - 03-29 06:00 bob",
                "03-29 20:00 - 03-29 21:00 bob",
                "03-29 21:00 - 03-30 06:00 charlie",
            ],
        ),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            [
                "10-24 20:00 - 10-24 21:00 alice",
                "10-24 21:00 - 10-25 07:00 bob",
                "10-25 21:00 - 10-26 07:00 charlie",
            ],
        ),
        (UTC, BY_LOCAL_TIME, ["03-28 22:00 - 03-29 08:00 bob", "03-29 22:00 - 03-30 08:00 charlie"]),
        (UTC, BY_ELAPSED_TIME, ["10-24 22:00 - 10-25 08:00 bob", "10-25 22:00 - 10-26 08:00 charlie"]),
    ],
)
def test_night_restrictions_over_clock_changes(zone, by_local_time, expected):
    night_layer = layer(start=TEN_AT_NIGHT[zone], **daily(("22:00", 10 * HOUR)))

    assert expected == spans(
        list_handoffs(zone, by_local_time, night_layer, expected, 2011 if zone == APIA else 2026)
    )


# 18:00 on Friday 9 January 2026, or 7 January 2011.
FRIDAY = {
    LORD_HOWE: "2026-01-09 07:00",
    APIA: "2011-01-08 04:00",
    KATHMANDU: "2026-01-09 12:15",
    NEW_YORK: "2026-01-09 23:00",
    BERLIN: "2026-01-09 17:00",
    UTC: "2026-01-09 18:00",
}


@pytest.mark.parametrize(
    ("zone", "by_local_time", "expected"),
    [
        (LORD_HOWE, BY_LOCAL_TIME, ["04-03 07:00 - 04-05 19:30 alice", "04-10 07:30 - 04-12 19:30 bob"]),
        (LORD_HOWE, BY_LOCAL_TIME, ["10-02 07:30 - 10-04 19:00 charlie", "10-09 07:00 - 10-11 19:00 alice"]),
        (LORD_HOWE, BY_ELAPSED_TIME, ["04-03 07:00 - 04-05 19:30 alice", "04-10 07:30 - 04-12 19:30 bob"]),
        (
            LORD_HOWE,
            BY_ELAPSED_TIME,
            ["10-02 07:30 - 10-04 19:00 charlie", "10-09 07:00 - 10-11 19:00 alice"],
        ),
        # Friday is skipped, so the shift of its evening begins with Saturday.
        (APIA, BY_LOCAL_TIME, ["12-24 04:00 - 12-26 16:00 charlie", "12-30 10:00 - 01-01 16:00 alice"]),
        (
            APIA,
            BY_ELAPSED_TIME,
            [
                "12-24 04:00 - 12-26 16:00 charlie",
                "12-30 10:00 - 12-31 04:00 charlie",
                "12-31 04:00 - 01-01 16:00 alice",
            ],
        ),
        (KATHMANDU, BY_LOCAL_TIME, ["03-27 12:15 - 03-30 00:15 charlie", "04-03 12:15 - 04-06 00:15 alice"]),
        (
            KATHMANDU,
            BY_ELAPSED_TIME,
            ["10-23 12:15 - 10-26 00:15 charlie", "10-30 12:15 - 11-02 00:15 alice"],
        ),
        (NEW_YORK, BY_LOCAL_TIME, ["03-06 23:00 - 03-09 10:00 charlie", "03-13 22:00 - 03-16 10:00 alice"]),
        (NEW_YORK, BY_LOCAL_TIME, ["10-30 22:00 - 11-02 11:00 alice", "11-06 23:00 - 11-09 11:00 bob"]),
        # In summer, turns end at 19:00.
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            [
                "03-06 23:00 - 03-09 10:00 charlie",
                "03-13 22:00 - 03-13 23:00 charlie",
                "03-13 23:00 - 03-16 10:00 alice",
            ],
        ),
        (
            NEW_YORK,
            BY_ELAPSED_TIME,
            [
                "10-30 22:00 - 10-30 23:00 charlie",
                "10-30 23:00 - 11-02 11:00 alice",
                "11-06 23:00 - 11-09 11:00 bob",
            ],
        ),
        (BERLIN, BY_LOCAL_TIME, ["03-27 17:00 - 03-30 04:00 charlie", "04-03 16:00 - 04-06 04:00 alice"]),
        (BERLIN, BY_LOCAL_TIME, ["10-23 16:00 - 10-26 05:00 charlie", "10-30 17:00 - 11-02 05:00 alice"]),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            [
                "03-27 17:00 - 03-30 04:00 charlie",
                "04-03 16:00 - 04-03 17:00 charlie",
                "04-03 17:00 - 04-06 04:00 alice",
            ],
        ),
        (
            BERLIN,
            BY_ELAPSED_TIME,
            [
                "10-23 16:00 - 10-23 17:00 bob",
                "10-23 17:00 - 10-26 05:00 charlie",
                "10-30 17:00 - 11-02 05:00 alice",
            ],
        ),
        (UTC, BY_LOCAL_TIME, ["03-27 18:00 - 03-30 06:00 charlie", "04-03 18:00 - 04-06 06:00 alice"]),
        (UTC, BY_ELAPSED_TIME, ["10-23 18:00 - 10-26 06:00 charlie", "10-30 18:00 - 11-02 06:00 alice"]),
    ],
)
def test_weekend_restrictions_over_clock_changes(zone, by_local_time, expected):
    weekends = layer(start=FRIDAY[zone], length=WEEK, **weekly(("Fri 18:00", 60 * HOUR)))

    assert expected == spans(
        list_handoffs(zone, by_local_time, weekends, expected, 2011 if zone == APIA else 2026)
    )


@pytest.mark.parametrize("by_local_time", [BY_ELAPSED_TIME, BY_LOCAL_TIME], ids=["elapsed", "local"])
@pytest.mark.parametrize(
    ("zone", "restriction", "expected"),
    [
        pytest.param(
            LORD_HOWE,
            daily(("02:05", HOUR / 3)),
            ["10-02 15:35 - 10-02 15:55", "10-04 15:05 - 10-04 15:25"],
            id="within half an hour that is skipped",
        ),
        pytest.param(
            LORD_HOWE,
            daily(("01:35", HOUR / 3)),
            ["04-03 14:35 - 04-03 14:55", "04-04 14:35 - 04-04 14:55", "04-05 15:05 - 04-05 15:25"],
            id="within half an hour that is doubled",
        ),
        pytest.param(
            NEW_YORK,
            daily(("02:15", HOUR / 2)),
            ["03-07 07:15 - 03-07 07:45", "03-09 06:15 - 03-09 06:45"],
            id="within New York's skipped hour",
        ),
        pytest.param(
            NEW_YORK,
            daily(("01:15", HOUR / 2)),
            ["10-31 05:15 - 10-31 05:45", "11-01 05:15 - 11-01 05:45", "11-02 06:15 - 11-02 06:45"],
            id="within New York's doubled hour",
        ),
        pytest.param(
            BERLIN,
            daily(("02:15", HOUR / 2)),
            ["03-28 01:15 - 03-28 01:45", "03-30 00:15 - 03-30 00:45"],
            id="within Berlin's skipped hour",
        ),
        pytest.param(
            BERLIN,
            daily(("02:15", HOUR / 2)),
            ["10-24 00:15 - 10-24 00:45", "10-25 00:15 - 10-25 00:45", "10-26 01:15 - 10-26 01:45"],
            id="within Berlin's doubled hour",
        ),
        pytest.param(
            BERLIN,
            daily(("02:00", HOUR)),
            ["03-28 01:00 - 03-28 02:00", "03-30 00:00 - 03-30 01:00"],
            id="just the skipped hour",
        ),
        pytest.param(
            BERLIN,
            daily(("02:00", HOUR)),
            ["10-24 00:00 - 10-24 01:00", "10-25 00:00 - 10-25 02:00", "10-26 01:00 - 10-26 02:00"],
            id="just the doubled hour",
        ),
        pytest.param(
            KATHMANDU,
            daily(("02:15", HOUR / 2)),
            ["03-27 20:30 - 03-27 21:00", "03-28 20:30 - 03-28 21:00", "03-29 20:30 - 03-29 21:00"],
            id="where no hour is",
        ),
        pytest.param(
            UTC,
            daily(("02:15", HOUR / 2)),
            ["10-24 02:15 - 10-24 02:45", "10-25 02:15 - 10-25 02:45", "10-26 02:15 - 10-26 02:45"],
            id="where time is counted",
        ),
    ],
)
def test_restrictions_within_the_hour_of_a_clock_change(zone, restriction, expected, by_local_time):
    alone = layer("alice", "2025-12-01 00:00", length=365 * DAY, **restriction)

    assert [f"{span} alice" for span in expected] == spans(
        list_handoffs(zone, by_local_time, alone, expected)
    )


@pytest.mark.parametrize("by_local_time", [BY_ELAPSED_TIME, BY_LOCAL_TIME], ids=["elapsed", "local"])
@pytest.mark.parametrize(
    ("restriction", "expected"),
    [
        (weekly(("Fri 09:00", 8 * HOUR)), ["12-23 19:00 - 12-24 03:00", "01-05 19:00 - 01-06 03:00"]),
        (daily(("09:00", 8 * HOUR)), ["12-29 19:00 - 12-30 03:00", "12-30 19:00 - 12-31 03:00"]),
        (
            daily(("03:15", HOUR / 2)),
            ["04-01 13:15 - 04-01 13:45", "04-02 13:15 - 04-02 13:45", "04-03 14:15 - 04-03 14:45"],
        ),
        (
            daily(("03:15", HOUR / 2)),
            ["09-22 14:15 - 09-22 14:45", "09-23 14:15 - 09-23 14:45", "09-25 13:15 - 09-25 13:45"],
        ),
    ],
    ids=[
        "no Friday",
        "office hours",
        "within the doubled hour of April",
        "within the skipped hour of September",
    ],
)
def test_restrictions_in_the_year_in_which_apia_skipped_a_day(restriction, expected, by_local_time):
    alone = layer("alice", "2011-03-01 00:00", length=365 * DAY, **restriction)

    assert [f"{span} alice" for span in expected] == spans(
        list_handoffs(APIA, by_local_time, alone, expected, 2011)
    )
