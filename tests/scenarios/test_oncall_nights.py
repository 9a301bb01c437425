"""Nights around a handoff: who is told is who is on call when they are told."""

from datetime import timedelta

import pytest

from models import removal
from models.accounts import raise_version
from models.base import store
from models.effects import Actor
from models.enums import ActorKind, RuleAction
from models.ids import new_uuid
from models.incidents import Incident
from models.schedules import ScheduleOverride
from models.services import Service
from models.teams import EscalationPolicy
from models.users import ForwardingRule, NotificationRule
from tests import layers
from tests.alerts import accept
from tests.rules import action, add_rule
from tests.workers.test_timers import set_policy
from workers import audit, road
from workers.pace import Pace

HOUR = timedelta(hours=1)
DISK = "[Checkout] #1 Disk full on db1 (critical)"


@pytest.fixture
def rota(world, now):
    """Bob until one o'clock, then Charlie, for a day each."""
    turns = layers.layer(world.charlie, world.bob, start=now + HOUR - timedelta(days=1))
    return layers.schedule(world.team, {**turns, "users": turns["users"][::-1]})


def override(schedule, user, start, end, now):
    known = {"unique_id": new_uuid(), "creation_date": now}
    ScheduleOverride.create(schedule=schedule, user=user, start_time=start, end_time=end, **known)
    raise_version(user.account_id)


def forward(person, to, start, end):
    known = {"unique_id": new_uuid(), "creation_date": start, "created_by": person}
    ForwardingRule.create(user=person, to_user=to, from_date=start, to_date=end, **known)
    raise_version(person.account_id)


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
    forward(world.bob, world.charlie, now, now + timedelta(minutes=30))

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


def test_what_waited_for_hours_goes_by_the_forwarding_of_now(night, world):
    set_policy(world, (0, world.bob))
    forward(world.bob, world.charlie, night.now - HOUR, night.now + HOUR)
    forward(world.bob, world.alice, night.now + 4 * HOUR, night.now + 6 * HOUR)
    accept(world, night.now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    night.now += 5 * HOUR

    night.after(seconds=1)

    assert night.mails() == [("alice", DISK)]


def test_what_cannot_be_read_and_has_waited_is_told_to_who_is_on_call_by_now(night, world, rota, monkeypatch):
    set_policy(world, (0, rota))
    accept(world, night.now, message="Disk full", alert_type="critical")
    night.now += 5 * HOUR
    monkeypatch.setattr(road, "walk", lambda *given: 1 / 0)

    night.after(seconds=1)

    assert [person for person, _ in night.mails()] == ["charlie"]


@pytest.mark.parametrize("size", [1, 1000])
def test_whether_an_alert_has_waited_does_not_depend_on_the_others_of_its_batch(
    night, world, rota, monkeypatch, size
):
    """The one came 72 s ago, the other 7 s; the handoff was 2 s ago."""
    set_policy(world, (0, rota))
    monkeypatch.setattr(road, "_pace", Pace(target_s=1e9, limit=size))
    handoff = night.now + HOUR
    for seconds, entity in ((70, "db1"), (5, "db2")):
        at = handoff - timedelta(seconds=seconds)
        accept(world, at, message="Disk full", alert_type="critical", entity_id=entity, exactly=True)
    night.now = handoff + timedelta(seconds=2)

    night.after(seconds=1)

    assignees = [incident.assigned_to for incident in Incident.select().order_by(Incident.id)]
    assert assignees == [world.charlie, world.bob]


def test_who_is_removed_while_they_are_to_be_told_of_somebody_elses_incident_leaves_it_to_others(
    night, world, now
):
    set_policy(world, (0, world.alice))
    NotificationRule.update(start_delay=10).where(NotificationRule.user == world.bob).execute()
    forward(world.alice, world.bob, now, now + 5 * HOUR)
    night.alert("Disk full on db1")
    night.after(minutes=5)
    assert night.mails() == []

    with store().writing():
        removal.remove(world.bob, Actor(ActorKind.USER, "Alice", user=world.alice.id), night.now)
        raise_version(world.account.id)
    night.after(hours=1)

    assert night.mails() == [("alice", DISK)]
    reasons = [log.reason for log in night.incident().incidentlog_set]
    assert "Bob was removed from the account by Alice: they were still to be told" in reasons


def test_a_person_whom_a_rule_chose_is_told_though_their_shift_was_taken_from_them_meanwhile(night, world):
    rota = layers.schedule(world.team, layers.layer(world.bob))
    set_policy(world, (0, rota))
    chosen = action(RuleAction.ASSIGN_USER, value=world.bob.username)
    add_rule(world, chosen, action(RuleAction.DELAY_NOTIFICATIONS, value="1800"))
    night.alert("Disk full on db1")
    override(rota, world.charlie, night.now, night.now + 9 * HOUR, night.now)

    night.after(hours=1)

    assert sorted(person for person, _ in night.mails()) == ["bob", "charlie"]


def test_a_chain_that_began_anew_and_lost_its_last_step_is_told_to_the_last_resort(night, world, now):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=900).execute()
    gap = layers.schedule(world.team, layers.layer(world.bob, start=now + 100 * HOUR))
    set_policy(world, (0, world.bob), (5, world.bob))
    night.alert("Disk full on db1")
    night.after(minutes=1)
    night.alert("Disk full on db1", "acknowledged")
    set_policy(world, (0, gap), (30, world.bob), move_to_next=False)
    night.after(minutes=16)
    assert [person for person, _ in night.mails()] == ["bob"]

    set_policy(world, (0, gap), move_to_next=False)
    audit.audit(night.now)
    audit.audit(night.now)
    night.after(hours=2)

    assert night.mails() == [("alice", DISK)]
