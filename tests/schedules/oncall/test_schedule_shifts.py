"""Tests of on-call people: random schedules compared with the minute model, and plain cases."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.domain.enums import RestrictionType
from models.domain.facts import LayerFacts, OverrideFacts, RestrictionFacts, ScheduleFacts
from models.domain.values import replace
from schedules.oncall import schedule_shifts
from schedules.oncall.local_time import get_zone
from schedules.oncall.schedule_shifts import join_shifts, list_on_call, list_shifts
from tests.support.scenarios.combinations import count_examples
from tests.support.schedules import minute_model
from tests.support.schedules.facts import (
    DAY,
    HOUR,
    MICROSECOND,
    WEEK,
    at,
    daily,
    layer,
    override,
    schedule,
    spans,
    weekly,
)

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)

# Zones, each with a moment of a clock change, or any moment for zones without changes.
CLOCKS = [
    ("UTC", at("2026-03-29 01:00")),
    ("Asia/Calcutta", at("2026-03-28 18:30")),
    ("Asia/Kathmandu", at("1985-12-31 18:30")),  # skips a quarter of an hour from midnight
    ("Europe/Berlin", at("2026-03-29 01:00")),
    ("Europe/Berlin", at("2026-10-25 01:00")),
    ("US/Eastern", at("2026-03-08 07:00")),
    ("US/Eastern", at("2026-11-01 06:00")),
    ("Australia/Lord_Howe", at("2026-04-04 15:00")),  # half an hour, as in October
    ("Australia/Lord_Howe", at("2026-10-03 15:30")),
    ("America/Santiago", at("2026-04-05 03:00")),  # 23:00 occurs twice on a Saturday
    ("America/Santiago", at("2026-09-06 04:00")),  # no Sunday midnight
    ("America/Havana", at("2026-11-01 05:00")),  # Sunday's midnight occurs twice
    ("Antarctica/Troll", at("2026-03-29 01:00")),  # two hours, as in October
    ("Antarctica/Troll", at("2026-10-25 01:00")),
    ("Antarctica/Casey", at("2018-03-10 17:00")),  # three hours occur twice
    ("Europe/Dublin", at("2026-10-25 01:00")),  # winter time is the daylight saving time
    ("Africa/Casablanca", at("2026-02-15 02:00")),  # back for a month, forward on 22 March
    ("Pacific/Apia", at("2011-12-30 10:00")),  # no Friday
]
USERS = ("alice", "bob", "charlie", "dora")


def durations_between(unit, minimum, maximum):
    return st.integers(minimum, maximum).map(lambda number: number * unit)


# Distances from the clock change: in minutes, in steps in which restrictions meet, or in microseconds.
long_gaps = st.one_of(
    durations_between(MINUTE, -36 * 60, 36 * 60),
    durations_between(5 * MINUTE, -4 * 12, 4 * 12),
    durations_between(MICROSECOND, -4 * 3_600_000_000, 4 * 3_600_000_000),
)
before = st.one_of(durations_between(5 * MINUTE, 0, 48 * 12), durations_between(SECOND, 0, 48 * 3600))
lengths = st.one_of(
    st.sampled_from([HOUR, 5 * HOUR + 37 * MINUTE, 12 * HOUR, DAY, 2 * DAY, WEEK, 365 * DAY]),
    durations_between(SECOND, 3600, 100_000),
    durations_between(SECOND, 3600, 31_536_000),
)
durations = st.one_of(
    durations_between(5 * MINUTE, 1, 36),
    durations_between(HOUR, 1, 26),
    st.sampled_from([SECOND, DAY, 2 * DAY + 12 * HOUR, WEEK - SECOND, WEEK]),
)


@st.composite
def restrictions(draw, zone, change):
    """Draw restrictions, often close to the local time of the clock change or next to each other."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        if found and draw(st.booleans()):
            day, begins = found[-1].day, found[-1].time_of_day + found[-1].duration
        else:
            time = minute_model.get_local_time(zone, change + draw(long_gaps)).replace(microsecond=0)
            day, begins = time.isoweekday(), time - time.replace(hour=0, minute=0, second=0)
        day = (day - 1 + begins // DAY) % 7 + 1
        found.append(RestrictionFacts(day, begins % DAY, draw(durations)))
    return tuple(found)


@st.composite
def layers(draw, number, zone, change):
    """Draw layers; most begin before the clock change, and some end."""
    length = draw(lengths)
    # The model counts turns one by one.
    long_ago = durations_between(DAY, 0, 400) if length > 4 * HOUR else st.just(timedelta())
    start = change - draw(long_ago) + draw(st.one_of(before.map(lambda ago: -ago), long_gaps))
    ends = st.one_of(st.none(), st.none(), long_gaps.map(lambda after: max(change + after, start + SECOND)))
    return LayerFacts(
        unique_id=f"layer-{number}",
        name=f"Layer-{number}",
        usernames=tuple(draw(st.lists(st.sampled_from(USERS), min_size=1, max_size=4))),
        shift_length=length,
        start=start,
        end=draw(ends),
        restriction_type=draw(st.sampled_from(RestrictionType)),
        restrictions=draw(restrictions(zone, change)),
    )


@st.composite
def overrides(draw, number, change):
    start, duration = change + draw(long_gaps), draw(st.one_of(durations_between(MINUTE, 1, 90), lengths))
    return OverrideFacts(
        f"override-{number}", "Override", draw(st.sampled_from(USERS)), start, start + duration
    )


@st.composite
def schedules_and_moments(draw, most_overrides=2):
    """Draw a schedule and a moment near a clock change or an edge of it."""
    zone, change = draw(st.sampled_from(CLOCKS))
    numbers = range(1, draw(st.integers(1, 3)) + 1)
    drawn_layers = tuple(draw(layers(number, zone, change)) for number in numbers)
    numbers = range(1, draw(st.integers(0, most_overrides)) + 1)
    overriding = tuple(draw(overrides(number, change)) for number in numbers)
    return ScheduleFacts(
        1, "schedule-1", "Schedule", zone, draw(st.booleans()), drawn_layers, overriding
    ), change


@st.composite
def schedules_and_times(draw, most_overrides=2):
    """Draw a schedule and a time, often with a clock change in it."""
    schedule_facts, change = draw(schedules_and_moments(most_overrides))
    start = change - draw(before)
    return (
        schedule_facts,
        start,
        start + draw(st.one_of(durations_between(HOUR, 1, 96), durations_between(SECOND, 1, 96 * 3600))),
    )


def names(found):
    return {(shift.username, shift.source.unique_id) for shift in found}


def list_overlapping(found, start, end):
    return [shift for shift in found if shift.start < end and shift.end > start]


bounded = settings(derandomize=True, database=None, deadline=None, max_examples=count_examples(200))


@bounded
@given(schedules_and_moments(), st.lists(long_gaps, min_size=1, max_size=12))
def test_on_call_people_equal_those_of_the_minute_model(schedule_and_change, offsets):
    schedule_facts, change = schedule_and_change
    for moment in (change + offset for offset in offsets):
        assert names(list_on_call(schedule_facts, moment)) == minute_model.on_call(schedule_facts, moment)


@bounded
@given(schedules_and_times())
def test_on_call_people_change_exactly_where_shifts_begin_or_end(question):
    schedule_facts, start, end = question
    found = list_shifts(schedule_facts, start, end)

    edges = sorted({edge for shift in found for edge in (shift.start, shift.end) if start <= edge < end})
    for edge in edges[:40]:
        for moment in (edge - SECOND, edge - MICROSECOND, edge, edge + SECOND):
            if start <= moment < end:
                expected_shifts = names(list_overlapping(found, moment, moment + MICROSECOND))
                assert (
                    expected_shifts
                    == names(list_on_call(schedule_facts, moment))
                    == minute_model.on_call(schedule_facts, moment)
                )


@bounded
@given(schedules_and_times())
def test_on_call_people_do_not_change_between_the_edges_of_shifts(question):
    schedule_facts, start, end = question
    found = list_shifts(schedule_facts, start, end)

    for moment in (start + (end - start) * part / 7 for part in range(7)):
        expected_shifts = list_overlapping(found, moment, moment + MICROSECOND)
        assert (
            names(expected_shifts)
            == names(list_on_call(schedule_facts, moment))
            == minute_model.on_call(schedule_facts, moment)
        )


@bounded
@given(schedules_and_times())
def test_a_shift_belongs_to_one_turn_and_is_as_long_as_possible(question):
    """A shift touches another of the same turn only if the clock skips the time between them."""
    schedule_facts, start, end = question
    for shift in [shift for shift in list_shifts(schedule_facts, start, end) if not shift.is_override][:20]:

        def get_turn(moment, source=shift.source):
            return [
                duty
                for duty in minute_model.list_duties(schedule_facts, moment)
                if duty[1] == source.unique_id
            ]

        last = shift.end - MICROSECOND
        middle = shift.start + (shift.end - shift.start) / 2
        assert get_turn(shift.start) == get_turn(middle) == get_turn(last) != []
        assert get_turn(shift.start) != get_turn(shift.start - MICROSECOND) or has_clock_change(
            schedule_facts, shift.start
        )
        assert get_turn(last) != get_turn(shift.end) or has_clock_change(schedule_facts, shift.end)


def has_clock_change(schedule_facts, moment):
    before, after = (
        minute_model.get_local_time(schedule_facts.time_zone, each) for each in (moment - MICROSECOND, moment)
    )
    return after - before > MICROSECOND


@bounded
@given(schedules_and_times(), st.integers(0, 100), st.integers(0, 100))
def test_shifts_do_not_depend_on_the_requested_time(question, one, other):
    schedule_facts, start, end = question
    first, last = sorted(start + (end - start) * part / 100 for part in (one, other))

    within = list_shifts(schedule_facts, first, last + MICROSECOND)

    assert within == list_overlapping(
        list_shifts(schedule_facts, start, end + MICROSECOND), first, last + MICROSECOND
    )


@bounded
@given(schedules_and_times())
def test_shifts_reach_into_the_requested_time_and_are_ordered_by_start(question):
    schedule_facts, start, end = question
    found = list_shifts(schedule_facts, start, end)
    place = [*schedule_facts.overrides, *schedule_facts.layers].index

    assert found == list_overlapping(found, start, end)
    assert found == sorted(found, key=lambda shift: (shift.start, place(shift.source), shift.end))
    assert all(shift.start < shift.end for shift in found)


@bounded
@given(schedules_and_times(most_overrides=6))
def test_overrides_in_force_replace_all_layers(question):
    schedule_facts, start, end = question
    found = list_shifts(schedule_facts, start, end)
    overriding = [shift for shift in found if shift.is_override]
    layer_shifts = [shift for shift in found if not shift.is_override]

    assert [shift.source for shift in overriding] == sorted(
        list_overlapping(schedule_facts.overrides, start, end), key=lambda each: each.start
    )
    assert all((shift.start, shift.end) == (shift.source.start, shift.source.end) for shift in overriding)
    assert not [
        shift for shift in layer_shifts if list_overlapping(schedule_facts.overrides, shift.start, shift.end)
    ]


@bounded
@given(schedules_and_times())
def test_layers_decide_while_no_override_is_in_force(question):
    schedule_facts, start, end = question
    alone = list_shifts(replace(schedule_facts, overrides=()), start, end)

    assert alone == sorted(
        schedule_shifts.list_layer_shifts(schedule_facts, start, end), key=lambda shift: shift.start
    )


@bounded
@given(schedules_and_times())
def test_joined_shifts_cover_the_same_time(question):
    schedule_facts, start, end = question
    found = list_shifts(schedule_facts, start, end)
    joined_shifts = join_shifts(found)

    assert get_total_time(joined_shifts) == get_total_time(found)
    assert all(
        before.end != after.start
        for key in get_total_time(found)
        for before, after in pairwise(group_by(key, joined_shifts))
    )
    assert [shift.start for shift in joined_shifts] == sorted(shift.start for shift in joined_shifts)


def group_by(key, found):
    return [shift for shift in found if (shift.username, shift.source) == key]


def get_total_time(found):
    """Return the total time of shifts by person and source."""
    keys = {(shift.username, shift.source) for shift in found}
    return {
        key: schedule_shifts.merge_spans((shift.start, shift.end) for shift in group_by(key, found))
        for key in keys
    }


# Plain cases in the local time of Berlin, one hour ahead of UTC, in the week from Monday 2 March 2026.

NIGHT_LAYER = daily(("22:00", 10 * HOUR))


def build_schedule(*layers, overrides=()):
    return schedule(*layers, time_zone="Europe/Berlin", overrides=overrides)


def format_shifts(schedule_facts, start="2026-03-02 08:00", end="2026-03-04 08:00"):
    return spans(list_shifts(schedule_facts, at(start), at(end)))


def list_on_call_users(schedule_facts, moment):
    return [shift.username for shift in list_on_call(schedule_facts, at(moment))]


MONDAYS = layer("alice bob", "2026-03-02 08:00")
ALWAYS = layer("charlie", "2026-03-01 00:00", length=WEEK, unique_id="layer-2")


def test_the_people_of_all_layers_are_on_call():
    assert list_on_call_users(build_schedule(MONDAYS, ALWAYS), "2026-03-02 12:00") == ["alice", "charlie"]
    assert list_on_call_users(build_schedule(ALWAYS, MONDAYS), "2026-03-02 12:00") == ["charlie", "alice"]


def test_a_person_in_two_layers_is_on_call_by_both():
    both = list_on_call(
        build_schedule(MONDAYS, replace(ALWAYS, usernames=("alice",))), at("2026-03-02 12:00")
    )

    assert names(both) == {("alice", "layer-1"), ("alice", "layer-2")}


@pytest.mark.parametrize(
    "schedule_facts",
    [
        build_schedule(),
        build_schedule(layer("")),
        build_schedule(layer(start="2026-03-02 12:01")),
        build_schedule(layer("alice", **NIGHT_LAYER)),
    ],
    ids=["without layers", "without people", "before the rotation", "outside the restrictions"],
)
def test_a_schedule_can_have_nobody_on_call(schedule_facts):
    assert list_on_call_users(schedule_facts, "2026-03-02 12:00") == []


def test_restrictions_shorten_turns_and_do_not_stop_the_rotation():
    assert format_shifts(build_schedule(replace(MONDAYS, **NIGHT_LAYER))) == [
        "03-02 21:00 - 03-03 07:00 alice",
        "03-03 21:00 - 03-04 07:00 bob",
    ]


def test_a_handoff_within_a_restriction_makes_two_shifts():
    midnights = layer("alice bob", "2026-03-01 23:00", **NIGHT_LAYER)

    assert format_shifts(build_schedule(midnights), "2026-03-02 12:00", "2026-03-03 12:00") == [
        "03-02 21:00 - 03-02 23:00 alice",
        "03-02 23:00 - 03-03 07:00 bob",
    ]


def test_a_turn_can_have_more_than_one_shift():
    weekdays = layer(
        "alice", "2026-03-02 00:00", length=WEEK, **weekly(("Mon 09:00", HOUR), ("Tue 09:00", HOUR))
    )

    assert format_shifts(build_schedule(weekdays)) == [
        "03-02 08:00 - 03-02 09:00 alice",
        "03-03 08:00 - 03-03 09:00 alice",
    ]


def test_an_override_replaces_all_layers_and_only_during_its_time():
    schedule_facts = build_schedule(
        MONDAYS, ALWAYS, overrides=[override("dora", "2026-03-02 12:00", "2026-03-02 14:00")]
    )

    assert format_shifts(schedule_facts, "2026-03-02 10:00", "2026-03-02 18:00") == [
        "03-01 00:00 - 03-02 12:00 charlie",
        "03-02 08:00 - 03-02 12:00 alice",
        "03-02 12:00 - 03-02 14:00 dora",
        "03-02 14:00 - 03-03 08:00 alice",
        "03-02 14:00 - 03-08 00:00 charlie",
    ]


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-03-02 11:59:59.999999", ["alice"]),
        ("2026-03-02 12:00", ["dora"]),
        ("2026-03-02 13:59:59.999999", ["dora"]),
        ("2026-03-02 14:00", ["alice"]),
    ],
)
def test_an_override_is_in_force_from_its_start_until_just_before_its_end(moment, expected):
    schedule_facts = build_schedule(
        MONDAYS, overrides=[override("dora", "2026-03-02 12:00", "2026-03-02 14:00")]
    )

    assert list_on_call_users(schedule_facts, moment) == expected


