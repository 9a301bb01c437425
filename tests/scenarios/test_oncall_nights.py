"""Nights around a handoff: who is told is who is on call when they are told."""

from datetime import timedelta

import pytest

from models.base import store
from models.ids import new_uuid
from models.incidents import Incident
from models.schedules import ScheduleOverride
from models.teams import EscalationPolicy
from models.users import ForwardingRule
from tests import layers
from tests.alerts import accept
from tests.workers.test_timers import set_policy
from workers import configuration, road

HOUR = timedelta(hours=1)
DISK = "[Checkout] #1 Disk full on db1 (critical)"


@pytest.fixture
def rota(world, now):
    """Bob until one o'clock, then Charlie, for a day each."""
    turns = layers.layer(world.charlie, world.bob, start=now + HOUR - timedelta(days=1))
    return layers.schedule(world.team, {**turns, "users": turns["users"][::-1]})


def override(schedule, user, start, end, now):
    with store().writing():
        ScheduleOverride.create(
            unique_id=new_uuid(),
            schedule=schedule,
            user=user,
            start_time=start,
            end_time=end,
            creation_date=now,
        )
    configuration.forget()


def test_a_step_after_the_handoff_tells_the_one_who_took_over(night, world, rota):
    set_policy(world, (0, rota), (90, rota))

    night.alert("Disk full on db1")
    assert [person for person, _ in night.mails()] == ["bob"]
    assert night.incident().assigned_to == world.bob

    night.after(minutes=90)
    assert night.mails() == [("charlie", DISK)]


def test_an_alert_of_the_second_of_the_handoff_is_for_who_takes_over(night, world, rota):
    set_policy(world, (0, rota))
    night.after(minutes=59, seconds=59)
    night.alert("Disk full", entity="db1")
    night.after(seconds=1)
    night.alert("Disk full", entity="db2")

    assert [person for person, _ in night.mails()] == ["bob", "charlie"]


def test_an_override_is_told_and_nobody_whom_it_replaces(night, world, rota, now):
    set_policy(world, (0, rota))
    override(rota, world.alice, now, now + HOUR, now)

    night.alert("Disk full on db1")

    assert night.mails() == [("alice", DISK)]
    assert night.incident().assigned_to == world.alice


def test_a_gap_wakes_the_managers_and_says_why(night, world, now):
    gap = layers.schedule(world.team, layers.layer(world.bob, start=now + HOUR))
    set_policy(world, (0, gap))

    night.alert("Disk full on db1")

    assert [person for person, _ in night.mails()] == ["alice"]
    assert night.incident().assigned_to is None


def test_somebody_away_has_their_notices_forwarded_for_as_long(night, world, now):
    set_policy(world, (0, world.bob), (30, world.bob))
    ForwardingRule.create(
        unique_id=new_uuid(),
        user=world.bob,
        to_user=world.charlie,
        created_by=world.bob,
        from_date=now,
        to_date=now + timedelta(minutes=30),
        creation_date=now,
    )

    night.alert("Disk full on db1")
    assert night.mails() == [("charlie", DISK)]
    assert night.incident().assigned_to == world.bob

    night.after(minutes=30)
    assert night.mails() == [("bob", DISK)]


def by_turns(world, *steps, alone=False):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2, "call_rr_assignee": alone}
    set_policy(world, *steps, assignment_settings=settings)


def test_by_turns_one_incident_is_one_persons_and_the_next_the_next_ones(night, world, rota):
    by_turns(world, (0, world.alice, rota), (5, world.charlie), alone=True)

    for number in range(3):
        night.alert("Disk full", entity=f"db{number}")

    assert [person for person, _ in night.mails()] == ["alice", "bob", "alice"]
    assert EscalationPolicy.get_by_id(world.policy.id).turn == 1


def test_alerts_of_one_batch_take_turns_too(night, world):
    by_turns(world, (0, world.alice, world.bob), alone=True)
    for number in range(3):
        accept(world, night.now, message="Disk full", alert_type="critical", entity_id=f"db{number}")

    night.after(seconds=1)

    assignees = [incident.assigned_to for incident in Incident.select().order_by(Incident.id)]
    assert assignees == [world.alice, world.bob, world.alice]


def test_what_waited_for_hours_is_told_to_who_is_on_call_by_now(night, world, rota):
    set_policy(world, (0, rota))
    accept(world, night.now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    night.now += 5 * HOUR

    road.run(world.service.id, now=night.now)
    night.after(seconds=1)

    assert night.mails() == [("charlie", DISK)]
