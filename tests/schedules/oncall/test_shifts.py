"""Tests of shifts over a time, work limits, handoffs, and people displaced by overrides."""

from datetime import timedelta

import pytest

from models.domain.values import replace
from schedules.oncall import shifts
from schedules.oncall.schedule_shifts import list_layer_shifts, list_on_call, list_shifts
from schedules.oncall.shifts import (
    MAX_SPANS,
    MAX_WORK,
    estimate_work,
    extend_shifts,
    find_displaced,
    fit_end,
    list_joined_shifts,
    share_work,
)
from tests.support.schedules.facts import DAY, HOUR, WEEK, at, daily, layer, override, schedule, weekly

NAMES = {name.lower(): name for name in ("Alice", "Bob", "Charlie")}
START, END = at("2026-03-02 00:00"), at("2026-03-09 00:00")
NIGHT_HOURS = daily(("20:00", 12 * HOUR))


def test_a_current_shift_ends_when_another_person_takes_over():
    of = schedule(
        layer("alice bob", start="2026-03-02 00:00"),
        layer("charlie", unique_id="layer-2"),
        overrides=[override("bob", "2026-03-02 18:00", "2026-03-02 20:00")],
    )
    now, until = at("2026-03-02 12:00"), at("2026-03-03 12:00")
    found = list_joined_shifts(of, now, until, NAMES)

    assert [(one.shift.username, one.until) for one in shifts.list_current(of, now, found, until)] == [
        ("alice", at("2026-03-02 18:00")),
        ("charlie", at("2026-03-02 18:00")),
    ]
    later = at("2026-03-02 21:00")
    assert [
        (one.shift.username, one.until)
        for one in shifts.list_current(of, later, list_joined_shifts(of, later, until, NAMES), until)
    ] == [("alice", at("2026-03-03 00:00")), ("charlie", None)]
    (alices_shift, *_) = shifts.list_current(of, later, list_joined_shifts(of, later, until, NAMES), until)
    assert alices_shift.shift.start == at("2026-03-02 20:00")


def handoff(of, now, until):
    return shifts.find_handoff(list_joined_shifts(of, now, until, NAMES), now, until)


def test_a_handoff_is_a_change_of_the_people_on_call():
    two_layers = schedule(
        layer("alice alice bob", start="2026-03-02 00:00"),
        layer("bob alice charlie", start="2026-03-02 00:00", unique_id="layer-2"),
    )

    # On the second day Alice has both turns, and Bob has none.
    assert handoff(two_layers, START, END) == at("2026-03-03 00:00")


def test_a_change_of_layers_with_the_same_people_is_no_handoff():
    two_layers = schedule(
        layer("alice bob", start="2026-03-02 00:00"),
        layer("bob alice", start="2026-03-02 00:00", unique_id="layer-2"),
    )

    assert handoff(two_layers, START, END) is None


def test_a_change_to_or_from_nobody_is_a_handoff():
    night_schedule = schedule(layer("alice", **NIGHT_HOURS))

    assert handoff(night_schedule, at("2026-03-02 21:00"), END) == at("2026-03-03 08:00")
    assert handoff(night_schedule, at("2026-03-02 08:00"), END) == at("2026-03-02 20:00")
    assert handoff(night_schedule, at("2026-03-02 08:00"), at("2026-03-02 20:00")) is None


RESTRICTED = weekly(*((f"{day} 08:00", 10 * HOUR) for day in ("Mon", "Tue", "Wed", "Thu", "Fri")))


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(schedule(layer(length=HOUR)), id="hourly"),
        pytest.param(schedule(layer(length=HOUR), time_zone="Europe/Berlin", by_local_time=True), id="local"),
        pytest.param(schedule(layer(length=WEEK, **NIGHT_HOURS)), id="nights"),
        pytest.param(schedule(layer(length=3 * HOUR, **RESTRICTED), layer("alice")), id="office hours"),
        pytest.param(schedule(layer(end="2026-03-03 00:00"), layer(start="2026-03-08 00:00")), id="short"),
    ],
)
@pytest.mark.parametrize("length", [HOUR, DAY, 30 * DAY, 366 * DAY], ids=str)
def test_the_work_is_never_more_than_the_estimate(of, length):
    found = len(list_layer_shifts(of, START, START + length))

    assert found <= estimate_work([of], START, START + length) <= 8 * found + 100


def test_a_time_with_too_much_work_is_shortened():
    busy_schedule = schedule(*(layer(length=HOUR, unique_id=f"layer-{n}") for n in range(50)))

    end = fit_end(busy_schedule, START, START + 366 * DAY)
    assert MAX_WORK / 2 < estimate_work([busy_schedule], START, end) <= MAX_WORK
    assert fit_end(busy_schedule, START, END) == END


