"""What is wrong with schedules over a time, and who is on call at a moment of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from models.facts import RotaFacts
from schedules import coverage
from schedules.coverage import MOST_SPANS, MOST_WORK, fitting, overridden, shifts_of, work
from schedules.oncall import by_layers, on_call, shifts
from tests.schedules.rotas import DAY, HOUR, WEEK, at, daily, layer, override, schedule, weekly

NAMES = {name.lower(): name for name in ("Alice", "Bob", "Charlie")}
START, END = at("2026-03-02 00:00"), at("2026-03-09 00:00")
NIGHTS = daily(("20:00", 12 * HOUR))


def rota(of, members="alice bob charlie", *, is_used=True):
    return RotaFacts(of, "Payments", frozenset(members.split()), is_used)


def gaps(of, start=START, end=END, here=NAMES, **options):
    found = coverage.gaps(rota(of, **options), shifts_of(of, start, end, here), start, end)
    assert {problem.kind for problem in found} <= {"gap"}
    return [(problem.start, problem.end, problem.what) for problem in found]


def test_nobody_is_on_call_where_no_layer_and_no_override_counts():
    days = layer(start="2026-01-05 08:00", **daily(("08:00", 12 * HOUR)))
    found = gaps(schedule(days, overrides=[override("bob", "2026-03-03 20:00", "2026-03-04 08:00")]))

    assert [f"{start:%d %H} {end:%d %H}" for start, end, _ in found] == [
        "02 00 02 08", "02 20 03 08", "04 20 05 08", "05 20 06 08", "06 20 07 08", "07 20 08 08",
        "08 20 09 00",
    ]  # fmt: skip
    assert found[1][2] == (
        "nobody is on call by Schedule from Mon 02 Mar 2026 20:00 UTC to Tue 03 Mar 2026 08:00 UTC"
    )
    assert found[-1][2].endswith(" to at least Mon 09 Mar 2026 00:00 UTC")


def test_a_gap_is_told_by_the_clock_on_the_schedules_wall():
    nights = layer(**daily(("06:00", 20 * HOUR)))
    ((_, _, what),) = gaps(
        schedule(nights, time_zone="Europe/Berlin"), at("2026-03-28 12:00"), at("2026-03-29 12:00")
    )

    assert "from Sun 29 Mar 2026 03:00 CEST to Sun 29 Mar 2026 06:00 CEST" in what


@pytest.mark.parametrize("layers", [(), (layer(""),)], ids=["no layer", "a layer without people"])
def test_a_schedule_without_anybody_is_one_gap(layers):
    assert gaps(schedule(*layers)) == [
        (START, END, "nobody is on call by Schedule: no active layer has people")
    ]


def test_who_left_leaves_a_gap():
    alone = {"bob": "Bob", "charlie": "Charlie"}
    found = gaps(schedule(layer("alice bob", start="2026-03-02 00:00")), here=alone)

    assert [start for start, _, _ in found] == [START + day * DAY for day in (0, 2, 4, 6)]


def test_a_gap_of_what_no_policy_uses_says_so():
    assert gaps(schedule(), is_used=False)[0][2].endswith("; no policy uses it")


def test_there_is_no_gap_at_all_in_what_is_covered():
    assert gaps(schedule(layer())) == []


def strangers(of, members, names=NAMES):
    return coverage.strangers(rota(of, members), START, END, names)


def test_an_override_by_somebody_who_is_not_in_the_team_is_told_within_the_time():
    theirs = override("charlie", "2026-03-01 00:00", "2026-03-03 00:00")
    ours = override("alice", "2026-03-04 00:00", "2026-03-05 00:00", "override-2")
    later = override("charlie", "2026-03-09 00:00", "2026-03-10 00:00", "override-3")
    (found,) = strangers(schedule(overrides=[later, ours, theirs]), "alice bob")

    assert (found.kind, found.username, found.start, found.end) == (
        "not_in_team", "charlie", START, at("2026-03-03 00:00"),
    )  # fmt: skip
    assert found.what == (
        "Charlie overrides Schedule (Override-1) from Mon 02 Mar 2026 00:00 UTC to Tue 03 Mar 2026 00:00 UTC"
        " and is not in the team Payments"
    )


def test_who_left_the_account_is_no_stranger():
    theirs = override("charlie", "2026-03-01 00:00", "2026-03-03 00:00")

    assert strangers(schedule(overrides=[theirs]), "alice", {}) == []


def twice(*schedules, about=None, start=START, end=END):
    spread = [(each, shifts_of(each, start, end, NAMES)) for each in schedules]
    return list(coverage.twice(spread, start, end, NAMES, about=about))


def other(*layers, **options):
    return replace(schedule(*layers, **options), row=2, unique_id="schedule-2", name="Other")


def test_somebody_is_on_call_by_two_schedules_at_once():
    mine = schedule(layer("alice bob", start="2026-03-02 00:00", length=WEEK))
    theirs = other(
        layer("bob alice", start="2026-03-01 00:00"),
        overrides=[override("charlie", "2026-03-04 00:00", "2026-03-05 00:00")],
    )
    found = twice(mine, theirs)

    assert [(problem.start.day, problem.end.day, problem.username) for problem in found] == [
        (2, 3, "alice"), (6, 7, "alice"), (8, 9, "alice"),
    ]  # fmt: skip
    assert {problem.schedules for problem in found} == {(mine, theirs)}
    assert found[0].what == (
        "Alice is on call twice from Mon 02 Mar 2026 00:00 UTC to Tue 03 Mar 2026 00:00 UTC:"
        " by Schedule (layer Layer-1) and by Other (layer Layer-1)"
    )


def test_the_schedule_that_it_is_about_stands_first():
    mine, theirs = schedule(layer("alice")), other(layer("alice"))

    for about, second in ((mine, theirs), (theirs, mine)):
        assert [problem.schedules for problem in twice(mine, theirs, about=about)] == [(about, second)]


def test_it_is_about_no_two_others():
    mine, one = schedule(layer("bob")), other(layer("alice"))

    assert twice(mine, one, replace(one, row=3, name="Third"), about=mine) == []


def test_somebody_is_on_call_by_two_layers_at_once():
    days = layer("alice bob", start="2026-03-02 00:00")
    nights = replace(layer("bob alice", start="2026-03-02 00:00", unique_id="layer-2"), name="Nights")
    both = schedule(days, replace(nights, shift_length=2 * DAY))
    found = twice(both, end=START + 4 * DAY)

    assert [(problem.start.day, problem.username) for problem in found] == [(3, "bob"), (4, "alice")]
    assert found[0].schedules == (both,)
    assert found[0].what.endswith(": by Schedule, by layer Nights and by layer Layer-1")


def test_turns_that_follow_one_another_are_no_conflict():
    first = layer("alice", end="2026-03-05 00:00")
    then = layer("alice", start="2026-03-05 00:00", unique_id="layer-2")

    assert twice(schedule(first, then)) == []


def test_one_overlap_is_told_once_however_many_turns_it_has():
    hourly = schedule(layer("alice", length=HOUR))

    (found,) = twice(hourly, other(layer("alice")))
    assert (found.start, found.end) == (START, END)


def test_what_is_held_ends_when_somebody_else_comes():
    of = schedule(
        layer("alice bob", start="2026-03-02 00:00"),
        layer("charlie", unique_id="layer-2"),
        overrides=[override("bob", "2026-03-02 18:00", "2026-03-02 20:00")],
    )
    now, until = at("2026-03-02 12:00"), at("2026-03-03 12:00")
    found = shifts_of(of, now, until, NAMES)

    assert [(one.shift.username, one.until) for one in coverage.held(of, now, found, until)] == [
        ("alice", at("2026-03-02 18:00")),
        ("charlie", at("2026-03-02 18:00")),
    ]
    later = at("2026-03-02 21:00")
    assert [
        (one.shift.username, one.until)
        for one in coverage.held(of, later, shifts_of(of, later, until, NAMES), until)
    ] == [("alice", at("2026-03-03 00:00")), ("charlie", None)]


def handoff(of, now, until):
    return coverage.handoff(shifts_of(of, now, until, NAMES), now, until)


def test_a_handoff_is_when_others_are_on_call():
    twins = schedule(
        layer("alice alice bob", start="2026-03-02 00:00"),
        layer("bob alice charlie", start="2026-03-02 00:00", unique_id="layer-2"),
    )

    # On the second day Alice has both turns, and Bob none.
    assert handoff(twins, START, END) == at("2026-03-03 00:00")


def test_a_handoff_between_layers_of_the_same_people_is_none():
    swapped = schedule(
        layer("alice bob", start="2026-03-02 00:00"),
        layer("bob alice", start="2026-03-02 00:00", unique_id="layer-2"),
    )

    assert handoff(swapped, START, END) is None


def test_to_nobody_and_from_nobody_are_handoffs():
    nights = schedule(layer("alice", **NIGHTS))

    assert handoff(nights, at("2026-03-02 21:00"), END) == at("2026-03-03 08:00")
    assert handoff(nights, at("2026-03-02 08:00"), END) == at("2026-03-02 20:00")
    assert handoff(nights, at("2026-03-02 08:00"), at("2026-03-02 20:00")) is None


RESTRICTED = weekly(*((f"{day} 08:00", 10 * HOUR) for day in ("Mon", "Tue", "Wed", "Thu", "Fri")))


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(schedule(layer(length=HOUR)), id="hourly"),
        pytest.param(schedule(layer(length=HOUR), time_zone="Europe/Berlin", by_local_time=True), id="local"),
        pytest.param(schedule(layer(length=WEEK, **NIGHTS)), id="nights"),
        pytest.param(schedule(layer(length=3 * HOUR, **RESTRICTED), layer("alice")), id="office hours"),
        pytest.param(schedule(layer(end="2026-03-03 00:00"), layer(start="2026-03-08 00:00")), id="short"),
    ],
)
@pytest.mark.parametrize("length", [HOUR, DAY, 30 * DAY, 366 * DAY], ids=str)
def test_there_is_never_more_work_than_was_told(of, length):
    found = len(by_layers(of, START, START + length))

    assert found <= work([of], START, START + length) <= 8 * found + 100


def test_of_too_much_the_beginning_is_looked_at():
    many = [schedule(*(layer(length=HOUR, unique_id=f"layer-{n}") for n in range(50)))]

    end = fitting(many, START, START + 366 * DAY)
    assert MOST_WORK / 2 < work(many, START, end) <= MOST_WORK
    assert fitting(many, START, END) == END


def told(of):
    return {
        unique_id: {
            username: [f"{start:%d %H} {end:%d %H}" for start, end in spans]
            for username, spans in displaced.items()
        }
        for unique_id, displaced in overridden(of).items()
    }


def test_an_override_displaces_those_whose_turn_it_is_within_it():
    holding = override("charlie", "2026-03-02 12:00", "2026-03-04 12:00")
    of = schedule(layer("alice bob", start="2026-03-02 00:00"), overrides=[holding])

    assert told(of) == {"override-1": {"alice": ["02 12 03 00", "04 00 04 12"], "bob": ["03 00 04 00"]}}


def test_it_does_not_displace_whose_own_it_is_nor_who_holds_another():
    of = schedule(
        layer("alice bob", start="2026-03-02 00:00"),
        overrides=[
            override("alice", "2026-03-02 00:00", "2026-03-04 00:00", "alices"),
            override("bob", "2026-03-03 06:00", "2026-03-03 12:00", "bobs"),
        ],
    )

    assert told(of) == {"alices": {"bob": ["03 00 03 06", "03 12 04 00"]}, "bobs": {}}


def test_where_nobody_was_on_call_nobody_is_displaced():
    of = schedule(
        layer("alice", **NIGHTS), overrides=[override("bob", "2026-03-02 06:00", "2026-03-02 21:00")]
    )

    assert told(of) == {"override-1": {"alice": ["02 06 02 08", "02 20 02 21"]}}


def test_turns_by_two_layers_are_one_span():
    of = schedule(
        layer("alice", length=HOUR), layer("alice"),
        overrides=[override("bob", "2026-03-02 06:00", "2026-03-02 21:00")],
    )  # fmt: skip

    assert told(of) == {"override-1": {"alice": ["02 06 02 21"]}}


def test_they_are_those_whom_no_answer_names_while_it_holds():
    """Beside the answers themselves, every half an hour."""
    of = schedule(
        layer("alice bob charlie", length=5 * HOUR), layer("bob alice", unique_id="layer-2", **NIGHTS),
        overrides=[
            override("alice", "2026-03-02 07:00", "2026-03-03 12:00", "one"),
            override("charlie", "2026-03-03 04:30", "2026-03-04 01:00", "two"),
        ],
    )  # fmt: skip
    found, plain = overridden(of), replace(of, overrides=())

    for half_hours in range(150):
        moment = START + half_hours * timedelta(minutes=30)
        turns = {shift.username for shift in on_call(plain, moment)}
        away = turns - {shift.username for shift in on_call(of, moment)}
        for each in of.overrides:
            holds = each.start <= moment < each.end
            displaced = {
                username
                for username, spans in found[each.unique_id].items()
                if any(start <= moment < end for start, end in spans)
            }
            assert displaced == (away if holds else set())


def test_of_a_long_override_the_first_spans_are_told():
    long = override("charlie", "2026-03-02 00:00", "2066-03-02 00:00")
    of = schedule(layer("alice bob", start="2026-03-02 00:00", length=HOUR), overrides=[long])
    found = overridden(of)["override-1"]

    assert sum(map(len, found.values())) == MOST_SPANS
    assert found["alice"][0] == (START, START + HOUR)
    assert found["bob"][-1] == (START + (MOST_SPANS - 1) * HOUR, START + MOST_SPANS * HOUR)


def test_long_ones_take_nothing_from_short_ones():
    long = [override("charlie", "1900-01-01 00:00", "9999-01-01 00:00", f"long-{n}") for n in range(500)]
    short = override("charlie", "2026-03-02 00:00", "2026-03-03 00:00", "short")
    hourly = layer("alice bob", start="1980-03-02 00:00", length=HOUR, **NIGHTS)
    found = overridden(schedule(hourly, overrides=[*long, short]))

    assert len(found["short"]["alice"]) == len(found["short"]["bob"]) == 6
    assert sum(len(spans) for told in found.values() for spans in told.values()) <= 50_000


def test_there_is_an_end_to_what_is_looked_at_for_very_many():
    many = [override("charlie", "2026-03-02 00:00", "2027-03-02 00:00", f"many-{n}") for n in range(2000)]
    layers = (layer("alice bob", length=HOUR, unique_id=f"layer-{n}") for n in range(50))
    found = overridden(schedule(*layers, overrides=many))

    assert len(found) == 2000
    assert 0 < sum(bool(displaced) for displaced in found.values()) < 2000


def test_overrides_that_hold_in_no_time_of_ours_displace_nobody():
    for start, end in (("0001-01-01 00:00", "1950-01-01 00:00"), ("2500-01-01 00:00", "9999-12-31 23:59")):
        of = schedule(layer("alice", start="0001-01-01 00:00"), overrides=[override("bob", start, end)])
        assert overridden(of) == {"override-1": {}}


def test_many_overrides_in_a_long_time_are_looked_through_once_each():
    """What is left of each shift depends on the overrides around it, however many there are."""
    hours = [f"{START + hour * HOUR:%Y-%m-%d %H:%M}" for hour in range(8001)]
    often = [override("charlie", hours[hour], hours[hour + 1]) for hour in range(0, 8000, 4)]
    of = schedule(layer("alice bob", start="2026-03-02 00:00", length=HOUR), overrides=often)
    found = shifts(of, START, START + 8000 * HOUR)

    assert [shift.username for shift in found[:5]] == ["charlie", "bob", "alice", "bob", "charlie"]
    assert len(found) == 8000
