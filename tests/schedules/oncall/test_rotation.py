"""Tests of the turns of a layer."""

from datetime import timedelta

import pytest

from schedules.oncall.local_time import get_zone
from schedules.oncall.rotation import list_turns
from tests.support.schedules.facts import DAY, HOUR, MICROSECOND, SECOND, WEEK, at, layer

BERLIN = get_zone("Europe/Berlin")


def format_turns(layer_facts, start, end, zone="UTC", by_local_time=False):
    """Return each turn as "01-05 09:00 alice"."""
    found = list(list_turns(layer_facts, get_zone(zone), by_local_time, at(start), at(end)))
    assert [until for _, _, until in found[:-1]] == [since for _, since, _ in found[1:]]
    return [f"{since:%m-%d %H:%M} {username}" for username, since, _ in found]


def get_user(layer_facts, moment, by_local_time=False):
    """Return the username of the turn at a moment, or None."""
    found = list(list_turns(layer_facts, BERLIN, by_local_time, moment, moment + MICROSECOND))
    return found[0][0] if found else None


@pytest.mark.parametrize(
    ("usernames", "expected"),
    [
        ("alice", ["01-05 09:00 alice", "01-06 09:00 alice", "01-07 09:00 alice", "01-08 09:00 alice"]),
        ("alice bob", ["01-05 09:00 alice", "01-06 09:00 bob", "01-07 09:00 alice", "01-08 09:00 bob"]),
        ("alice bob bob", ["01-05 09:00 alice", "01-06 09:00 bob", "01-07 09:00 bob", "01-08 09:00 alice"]),
        ("", []),
    ],
    ids=["one has every turn", "two take turns", "listed twice is two turns", "nobody takes none"],
)
def test_people_take_turns_in_the_order_of_the_list(usernames, expected):
    assert format_turns(layer(usernames), "2026-01-05 09:00", "2026-01-09 09:00") == expected


@pytest.mark.parametrize("by_local_time", [False, True], ids=["elapsed", "local"])
@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (HOUR, ["01-05 09:00 alice", "01-05 10:00 bob", "01-05 11:00 charlie"]),
        (5 * HOUR + timedelta(minutes=37), ["01-05 09:00 alice", "01-05 14:37 bob", "01-05 20:14 charlie"]),
        (WEEK, ["01-05 09:00 alice", "01-12 09:00 bob", "01-19 09:00 charlie"]),
        (365 * DAY, ["01-05 09:00 alice", "01-05 09:00 bob", "01-05 09:00 charlie"]),
    ],
    ids=["an hour", "5 h 37 min", "a week", "a year"],
)
def test_a_turn_can_have_any_length(length, expected, by_local_time):
    start = at("2026-01-05 09:00")
    found = list_turns(layer(length=length), get_zone("UTC"), by_local_time, start, start + 3 * length)

    assert [f"{since:%m-%d %H:%M} {username}" for username, since, _ in found] == expected