def test_an_expensive_schedule_does_not_shorten_a_cheap_one():
    much = schedule(*(layer(length=HOUR, unique_id=f"layer-{n}") for n in range(50)))
    little = schedule(layer("alice bob"))
    end = START + 30 * DAY

    first, second, third = share_work([(much, START, end), (little, START, end), (much, START, end)], 20_000)
    assert second == end
    assert START < first == third < end
    assert share_work([(much, START, end), (little, START, end)], 80) == [START, end]


# For each kind of layer, the start and end of Alice's shift for any requested time.
WHOLE_SHIFT = {
    "one person for ever": (layer("alice", start="2020-01-05 09:00"), "2020-01-05 09:00", None),
    "one person until it ends": (
        layer("alice alice", start="2020-01-05 09:00", end="2031-01-01 00:00"),
        "2020-01-05 09:00",
        "2031-01-01 00:00",
    ),
    "several turns in a row": (
        layer("alice alice bob alice", start="2026-03-02 00:00", length=30 * DAY),
        "2026-05-31 00:00",
        "2026-08-29 00:00",
    ),
    "turns of a year": (
        layer("alice alice bob", start="2024-01-01 00:00", length=365 * DAY),
        "2026-12-31 00:00",
        "2028-12-30 00:00",
    ),
    "a night": (layer("alice", **NIGHT_HOURS), "2026-07-01 20:00", "2026-07-02 08:00"),
    "a week but for an hour": (
        layer(
            "alice alice bob", length=90 * DAY, start="2026-06-01 00:00", **weekly(("Mon 01:00", 167 * HOUR))
        ),
        "2026-06-29 01:00",
        "2026-07-06 00:00",
    ),
}


@pytest.mark.parametrize(("schedule_facts", "start", "end"), WHOLE_SHIFT.values(), ids=WHOLE_SHIFT)
@pytest.mark.parametrize("by_local_time", [False, True])
def test_a_shift_is_whole_for_any_requested_time(schedule_facts, start, end, by_local_time):
    of = schedule(schedule_facts, by_local_time=by_local_time)
    moment = at("2027-03-02 12:00") if schedule_facts.shift_length == 365 * DAY else at("2026-07-02 02:00")
    expected = [(at(start), None if end is None else at(end))]

    for length in (HOUR, 20 * DAY, 300 * DAY):
        for asked in ((moment, moment + length), (moment - length, moment + HOUR)):
            found = extend_shifts(of, list_joined_shifts(of, *asked, NAMES), *asked)
            here = [each for each in found if each.shift.username == "alice" and each.shift.start <= moment]
            assert [
                (each.shift.start, each.until) for each in here if not each.until or each.until > moment
            ] == expected


def test_an_override_ends_a_shift_without_an_end():
    of = schedule(
        layer("alice", start="2020-01-05 09:00", length=HOUR),
        overrides=[
            override("bob", "2024-03-01 00:00", "2024-03-02 00:00", "then"),
            override("bob", "2029-03-01 00:00", "2029-03-02 00:00", "later"),
        ],
    )
    asked = (START, START + HOUR)

    assert [
        (each.shift.start, each.until)
        for each in extend_shifts(of, list_joined_shifts(of, *asked, NAMES), *asked)
    ] == [(at("2024-03-02 00:00"), at("2029-03-01 00:00"))]


def test_an_override_with_the_id_of_a_layer_is_another_shift():
    """Clients choose the IDs of both."""
    of = schedule(
        layer("alice"), overrides=[override("alice", "2026-03-03 00:00", "2026-03-04 00:00", "layer-1")]
    )

    assert [(each.start.day, each.is_override) for each in list_joined_shifts(of, START, END, NAMES)][
        -2:
    ] == [
        (3, True),
        (4, False),
    ]
    moment = at("2026-03-03 12:00")
    found = list_joined_shifts(of, moment, END, NAMES)
    (current,) = shifts.list_current(of, moment, found, END)
    assert (current.shift.is_override, current.until) == (True, at("2026-03-04 00:00"))


def list_displaced(of):
    return {
        unique_id: {
            username: [f"{start:%d %H} {end:%d %H}" for start, end in spans]
            for username, spans in displaced.items()
        }
        for unique_id, displaced in find_displaced(of).items()
    }


def test_an_override_displaces_the_people_with_turns_within_it():
    holding = override("charlie", "2026-03-02 12:00", "2026-03-04 12:00")
    of = schedule(layer("alice bob", start="2026-03-02 00:00"), overrides=[holding])

    assert list_displaced(of) == {
        "override-1": {"alice": ["02 12 03 00", "04 00 04 12"], "bob": ["03 00 04 00"]}
    }