def test_an_override_fills_a_gap_of_the_layers():
    schedule_facts = build_schedule(overrides=[override("dora", "2026-03-02 12:00", "2026-03-02 14:00")])

    assert list_on_call_users(schedule_facts, "2026-03-02 13:00") == ["dora"]


def test_overlapping_overrides_are_both_in_force_in_their_stored_order():
    later = override("dora", "2026-03-02 13:00", "2026-03-02 15:00")
    sooner = override("bob", "2026-03-02 12:00", "2026-03-02 14:00", "override-2")
    schedule_facts = build_schedule(MONDAYS, overrides=[later, sooner])

    assert list_on_call_users(schedule_facts, "2026-03-02 13:30") == ["dora", "bob"]
    assert format_shifts(schedule_facts, "2026-03-02 10:00", "2026-03-02 18:00") == [
        "03-02 08:00 - 03-02 12:00 alice",
        "03-02 12:00 - 03-02 14:00 bob",
        "03-02 13:00 - 03-02 15:00 dora",
        "03-02 15:00 - 03-03 08:00 alice",
    ]


def test_overrides_that_touch_leave_no_gap():
    schedule_facts = build_schedule(
        MONDAYS,
        overrides=[
            override("dora", "2026-03-02 08:00", "2026-03-02 20:00"),
            override("dora", "2026-03-02 20:00", "2026-03-03 08:00", "override-2"),
        ],
    )

    assert format_shifts(schedule_facts, "2026-03-02 12:00", "2026-03-03 12:00") == [
        "03-02 08:00 - 03-02 20:00 dora",
        "03-02 20:00 - 03-03 08:00 dora",
        "03-03 08:00 - 03-04 08:00 bob",
    ]