@pytest.mark.parametrize(
    ("moment", "username"),
    [
        (at("2026-01-05 09:00") - MICROSECOND, None),
        (at("2026-01-05 09:00"), "alice"),
        (at("2026-01-06 09:00") - MICROSECOND, "alice"),
        (at("2026-01-06 09:00"), "bob"),
        (at("2026-01-07 12:00") - MICROSECOND, "charlie"),
        (at("2026-01-07 12:00"), None),
        (at("2036-01-07 12:00"), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("by_local_time", [False, True], ids=["elapsed", "local"])
def test_a_turn_lasts_from_its_handoff_until_just_before_the_next_within_the_rotation(
    moment, username, by_local_time
):
    assert get_user(layer(end="2026-01-07 12:00"), moment, by_local_time) == username


def test_turns_that_reach_into_the_requested_time_are_whole():
    found = list_turns(layer(), BERLIN, False, at("2026-01-06 12:00"), at("2026-01-07 09:00") + SECOND)

    assert list(found) == [
        ("bob", at("2026-01-06 09:00"), at("2026-01-07 09:00")),
        ("charlie", at("2026-01-07 09:00"), at("2026-01-08 09:00")),
    ]


def test_a_turn_ends_with_the_rotation():
    found = list_turns(
        layer(end="2026-01-06 10:30"), BERLIN, False, at("2026-01-06 09:00"), at("2026-02-01 00:00")
    )

    assert list(found) == [("bob", at("2026-01-06 09:00"), at("2026-01-06 10:30"))]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-01-05 08:00", "2026-01-05 09:00"),
        ("2026-01-07 12:00", "2026-01-08 12:00"),
        ("2026-01-06 12:00", "2026-01-06 12:00"),
        ("2026-01-06 12:00", "2026-01-05 12:00"),
    ],
    ids=["before the rotation", "after it", "no time at all", "a time that ends before it begins"],
)
def test_a_layer_can_have_no_turns(start, end):
    assert format_turns(layer(end="2026-01-07 12:00"), start, end) == []


def test_a_rotation_that_ends_at_its_start_has_no_turn():
    assert format_turns(layer(end="2026-01-05 09:00"), "2026-01-05 00:00", "2026-01-06 00:00") == []


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
@pytest.mark.parametrize("by_local_time", [False, True], ids=["elapsed", "local"])
def test_a_rotation_can_begin_at_the_start_of_the_calendar(zone, by_local_time):
    """Programs write the first moment of the calendar to mean "always"."""
    since = layer("alice bob", "0001-01-01 00:00", length=HOUR)

    found = format_turns(since, "2026-03-04 12:00", "2026-03-04 14:00", zone, by_local_time)

    assert {line.split()[-1] for line in found} == {"alice", "bob"}
    assert len(found) in (2, 3)


def test_a_rotation_can_begin_at_the_end_of_the_calendar():
    assert get_user(layer(start="9999-12-31 23:59:59"), at("2026-03-04 12:00"), by_local_time=True) is None


def test_handoffs_keep_the_fraction_of_the_rotations_start():
    layer_facts = layer(start="2026-01-05 09:00:00.000001")

    assert [get_user(layer_facts, at("2026-03-30 08:00") + n * MICROSECOND, True) for n in (0, 1, 2)] == [
        "charlie", "alice", "alice",
    ]  # fmt: skip


# Berlin's clock goes back from 03:00 to 02:00 at 01:00 UTC on 25 October 2026, and forward on 29 March.
@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-10-25 00:30", ["10-25 00:30 alice", "10-25 02:30 bob", "10-25 03:30 charlie"]),
        ("2026-10-25 01:30", ["10-25 01:30 alice", "10-25 02:30 bob", "10-25 03:30 charlie"]),
        ("2026-10-25 01:00", ["10-25 01:00 alice", "10-25 02:00 bob", "10-25 03:00 charlie"]),
    ],
    ids=["the first of two half past two", "the second", "just after the clock was set back"],
)
def test_a_rotation_by_local_time_begins_at_its_exact_start(start, expected):
    assert (
        format_turns(layer(length=HOUR, start=start), start, "2026-10-25 04:00", BERLIN.key, True)[:3]
        == expected
    )


def test_a_turn_by_local_time_in_a_skipped_hour_is_left_out():
    """02:00 on 29 March would be Charlie's."""
    layer_facts = layer(length=HOUR, start="2026-03-28 23:00")

    assert format_turns(layer_facts, "2026-03-28 23:00", "2026-03-29 02:00", BERLIN.key, True) == [
        "03-28 23:00 alice",
        "03-29 00:00 bob",
        "03-29 01:00 alice",
    ]


def test_handoffs_by_local_time_before_a_repeated_start_are_over():
    """Casey's clock went back from 04:00 to 01:00 at 17:00 UTC.

    At the second 01:30, the handoffs of 02:30 and 03:30 are over.
    """
    layer_facts = layer(length=HOUR, start="2018-03-10 17:30")

    assert format_turns(layer_facts, "2018-03-10 12:00", "2018-03-10 22:00", "Antarctica/Casey", True) == [
        "03-10 17:30 charlie",
        "03-10 20:30 alice",
        "03-10 21:30 bob",
    ]


@pytest.mark.parametrize(
    ("moment", "username"),
    [
        ("2026-03-29 00:59:59", "bob"),
        ("2026-03-29 01:00", "alice"),
        ("2026-10-25 00:59:59", "charlie"),
        ("2026-10-25 01:00", "charlie"),
        ("2026-10-25 01:59:59", "charlie"),
        ("2026-10-25 02:00", "alice"),
    ],
    ids=[
        "before the skipped hour", "the person of the skipped hour has no turn",
        "the first of two hours", "the clock is set back", "the second of two hours", "the hour after",
    ],
)  # fmt: skip
def test_an_hour_by_local_time_belongs_to_one_person(moment, username):
    """Hourly turns begin at 00:00 on 29 March; in local time, 02:00 on 25 October is 5042 hours later."""
    assert get_user(layer(length=HOUR, start="2026-03-28 23:00"), at(moment), True) == username