def test_an_override_does_not_displace_its_own_person_or_that_of_another_override():
    of = schedule(
        layer("alice bob", start="2026-03-02 00:00"),
        overrides=[
            override("alice", "2026-03-02 00:00", "2026-03-04 00:00", "alices"),
            override("bob", "2026-03-03 06:00", "2026-03-03 12:00", "bobs"),
        ],
    )

    assert list_displaced(of) == {"alices": {"bob": ["03 00 03 06", "03 12 04 00"]}, "bobs": {}}


def test_an_override_displaces_nobody_in_a_gap():
    of = schedule(
        layer("alice", **NIGHT_HOURS), overrides=[override("bob", "2026-03-02 06:00", "2026-03-02 21:00")]
    )

    assert list_displaced(of) == {"override-1": {"alice": ["02 06 02 08", "02 20 02 21"]}}


def test_displaced_turns_in_two_layers_are_one_span():
    of = schedule(
        layer("alice", length=HOUR), layer("alice"),
        overrides=[override("bob", "2026-03-02 06:00", "2026-03-02 21:00")],
    )  # fmt: skip

    assert list_displaced(of) == {"override-1": {"alice": ["02 06 02 21"]}}


def test_displaced_people_are_not_on_call_during_the_override():
    """Compare with the people on call, every half an hour."""
    of = schedule(
        layer("alice bob charlie", length=5 * HOUR), layer("bob alice", unique_id="layer-2", **NIGHT_HOURS),
        overrides=[
            override("alice", "2026-03-02 07:00", "2026-03-03 12:00", "one"),
            override("charlie", "2026-03-03 04:30", "2026-03-04 01:00", "two"),
        ],
    )  # fmt: skip
    found, plain = find_displaced(of), replace(of, overrides=())

    for half_hours in range(150):
        moment = START + half_hours * timedelta(minutes=30)
        turns = {shift.username for shift in list_on_call(plain, moment)}
        absent_users = turns - {shift.username for shift in list_on_call(of, moment)}
        for each in of.overrides:
            in_force = each.start <= moment < each.end
            displaced = {
                username
                for username, spans in found[each.unique_id].items()
                if any(start <= moment < end for start, end in spans)
            }
            assert displaced == (absent_users if in_force else set())


def test_a_long_override_shows_its_first_displaced_spans():
    long = override("charlie", "2026-03-02 00:00", "2066-03-02 00:00")
    of = schedule(layer("alice bob", start="2026-03-02 00:00", length=HOUR), overrides=[long])
    found = find_displaced(of)["override-1"]

    assert sum(map(len, found.values())) == MAX_SPANS
    assert found["alice"][0] == (START, START + HOUR)
    assert found["bob"][-1] == (START + (MAX_SPANS - 1) * HOUR, START + MAX_SPANS * HOUR)


def test_long_overrides_do_not_shorten_the_spans_of_short_ones():
    long = [override("charlie", "1900-01-01 00:00", "9999-01-01 00:00", f"long-{n}") for n in range(500)]
    short = override("charlie", "2026-03-02 00:00", "2026-03-03 00:00", "short")
    hourly = layer("alice bob", start="1980-03-02 00:00", length=HOUR, **NIGHT_HOURS)
    found = find_displaced(schedule(hourly, overrides=[*long, short]))

    assert len(found["short"]["alice"]) == len(found["short"]["bob"]) == 6
    assert sum(len(spans) for by_user in found.values() for spans in by_user.values()) <= 50_000


def test_the_work_for_many_overrides_is_limited():
    overrides = [
        override("charlie", "2026-03-02 00:00", "2027-03-02 00:00", f"many-{n}") for n in range(2000)
    ]
    layers = (layer("alice bob", length=HOUR, unique_id=f"layer-{n}") for n in range(50))
    found = find_displaced(schedule(*layers, overrides=overrides))

    assert len(found) == 2000
    assert 0 < sum(bool(displaced) for displaced in found.values()) < 2000


def test_overrides_outside_the_supported_time_displace_nobody():
    for start, end in (("0001-01-01 00:00", "1950-01-01 00:00"), ("2500-01-01 00:00", "9999-12-31 23:59")):
        of = schedule(layer("alice", start="0001-01-01 00:00"), overrides=[override("bob", start, end)])
        assert find_displaced(of) == {"override-1": {}}


def test_many_overrides_are_each_searched_once():
    """The rest of each shift depends only on the overrides around it, not on their total number."""
    hours = [f"{START + hour * HOUR:%Y-%m-%d %H:%M}" for hour in range(8001)]
    often = [override("charlie", hours[hour], hours[hour + 1]) for hour in range(0, 8000, 4)]
    of = schedule(layer("alice bob", start="2026-03-02 00:00", length=HOUR), overrides=often)
    found = list_shifts(of, START, START + 8000 * HOUR)

    assert [shift.username for shift in found[:5]] == ["charlie", "bob", "alice", "bob", "charlie"]
    assert len(found) == 8000
