"""Scenarios around a handoff: Tocsin notifies the people on call at the time of the notification."""

from datetime import timedelta

import pytest

from models.domain.effects import Author
from models.domain.enums import AuthorKind
from models.domain.reasons import make_reason
from models.people import offboarding
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.schedules import ScheduleOverride
from models.tables.services import Service
from models.tables.teams import EscalationPolicy
from models.tables.users import ForwardingRule, NotificationRule
from pipeline.rules.action_table import names_user
from tests.support.alerts import accept
from tests.support.rules import RuleAction, action, add_rule
from tests.support.scenarios.timers import set_policy
from tests.support.schedules import stored
from workers.alerts import process_lane
from workers.alerts.batches import BatchSize
from workers.timers import audit

HOUR = timedelta(hours=1)
DISK = "[Checkout] #1 Disk full on db1 (critical)"


@pytest.fixture
def on_call_schedule(world, now):
    """A schedule with Bob until one o'clock, then Charlie, for a day each."""
    turns = stored.layer(world.charlie, world.bob, start=now + HOUR - timedelta(days=1))
    return stored.schedule(world.team, {**turns, "users": turns["users"][::-1]})


def add_override(schedule, user, start, end, now):
    known = {"unique_id": make_uuid(), "creation_date": now}
    ScheduleOverride.create(schedule=schedule, user=user, start_time=start, end_time=end, **known)
    bump_version(user.account_id)


def add_forwarding(person, to, start, end):
    known = {"unique_id": make_uuid(), "creation_date": start, "created_by": person}
    ForwardingRule.create(user=person, to_user=to, from_date=start, to_date=end, **known)
    bump_version(person.account_id)


def test_a_step_after_the_handoff_notifies_the_new_person_on_call(timeline, world, on_call_schedule):
    set_policy(world, (0, on_call_schedule), (90, on_call_schedule))

    timeline.alert("Disk full on db1")
    assert [person for person, _ in timeline.mails()] == ["bob"]
    assert timeline.incident().assigned_to == world.bob

    timeline.after(minutes=90)
    assert timeline.mails() == [("charlie", DISK)]


def test_an_alert_in_the_second_of_the_handoff_notifies_the_new_person_on_call(
    timeline, world, on_call_schedule
):
    set_policy(world, (0, on_call_schedule))
    timeline.after(minutes=59, seconds=59)
    timeline.alert("Disk full", entity="db1")
    timeline.after(seconds=1)
    timeline.alert("Disk full", entity="db2")

    assert [person for person, _ in timeline.mails()] == ["bob", "charlie"]


def test_an_override_replaces_the_person_of_the_layer(timeline, world, on_call_schedule, now):
    set_policy(world, (0, on_call_schedule))
    add_override(on_call_schedule, world.alice, now, now + HOUR, now)

    timeline.alert("Disk full on db1")

    assert timeline.mails() == [("alice", DISK)]
    assert timeline.incident().assigned_to == world.alice


def test_a_gap_notifies_the_managers(timeline, world, now):
    gap = stored.schedule(world.team, stored.layer(world.bob, start=now + HOUR))
    set_policy(world, (0, gap))

    timeline.alert("Disk full on db1")

    assert [person for person, _ in timeline.mails()] == ["alice"]
    assert timeline.incident().assigned_to is None


def test_forwarding_applies_until_its_end(timeline, world, now):
    set_policy(world, (0, world.bob), (30, world.bob))
    add_forwarding(world.bob, world.charlie, now, now + timedelta(minutes=30))

    timeline.alert("Disk full on db1")
    assert timeline.mails() == [("charlie", DISK)]
    assert timeline.incident().assigned_to == world.bob

    timeline.after(minutes=30)
    assert timeline.mails() == [("bob", DISK)]


def use_round_robin(world, *steps, alone=False):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2, "call_rr_assignee": alone}
    set_policy(world, *steps, assignment_settings=settings)


def test_round_robin_gives_each_incident_to_the_next_target(timeline, world, on_call_schedule):
    use_round_robin(world, (0, world.alice, on_call_schedule), (5, world.charlie), alone=True)

    for number in range(3):
        timeline.alert("Disk full", entity=f"db{number}")

    assert [person for person, _ in timeline.mails()] == ["alice", "bob", "alice"]
    assert EscalationPolicy.get_by_id(world.policy.id).next_target == 1


def test_round_robin_applies_within_a_batch(timeline, world):
    use_round_robin(world, (0, world.alice, world.bob), alone=True)
    for number in range(3):
        accept(world, timeline.now, message="Disk full", alert_type="critical", entity_id=f"db{number}")

    timeline.after(seconds=1)

    assignees = [incident.assigned_to for incident in Incident.select().order_by(Incident.id)]
    assert assignees == [world.alice, world.bob, world.alice]


