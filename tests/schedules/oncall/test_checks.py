"""Tests of schedule checks: gaps, double shifts and people outside the team."""

import pytest

from models.domain.enums import TargetType
from models.domain.facts import (
    OnCallConfig,
    PersonFacts,
    PolicyFacts,
    ScheduleOverview,
    StepFacts,
    StepTarget,
)
from models.domain.values import replace
from schedules.oncall import checks
from schedules.oncall.checks import group_double_shifts
from schedules.oncall.shifts import list_joined_shifts
from tests.support.schedules.facts import DAY, HOUR, WEEK, at, daily, layer, override, schedule

NAMES = {name.lower(): name for name in ("Alice", "Bob", "Charlie")}
START, END = at("2026-03-02 00:00"), at("2026-03-09 00:00")


def build_overview(of, members="alice bob charlie", *, is_used=True):
    return ScheduleOverview(of, "Payments", frozenset(members.split()), is_used)


def gaps(of, start=START, end=END, here=NAMES, **options):
    found = checks.find_gaps(
        build_overview(of, **options), list_joined_shifts(of, start, end, here), start, end
    )
    assert {check.kind for check in found} <= {"gap"}
    return [(check.start, check.end, check.what) for check in found]


def test_time_without_a_layer_or_override_is_a_gap():
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


def test_a_gap_is_described_in_the_local_time_of_the_schedule():
    nights = layer(**daily(("06:00", 20 * HOUR)))
    ((_, _, what),) = gaps(
        schedule(nights, time_zone="Europe/Berlin"), at("2026-03-28 12:00"), at("2026-03-29 12:00")
    )

    assert "from Sun 29 Mar 2026 03:00 CEST to Sun 29 Mar 2026 06:00 CEST" in what


@pytest.mark.parametrize("layers", [(), (layer(""),)], ids=["no layer", "a layer without people"])
def test_a_schedule_without_people_is_one_gap(layers):
    assert gaps(schedule(*layers)) == [
        (START, END, "nobody is on call by Schedule: no active layer has people")
    ]


def test_the_shifts_of_a_removed_person_are_gaps():
    alone = {"bob": "Bob", "charlie": "Charlie"}
    found = gaps(schedule(layer("alice bob", start="2026-03-02 00:00")), here=alone)

    assert [start for start, _, _ in found] == [START + day * DAY for day in (0, 2, 4, 6)]


def test_a_gap_says_if_no_policy_uses_the_schedule():
    assert gaps(schedule(), is_used=False)[0][2].endswith("; no policy uses it")


def test_a_covered_time_has_no_gap():
    assert gaps(schedule(layer())) == []


def list_outsiders(of, members, names=NAMES):
    return checks.find_outsiders(build_overview(of, members), START, END, names)


def test_an_override_by_a_person_outside_the_team_is_reported():
    theirs = override("charlie", "2026-03-01 00:00", "2026-03-03 00:00")
    by_member = override("alice", "2026-03-04 00:00", "2026-03-05 00:00", "override-2")
    later = override("charlie", "2026-03-09 00:00", "2026-03-10 00:00", "override-3")
    (found,) = list_outsiders(schedule(overrides=[later, by_member, theirs]), "alice bob")

    assert (found.kind, found.username, found.start, found.end) == (
        "not_in_team", "charlie", START, at("2026-03-03 00:00"),
    )  # fmt: skip
    assert found.what == (
        "Charlie overrides Schedule (Override-1) from Mon 02 Mar 2026 00:00 UTC to Tue 03 Mar 2026 00:00 UTC"
        " and is not in the team Payments"
    )


def test_a_person_who_left_the_account_is_not_reported_as_outside_the_team():
    theirs = override("charlie", "2026-03-01 00:00", "2026-03-03 00:00")

    assert list_outsiders(schedule(overrides=[theirs]), "alice", {}) == []


