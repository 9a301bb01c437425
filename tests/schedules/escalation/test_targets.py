"""Tests of the people of a policy at a moment, and of the assignee of an incident."""

import pytest

from models.domain.effects import AdvanceRoundRobin
from models.domain.enums import TargetType
from models.domain.facts import StepTarget
from models.domain.values import replace
from schedules.escalation import targets
from tests.support.facts import ALICE, BOB, CHARLIE, NOON, build_config
from tests.support.schedules.facts import DAY, HOUR, layer, override, schedule

# Turns from nine to nine: Alice begins on Tuesday, Bob on Wednesday, Charlie on Thursday.
TURNS = schedule(layer("alice bob charlie", "2026-03-03 09:00"))
# Charlie from eleven to one, otherwise nobody.
COVER = replace(
    schedule(overrides=[override("charlie", "2026-03-04 11:00", "2026-03-04 13:00")]), unique_id="cover"
)


def get_step_people(config, at=NOON, step=0):
    return targets.get_people(config.policies[1].steps[step], config, at)


@pytest.mark.parametrize(
    ("after", "person"), [(-3 * HOUR, BOB), (20 * HOUR, BOB), (21 * HOUR, CHARLIE), (2 * DAY, ALICE)], ids=str
)
def test_a_schedule_stands_for_the_people_on_call_at_that_moment(after, person):
    assert get_step_people(build_config((0, TURNS)), NOON + after) == [person]


def test_people_come_in_the_order_of_the_targets_each_once():
    config = build_config((0, COVER, "alice", TURNS, "charlie"))

    assert get_step_people(config) == [CHARLIE, ALICE, BOB]


def test_removed_people_and_deleted_schedules_resolve_to_nobody():
    config = build_config((0, TURNS, "gone", COVER), people=(ALICE, CHARLIE))
    without = replace(config, schedules={"cover": COVER})

    assert get_step_people(config) == [CHARLIE]
    assert get_step_people(without) == [CHARLIE]


def test_an_alert_processed_late_resolves_to_the_people_of_the_processing_time():
    config = replace(build_config((0, TURNS)), processed_at=NOON + DAY)

    assert get_step_people(config, NOON) == [CHARLIE]
    assert get_step_people(config, NOON + 2 * DAY) == [ALICE]


def get_assignee(config, next_target=0, at=NOON):
    return targets.choose_assignee(config.policies[1], config, next_target, at)


def test_the_assignee_is_the_first_person_of_the_first_step_with_people():
    assert get_assignee(build_config((0, COVER), (5, TURNS, "alice")), at=NOON + 2 * HOUR) == (BOB, ())


def test_an_incident_has_no_assignee_if_nobody_is_on_call():
    assert get_assignee(build_config((0, COVER)), at=NOON + DAY) == (None, ())


ROUND_ROBIN = build_config((0, "alice", TURNS, COVER), (5, "bob"), round_robin=True)


def test_round_robin_takes_each_target_of_the_first_step():
    next_target, assignees = 0, []
    for _ in range(5):
        person, (taken,) = get_assignee(ROUND_ROBIN, next_target)
        assignees.append(person)
        next_target = taken.next

    assert assignees == [ALICE, BOB, CHARLIE, ALICE, BOB]


def test_round_robin_skips_a_target_without_people():
    assert get_assignee(ROUND_ROBIN, 2, NOON + 2 * HOUR) == (ALICE, (AdvanceRoundRobin(1, 2, 1),))


def test_a_next_target_beyond_the_last_one_starts_from_the_first():
    assert get_assignee(ROUND_ROBIN, 4) == (BOB, (AdvanceRoundRobin(1, 4, 2),))


def test_an_empty_first_step_falls_back_to_a_later_step_without_an_advance():
    config = build_config((0, COVER), (5, "bob"), round_robin=True)

    assert get_assignee(config, at=NOON + DAY) == (BOB, ())


def test_only_a_first_step_without_delay_uses_round_robin():
    assert get_assignee(build_config((1, "alice", "bob"), round_robin=True), 1) == (ALICE, ())


def test_people_on_call_are_found_by_the_id_of_a_schedule():
    config = build_config((0, TURNS))

    assert targets.get_people_on_call("schedule-1", config, NOON) == [BOB]
    assert targets.get_people_on_call("other", config, NOON) == []


def test_a_user_and_a_schedule_of_the_same_name_are_different_targets():
    config = replace(build_config((0, TURNS)), schedules={"alice": TURNS})
    (step,) = config.policies[1].steps
    both = (StepTarget(TargetType.SCHEDULE, "alice"), StepTarget(TargetType.USER, "alice"))

    assert targets.get_people(replace(step, targets=both), config, NOON) == [BOB, ALICE]