def test_an_alert_processed_late_notifies_the_present_person_on_call(timeline, world, on_call_schedule):
    set_policy(world, (0, on_call_schedule))
    accept(world, timeline.now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    timeline.now += 5 * HOUR

    process_lane.run(world.service.id, now=timeline.now)
    timeline.after(seconds=1)

    assert timeline.mails() == [("charlie", DISK)]


def test_an_alert_processed_late_uses_the_present_forwarding(timeline, world):
    set_policy(world, (0, world.bob))
    add_forwarding(world.bob, world.charlie, timeline.now - HOUR, timeline.now + HOUR)
    add_forwarding(world.bob, world.alice, timeline.now + 4 * HOUR, timeline.now + 6 * HOUR)
    accept(world, timeline.now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    timeline.now += 5 * HOUR

    timeline.after(seconds=1)

    assert timeline.mails() == [("alice", DISK)]


def test_a_dead_letter_processed_late_notifies_the_present_person_on_call(
    timeline, world, on_call_schedule, monkeypatch
):
    set_policy(world, (0, on_call_schedule))
    accept(world, timeline.now, message="Disk full", alert_type="critical")
    timeline.now += 5 * HOUR
    monkeypatch.setattr(process_lane, "run_stages", lambda *given: 1 / 0)

    timeline.after(seconds=1)

    assert [person for person, _ in timeline.mails()] == ["charlie"]


@pytest.mark.parametrize("size", [1, 1000])
def test_the_delay_of_an_alert_does_not_depend_on_its_batch(
    timeline, world, on_call_schedule, monkeypatch, size
):
    """One alert arrived 72 s ago, the other 7 s ago; the handoff was 2 s ago."""
    set_policy(world, (0, on_call_schedule))
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=size))
    handoff = timeline.now + HOUR
    for seconds, entity in ((70, "db1"), (5, "db2")):
        at = handoff - timedelta(seconds=seconds)
        accept(world, at, message="Disk full", alert_type="critical", entity_id=entity, exactly=True)
    timeline.now = handoff + timedelta(seconds=2)

    timeline.after(seconds=1)

    assignees = [incident.assigned_to for incident in Incident.select().order_by(Incident.id)]
    assert assignees == [world.charlie, world.bob]


def test_offboarding_a_receiver_of_forwarding_notifies_somebody_else(timeline, world, now):
    set_policy(world, (0, world.alice))
    NotificationRule.update(start_delay=10).where(NotificationRule.user == world.bob).execute()
    add_forwarding(world.alice, world.bob, now, now + 5 * HOUR)
    timeline.alert("Disk full on db1")
    timeline.after(minutes=5)
    assert timeline.mails() == []

    with store().write_transaction():
        offboarding.remove(
            world.bob, Author(AuthorKind.USER, "Alice", user=world.alice.id), timeline.now, names_user
        )
        bump_version(world.account.id)
    timeline.after(hours=1)

    assert timeline.mails() == [("alice", DISK)]
    reasons = [log.reason for log in timeline.incident().incidentlog_set]
    assert make_reason("member_removed_pending", person="Bob", by="Alice") in reasons


def test_a_person_assigned_by_a_rule_is_notified_even_if_an_override_replaced_them(timeline, world):
    on_call_schedule = stored.schedule(world.team, stored.layer(world.bob))
    set_policy(world, (0, on_call_schedule))
    chosen = action(RuleAction.ASSIGN_USER, value=world.bob.username)
    add_rule(world, chosen, action(RuleAction.DELAY_NOTIFICATIONS, value="1800"))
    timeline.alert("Disk full on db1")
    add_override(on_call_schedule, world.charlie, timeline.now, timeline.now + 9 * HOUR, timeline.now)

    timeline.after(hours=1)

    assert sorted(person for person, _ in timeline.mails()) == ["bob", "charlie"]


def test_a_restarted_run_that_loses_its_last_step_notifies_the_last_resort(timeline, world, now):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=900).execute()
    gap = stored.schedule(world.team, stored.layer(world.bob, start=now + 100 * HOUR))
    set_policy(world, (0, world.bob), (5, world.bob))
    timeline.alert("Disk full on db1")
    timeline.after(minutes=1)
    timeline.alert("Disk full on db1", "acknowledged")
    set_policy(world, (0, gap), (30, world.bob), move_to_next=False)
    timeline.after(minutes=16)
    assert [person for person, _ in timeline.mails()] == ["bob"]

    set_policy(world, (0, gap), move_to_next=False)
    audit.audit(timeline.now)
    audit.audit(timeline.now)
    timeline.after(hours=2)

    assert timeline.mails() == [("alice", DISK)]


@pytest.mark.parametrize(
    ("choice", "in_summer"),
    [({}, "charlie"), ({"shift_time_in_dst": False}, "bob")],
    ids=["by default", "elapsed time"],
)
def test_a_night_begins_with_its_own_person_after_the_clock_change(timeline, world, now, choice, in_summer):
    """Handoffs are at 22:00 in Berlin; in elapsed time, at 23:00 in summer."""
    night = stored.layer(
        world.bob,
        world.charlie,
        start=now.replace(hour=21),
        restriction_type=1,
        restrictions=[stored.restriction("22:00:00", 8 * 3600)],
    )
    nights = stored.schedule(world.team, night, time_zone="Europe/Berlin", **choice)
    set_policy(world, (0, nights))

    # Saturday, 28 March, 22:30 in winter time. Clocks change in this night.
    timeline.after(days=24, hours=9, minutes=30)
    timeline.alert("Disk full", entity="db1")
    # Sunday, 29 March, 22:30 in summer time.
    timeline.after(hours=23)
    timeline.alert("Disk full", entity="db2")
    # Monday, 26 October, 22:30 in winter time again.
    timeline.after(days=211, hours=1)
    timeline.alert("Disk full", entity="db3")

    assert [person for person, _ in timeline.mails()] == ["bob", in_summer, "bob"]