def twice(*schedules, about=None, start=START, end=END):
    spread = [(each, list_joined_shifts(each, start, end, NAMES)) for each in schedules]
    return list(checks.find_double_shifts(spread, start, end, NAMES, about=about))


def build_other(*layers, **options):
    return replace(schedule(*layers, **options), row=2, unique_id="schedule-2", name="Other")


def test_a_person_on_call_by_two_schedules_is_reported():
    mine = schedule(layer("alice bob", start="2026-03-02 00:00", length=WEEK))
    theirs = build_other(
        layer("bob alice", start="2026-03-01 00:00"),
        overrides=[override("charlie", "2026-03-04 00:00", "2026-03-05 00:00")],
    )
    found = twice(mine, theirs)

    assert [(check.start.day, check.end.day, check.username) for check in found] == [
        (2, 3, "alice"), (6, 7, "alice"), (8, 9, "alice"),
    ]  # fmt: skip
    assert {check.schedules for check in found} == {(mine, theirs)}
    assert found[0].what == (
        "Alice is on call twice from Mon 02 Mar 2026 00:00 UTC to Tue 03 Mar 2026 00:00 UTC:"
        " by Schedule (layer Layer-1) and by Other (layer Layer-1)"
    )


def test_the_schedule_in_question_is_named_first():
    mine, theirs = schedule(layer("alice")), build_other(layer("alice"))

    for about, second in ((mine, theirs), (theirs, mine)):
        assert [check.schedules for check in twice(mine, theirs, about=about)] == [(about, second)]


def test_overlaps_of_two_other_schedules_are_not_reported():
    mine, one = schedule(layer("bob")), build_other(layer("alice"))

    assert twice(mine, one, replace(one, row=3, name="Third"), about=mine) == []


def test_a_person_on_call_by_two_layers_is_reported():
    days = layer("alice bob", start="2026-03-02 00:00")
    nights = replace(layer("bob alice", start="2026-03-02 00:00", unique_id="layer-2"), name="Nights")
    both = schedule(days, replace(nights, shift_length=2 * DAY))
    found = twice(both, end=START + 4 * DAY)

    assert [(check.start.day, check.username) for check in found] == [(3, "bob"), (4, "alice")]
    assert found[0].schedules == (both,)
    assert found[0].what.endswith(": by Schedule, by layer Nights and by layer Layer-1")


def test_consecutive_turns_are_no_conflict():
    first = layer("alice", end="2026-03-05 00:00")
    then = layer("alice", start="2026-03-05 00:00", unique_id="layer-2")

    assert twice(schedule(first, then)) == []


def test_an_overlap_of_many_turns_is_reported_once():
    hourly = schedule(layer("alice", length=HOUR))

    (found,) = twice(hourly, build_other(layer("alice")))
    assert (found.start, found.end) == (START, END)


def test_double_shifts_of_one_schedule_count_once_against_another_schedule():
    both = schedule(layer("alice", unique_id="layer-1"), layer("alice", unique_id="layer-2"))
    found = twice(both, build_other(layer("alice")))

    assert [tuple(each.row for each in check.schedules) for check in found] == [(1,), (1, 2)]


def test_many_overlaps_of_the_same_kind_are_one_problem():
    hours = [
        layer("alice bob", start="2026-03-02 00:00", length=HOUR),
        layer("alice", **daily(("20:00", HOUR))),
    ]

    def fold(days):
        end = START + days * DAY
        both = (schedule(hours[0]), build_other(hours[1]))
        spread = [(each, list_joined_shifts(each, START, end, NAMES)) for each in both]
        return [check.what for check in group_double_shifts(spread, START, end, NAMES, {1, 2})]

    one, three, seven_days = map(fold, (1, 3, 7))

    assert (len(one), len(three), len(seven_days)) == (1, 3, 1)
    assert seven_days == [
        "Alice is on call twice 7 times until Sun 08 Mar 2026 21:00 UTC, first from Mon 02 Mar 2026 20:00 UTC"
        " to Mon 02 Mar 2026 21:00 UTC: by Schedule and by Other"
    ]


