"""Tests of steps that name only people of the step before."""

import pytest

from models.domain.enums import TargetType
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, StepFacts, StepTarget
from models.domain.values import replace
from schedules.escalation.step_checks import find_repeated_people
from schedules.oncall.shifts import list_joined_shifts
from tests.support.schedules.facts import DAY, HOUR, WEEK, at, daily, layer, override, schedule

PEOPLE = {name: PersonFacts(row, name, name.title()) for row, name in enumerate(("alice", "bob"), start=1)}
START, END = at("2026-03-02 00:00"), at("2026-03-09 00:00")


def build_schedule(name, *layers, **options):
    return replace(schedule(*layers, **options), row=hash(name), unique_id=name, name=name.title())


PRIMARY = build_schedule("primary", layer("alice bob", "2026-03-02 08:00", length=WEEK))
# Alice for two days, in the week of Alice.
SECONDARY = build_schedule(
    "secondary",
    layer("bob", "2026-03-02 08:00"),
    overrides=[override("alice", "2026-03-04 08:00", "2026-03-06 08:00")],
)
ALICE = build_schedule("alone", layer("alice"))
WHAT = (
    "step 2 of the policy Nights names nobody new from Wed 04 Mar 2026 08:00 UTC to"
    " Fri 06 Mar 2026 08:00 UTC: Alice is also in step 1"
)


def find(*steps, span=(START, END), until=None, **options):
    """Check a policy; a step is a list of schedules and usernames."""
    known = {each.unique_id: each for step in steps for each in step if not isinstance(each, str)}
    targets = [
        tuple(
            StepTarget(TargetType.USER, each)
            if isinstance(each, str)
            else StepTarget(TargetType.SCHEDULE, each.unique_id)
            for each in step
        )
        for step in steps
    ]
    policy = PolicyFacts(
        1, "policy", "Nights", tuple(StepFacts(10, each) for each in targets), 0, True, **options
    )
    policy = replace(policy, steps=(replace(policy.steps[0], delay_minutes=0), *policy.steps[1:]))
    end = until or span[1]
    checked = {
        name: (each, list_joined_shifts(each, span[0], end, PEOPLE), end) for name, each in known.items()
    }
    config = OnCallConfig(people=PEOPLE, schedules=known)
    return [one.what for one in find_repeated_people(policy, config, checked, *span)]


def test_a_person_who_is_on_call_by_the_schedules_of_both_steps_is_a_problem():
    assert find([PRIMARY], [SECONDARY]) == [WHAT]


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        pytest.param(([PRIMARY], [SECONDARY, "bob"]), {}, id="another person is in the step too"),
        pytest.param(([PRIMARY], [PRIMARY]), {}, id="a reminder by the same schedule"),
        pytest.param((["alice"], ["alice"]), {}, id="a reminder to the same person"),
        pytest.param(([PRIMARY], ["alice"]), {}, id="a person who is named directly"),
        pytest.param((["alice"], [ALICE]), {}, id="a person who is named directly first"),
        pytest.param(([PRIMARY], ["bob"], [SECONDARY]), {}, id="a step between them"),
        pytest.param(([PRIMARY], [build_schedule("nobody")]), {}, id="nobody"),
        pytest.param(([PRIMARY],), {}, id="one step"), pytest.param(([],), {}, id="no targets"),
        pytest.param(
            ([PRIMARY, "bob"], [SECONDARY]), {"round_robin": True, "assignee_only": True},
            id="only the assignee was notified",
        ),
    ],
)  # fmt: skip
def test_steps_that_name_others_or_the_same_by_intention_are_no_problem(steps, options):
    assert find(*steps, **options) == []


def test_a_round_robin_that_notifies_all_is_checked():
    assert find([PRIMARY, "bob"], [SECONDARY], round_robin=True) != []


def test_only_the_time_that_was_checked_counts():
    (what,) = find([PRIMARY], [SECONDARY], until=at("2026-03-05 08:00"))

    assert "to at least Thu 05 Mar 2026 08:00 UTC" in what


def test_many_times_are_one_problem():
    nights = build_schedule("nights", layer("alice", **daily(("20:00", 12 * HOUR))))
    (what,) = find([ALICE], [nights])

    assert what == (
        "step 2 of the policy Nights names nobody new 8 times until at least Mon 09 Mar 2026 00:00 UTC, first"
        " from Mon 02 Mar 2026 00:00 UTC to Mon 02 Mar 2026 08:00 UTC: Alice is also in step 1"
    )


def test_handoffs_that_a_clock_change_separates_are_found():
    """Both schedules change at 20:00 in Berlin. In summer, the one in elapsed time changes an hour later."""
    first = build_schedule(
        "first", layer("alice bob", "2026-03-02 19:00"), time_zone="Europe/Berlin", by_local_time=True
    )
    second = build_schedule("second", layer("bob alice", "2026-03-02 19:00"), time_zone="Europe/Berlin")
    assert find([first], [second], span=(at("2026-03-20 00:00"), at("2026-03-29 00:00"))) == []

    found = find([first], [second], span=(at("2026-03-28 00:00"), at("2026-03-28 00:00") + 3 * DAY))
    assert found == [
        f"step 2 of the policy Nights names nobody new from {day} Mar 2026 20:00 CEST to"
        f" {day} Mar 2026 21:00 CEST: {name} is also in step 1"
        for day, name in (("Sun 29", "Bob"), ("Mon 30", "Alice"))
    ]


def test_steps_that_also_name_deleted_schedules_can_be_checked():
    gone = [StepTarget(TargetType.SCHEDULE, name) for name in ("gone", "lost")]
    alice = StepTarget(TargetType.USER, "alice")
    steps = tuple(StepFacts(10 * place, (alice, each)) for place, each in enumerate(gone))
    policy = PolicyFacts(1, "policy", "Nights", steps, 0, True)

    found = find_repeated_people(policy, OnCallConfig(people=PEOPLE), {}, START, END)

    assert all("UTC" in one.what for one in found)