def test_an_override_outside_the_requested_time_still_ends_a_shift():
    schedule_facts = build_schedule(
        MONDAYS, overrides=[override("dora", "2026-03-03 02:00", "2026-03-03 04:00")]
    )

    assert format_shifts(schedule_facts, "2026-03-02 12:00", "2026-03-02 13:00") == [
        "03-02 08:00 - 03-03 02:00 alice"
    ]
    assert format_shifts(schedule_facts, "2026-03-03 05:00", "2026-03-03 06:00") == [
        "03-03 04:00 - 03-03 08:00 alice"
    ]


def test_layer_shifts_ignore_overrides():
    schedule_facts = build_schedule(
        MONDAYS, ALWAYS, overrides=[override("dora", "2026-03-02 12:00", "2026-03-02 14:00")]
    )

    assert spans(
        schedule_shifts.list_layer_shifts(schedule_facts, at("2026-03-02 12:00"), at("2026-03-02 14:00"))
    ) == [
        "03-02 08:00 - 03-03 08:00 alice",
        "03-01 00:00 - 03-08 00:00 charlie",
    ]


@pytest.mark.parametrize(
    ("schedule_facts", "expected"),
    [
        (
            build_schedule(layer("alice bob bob", "2026-03-02 00:00", length=12 * HOUR)),
            ["03-02 00:00 - 03-02 12:00 alice", "03-02 12:00 - 03-03 12:00 bob"],
        ),
        (
            build_schedule(layer("alice", "2026-03-02 06:00", length=HOUR, end="2026-03-02 15:00")),
            ["03-02 08:00 - 03-02 15:00 alice"],
        ),
        (
            build_schedule(ALWAYS, overrides=[override("charlie", "2026-03-02 09:00", "2026-03-02 10:00")]),
            [
                "03-01 00:00 - 03-02 09:00 charlie",
                "03-02 09:00 - 03-02 10:00 charlie",
                "03-02 10:00 - 03-08 00:00 charlie",
            ],
        ),
    ],
    ids=["two turns in a row", "turn after turn", "an override is apart"],
)
def test_consecutive_turns_of_the_same_person_are_joined(schedule_facts, expected):
    assert (
        spans(join_shifts(list_shifts(schedule_facts, at("2026-03-02 08:00"), at("2026-03-03 08:00"))))
        == expected
    )