def policy(*steps):
    """Build a policy; each step is a text with usernames and schedule IDs such as "schedule-1"."""
    return PolicyFacts(
        1, "policy-1", "Default",
        tuple(
            StepFacts(
                place,
                tuple(
                    StepTarget(TargetType.SCHEDULE if name.startswith("schedule") else TargetType.USER, name)
                    for name in step.split()
                ),
            )
            for place, step in enumerate(steps)
        ),
        0, True,
    )  # fmt: skip


def cover(of, *schedules, until=END, people="alice bob charlie"):
    looked_at = {
        each.unique_id: (each, list_joined_shifts(each, START, END, NAMES), until) for each in schedules
    }
    config = OnCallConfig(people={name: PersonFacts(0, name, name) for name in people.split()})
    return checks.find_covered_time(of, config, looked_at, START, END)


def test_schedules_of_all_steps_cover_a_policy():
    days, nights = (
        schedule(layer(**daily(("08:00", 10 * HOUR)))),
        build_other(layer(**daily(("18:00", 14 * HOUR)))),
    )

    ((start, end),) = cover(policy("schedule-1 schedule-2"), days, nights).spans
    assert start < START < END < end
    assert cover(policy("schedule-1", "schedule-2"), days, nights).spans == [(start, end)]
    assert len(cover(policy("schedule-1"), days, nights).spans) > 1


@pytest.mark.parametrize(
    ("of", "people", "covered"),
    [
        (policy("schedule-1", "bob"), "bob", True), (policy("schedule-1", "bob"), "", False),
        (policy(), "bob", False), (policy("schedule-9"), "bob", False),
    ],
)  # fmt: skip
def test_a_person_as_target_covers_a_policy_at_all_times_unless_removed(of, people, covered):
    assert cover(of, schedule(), people=people).spans == ([(START, END)] if covered else [])


def test_a_policy_is_known_until_the_earliest_end_of_its_schedules():
    assert cover(policy("schedule-1"), schedule(layer()), until=START + DAY).until == START + DAY
    assert cover(policy("schedule-1", "bob"), schedule(layer()), until=START + DAY).until == END


def test_gaps_of_a_policy_name_it_and_many_gaps_are_one_problem():
    of, days = policy("schedule-1"), schedule(layer(), time_zone="Europe/Berlin")
    gaps = [(START + day * DAY, START + day * DAY + HOUR) for day in range(6)]

    messages = [
        checks.build_policy_gap(of, (days,), spans, END).what for spans in checks.group_spans(gaps[:2])
    ]
    assert messages[0] == (
        "nobody is on call by the policy Default from Mon 02 Mar 2026 01:00 CET to Mon 02 Mar 2026 02:00 CET"
    )
    assert len(messages) == 2
    (spans,) = checks.group_spans(gaps)
    assert checks.build_policy_gap(of, (days,), spans, END).what == (
        "nobody is on call by the policy Default 6 times until Sat 07 Mar 2026 02:00 CET,"
        " first from Mon 02 Mar 2026 01:00 CET to Mon 02 Mar 2026 02:00 CET"
    )


def test_a_person_outside_the_team_is_reported_once_per_layer():
    of = schedule(
        layer("charlie alice charlie", unique_id="layer-1"),
        layer("charlie", unique_id="layer-2", end="2026-03-04 00:00"),
        layer("charlie", unique_id="layer-3", start="2026-03-09 00:00"),
        overrides=[override("charlie", "2026-03-02 00:00", "2026-03-03 00:00")],
    )
    found = list_outsiders(of, "alice bob")

    assert [(one.kind, one.minor, one.start, one.end) for one in found] == [
        ("not_in_team", False, START, START + DAY),
        ("not_in_team", True, START, END),
        ("not_in_team", True, START, at("2026-03-04 00:00")),
    ]
    assert found[1].what == (
        "Charlie takes turns in Schedule (layer Layer-1) and is not in the team Payments"
    )
