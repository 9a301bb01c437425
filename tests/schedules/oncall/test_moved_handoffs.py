"""Tests of handoffs that clock changes move."""

import pytest

from schedules.oncall.local_time import get_zone, list_offsets
from schedules.oncall.moved_handoffs import find_moved_handoffs
from tests.support.schedules.facts import DAY, HOUR, WEEK, at, daily, layer, schedule, weekly

YEAR = (at("2026-01-10 00:00"), at("2027-01-10 00:00"))
# Handoffs at 22:00 in Berlin in winter.
START = "2026-01-05 21:00"
NIGHT = daily(("22:00", 8 * HOUR))
BECAUSE = "shift_time_in_dst of the schedule is false"


def find(*layers, span=YEAR, zone="Europe/Berlin", **options):
    return list(find_moved_handoffs(schedule(*layers, time_zone=zone, **options), *span))


def test_a_night_layer_whose_handoffs_move_is_a_problem_with_its_dates():
    (found,) = find(layer(start=START, **NIGHT))

    assert found.what == (
        "from Sun 29 Mar 2026 until Sun 25 Oct 2026 the handoffs of layer Layer-1 of Schedule are at 23:00"
        f" instead of 22:00: {BECAUSE}"
    )
    assert (found.start, found.end) == (at("2026-03-29 01:00"), at("2026-10-25 01:00"))
    assert (found.kind, found.minor) == ("handoffs_moved", False)


@pytest.mark.parametrize(
    ("given", "zone", "where"),
    [
        pytest.param({"start": START}, "Europe/Berlin", "at 23:00 instead of 22:00", id="days"),
        pytest.param(
            {"start": START, "length": WEEK}, "Europe/Berlin", "at 23:00 instead of 22:00", id="weeks"
        ),
        pytest.param(
            {"start": START, "length": 8 * HOUR}, "Europe/Berlin",
            "at 07:00, 15:00 and 23:00 instead of 06:00, 14:00 and 22:00", id="three a day",
        ),
        pytest.param(
            {"start": START, "length": HOUR}, "Europe/Berlin", "1 hour later than at its start", id="hours"
        ),
        pytest.param(
            {"start": START, "length": 30 * HOUR}, "Europe/Berlin", "1 hour later than at its start",
            id="no time of day",
        ),
        pytest.param(
            {"start": "2026-07-01 20:00"}, "Europe/Berlin", "at 21:00 instead of 22:00", id="since summer"
        ),
        pytest.param(
            {"start": "2026-01-05 21:00", "length": 5 * HOUR}, "Australia/Lord_Howe",
            "30 minutes earlier than at its start", id="half an hour",
        ),
    ],
)  # fmt: skip
def test_moved_handoffs_without_restrictions_are_minor(given, zone, where):
    (found,) = find(layer(**given), zone=zone)

    assert found.what.endswith(f"of layer Layer-1 of Schedule are {where}: {BECAUSE}")
    assert found.minor


@pytest.mark.parametrize(
    ("now", "dates"),
    [
        ("2026-03-20 00:00", "from Sun 29 Mar 2026 the handoffs"), ("2026-06-01 00:00", "the handoffs"),
        ("2026-10-10 00:00", "until Sun 25 Oct 2026 the handoffs"), ("2026-11-01 00:00", None),
    ],
)  # fmt: skip
def test_only_dates_within_the_checked_month_are_named(now, dates):
    found = find(layer(start=START, **NIGHT), span=(at(now), at(now) + 30 * DAY))

    assert [one.what.partition(" of layer")[0] for one in found] == [dates] * (dates is not None)


@pytest.mark.parametrize(
    ("layer_facts", "options"),
    [
        pytest.param(layer(start=START, **NIGHT), {"by_local_time": True}, id="local time"),
        pytest.param(layer(start=START, **NIGHT), {"zone": "UTC"}, id="a zone without clock changes"),
        pytest.param(layer("alice", START, **NIGHT), {}, id="one person"),
        pytest.param(layer("alice alice", START, **NIGHT), {}, id="one person twice"),
        pytest.param(layer("", START, **NIGHT), {}, id="nobody"),
        pytest.param(layer(start=START, end="2026-03-20 21:00", **NIGHT), {}, id="over before"),
        pytest.param(layer(start=START, **daily(("08:00", 10 * HOUR))), {}, id="handoffs at night"),
        pytest.param(
            layer(start="2026-01-04 23:00", length=WEEK, **weekly(("Fri 18:00", 48 * HOUR))), {},
            id="handoffs outside of the weekends",
        ),
        pytest.param(layer(start="2026-07-01 20:00", **NIGHT), {}, id="earlier than the night"),
        pytest.param(layer(start=START, length=365 * DAY, **NIGHT), {}, id="no handoff in summer"),
    ],
)  # fmt: skip
def test_what_changes_nobody_is_not_reported(layer_facts, options):
    assert find(layer_facts, **options) == []


def test_a_layer_that_begins_in_summer_is_moved_in_winter():
    """Until it begins, it has no handoffs."""
    found = find(layer(start="2026-07-01 10:00", **daily(("08:00", 10 * HOUR))))

    assert [(one.start, one.end) for one in found] == [(at("2026-10-25 01:00"), YEAR[1])]


@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("Europe/Berlin", ["2026-03-29 01:00", "2026-10-25 01:00"]),
        ("America/New_York", ["2026-03-08 07:00", "2026-11-01 06:00"]),
        ("Australia/Lord_Howe", ["2026-04-04 15:00", "2026-10-03 15:30"]), ("Asia/Kathmandu", []),
        # Ramadan, and the end of its summer time for ever.
        ("Africa/Casablanca", ["2026-02-15 02:00", "2026-03-22 02:00", "2026-09-20 01:00"]),
    ],
)  # fmt: skip
def test_offsets_change_with_the_clock(zone, changes):
    spans = list_offsets(get_zone(zone), *YEAR)

    assert [since for since, _, _ in spans] == [YEAR[0], *map(at, changes)]
    assert [until for _, until, _ in spans] == [*map(at, changes), YEAR[1]]


def test_a_clock_change_at_the_end_of_the_time_is_after_it():
    berlin, change = get_zone("Europe/Berlin"), at("2026-03-29 01:00")

    assert list_offsets(berlin, change - HOUR, change) == ((change - HOUR, change, HOUR),)
    assert list_offsets(berlin, change, change + HOUR) == ((change, change + HOUR, 2 * HOUR),)