def test_layers_of_the_same_person_are_not_joined():
    second = layer("charlie", "2026-03-08 00:00", length=WEEK, unique_id="layer-3", end="2026-03-09 00:00")
    found = list_shifts(
        build_schedule(replace(ALWAYS, end=second.start), second),
        at("2026-03-02 00:00"),
        at("2026-03-10 00:00"),
    )

    assert join_shifts(found) == found


@pytest.mark.parametrize(
    ("alias", "name"), [("US/Eastern", "America/New_York"), ("Asia/Calcutta", "Asia/Kolkata")]
)
def test_a_zone_can_be_named_by_an_alias(alias, name):
    schedule_facts = schedule(replace(MONDAYS, **NIGHT_LAYER), time_zone=name, by_local_time=True)
    year = at("2026-03-02 00:00"), at("2027-03-02 00:00")

    assert list_shifts(replace(schedule_facts, time_zone=alias), *year) == list_shifts(schedule_facts, *year)


def test_a_rotation_of_a_hundred_years_is_computed_quickly():
    """The number of its 876,000 turns is computed by division."""
    hourly = layer("alice bob", "1926-03-02 00:00", length=HOUR, **NIGHT_LAYER)

    assert list_on_call_users(schedule(hourly), "2026-03-02 23:00") == ["bob"]
    assert list_on_call_users(schedule(hourly, by_local_time=True), "2026-03-02 22:00") == ["alice"]


def test_moments_can_be_given_in_any_time_zone():
    schedule_facts = build_schedule(replace(MONDAYS, **NIGHT_LAYER))
    start, end = at("2026-03-02 08:00"), at("2026-03-04 08:00")

    assert list_shifts(
        schedule_facts, *(each.astimezone(get_zone("Asia/Tokyo")) for each in (start, end))
    ) == list_shifts(schedule_facts, start, end)


def test_an_unknown_zone_counts_as_utc_so_that_somebody_is_paged():
    known, unknown = (schedule(layer(), time_zone=zone) for zone in ("UTC", "Mars/Olympus_Mons"))

    assert list_on_call(unknown, at("2026-03-04 12:00")) == list_on_call(known, at("2026-03-04 12:00")) != []
