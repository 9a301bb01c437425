"""Scenarios in which incidents are reassigned: the right people are notified, and timeouts continue."""

import pytest

from models.domain.effects import ChangeSet
from models.domain.enums import IncidentStatus
from models.load.lane import lock_incident
from models.load.oncall_config import load_people
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.services import Service
from models.tables.teams import EscalationPolicy
from models.tables.users import NotificationRule
from models.write.apply import apply
from pipeline import incidents
from schedules.escalation.responders import ResponderRequest, request_responders
from tests.scenarios.conftest import ALICE
from tests.support.scenarios.timers import MINUTE, set_policy
from workers.timers import audit
from workers.timers.on_config_change import reconcile_after_change

A, R, T = IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED, IncidentStatus.TRIGGERED


def delay_notifications(world, user, minutes):
    """Give a person a notification rule with this delay."""
    NotificationRule.update(start_delay=minutes).where(NotificationRule.user == user).execute()
    bump_version(world.account.id)


def get_person(user):
    return load_people([user.username])[user.username]


@pytest.fixture
def other_policy(world, timeline):
    """Another policy, which notifies Alice."""
    rules = EscalationPolicy.get_by_id(world.policy.id).rules
    known = {"unique_id": make_uuid(), "creation_date": timeline.now}
    return EscalationPolicy.create(team=world.team, name="Other", rules=rules, **known)


def list_notified(timeline):
    return [person for person, _ in timeline.mails()]


@pytest.mark.parametrize("to", ["a person", "another policy", "nobody"])
def test_a_responder_is_notified_after_any_reassignment(timeline, world, apply_action, other_policy, to):
    delay_notifications(world, world.bob, 5)
    timeline.alert("Disk full")
    with store().write_transaction():
        found = lock_incident(timeline.incident().id, ALICE, timeline.now)
        call = ResponderRequest("call", get_person(world.bob))
        asked = request_responders(found, [call])
        apply(ChangeSet(effects=list(asked)), {found.incident.unique_id: timeline.incident().id})
    if to == "a person":
        apply_action(incidents.assign, get_person(world.charlie))
    elif to == "nobody":
        apply_action(incidents.assign, None)
    else:
        apply_action(incidents.change_policy, other_policy.id, policies=[other_policy.id])
    timeline.after(minutes=4)
    list_notified(timeline)

    timeline.after(minutes=1)
    assert list_notified(timeline) == ["bob"]


def test_a_kept_assignee_is_notified_after_a_policy_change(timeline, world, apply_action, other_policy):
    delay_notifications(world, world.charlie, 5)
    timeline.alert("Disk full")
    apply_action(incidents.assign, get_person(world.charlie))
    timeline.after(minutes=1)
    assert list_notified(timeline) == ["alice"]

    apply_action(incidents.change_policy, other_policy.id, policies=[other_policy.id], keep_assignee=True)
    timeline.after(minutes=30)
    assert timeline.incident().assigned_to == world.charlie
    assert list_notified(timeline) == ["alice", "charlie"]


def test_unassigning_an_incident_restarts_its_escalation(timeline, world, apply_action):
    delay_notifications(world, world.charlie, 5)
    set_policy(world, (0, world.alice), (10, world.bob))
    timeline.alert("Disk full")
    apply_action(incidents.assign, get_person(world.charlie))
    timeline.after(minutes=1)
    assert list_notified(timeline) == ["alice"]

    apply_action(incidents.assign, None)
    timeline.after(minutes=30)
    assert list_notified(timeline) == ["alice", "bob"]
    timeline.after(minutes=600)
    assert list_notified(timeline) == []


@pytest.mark.parametrize("audited", [False, True])
@pytest.mark.parametrize("at", [2, 20], ids=["in the middle", "at the end"])
def test_the_audit_does_not_change_whom_a_run_with_a_deleted_policy_notifies(
    timeline, world, other_policy, audited, at
):
    set_policy(world, (0, world.bob), (10, world.charlie))
    timeline.alert("Disk full")
    timeline.after(minutes=at)
    assert list_notified(timeline) == (["bob"] if at == 2 else ["bob", "charlie"])
    Service.update(escalation_policy=other_policy).execute()
    world.policy.delete_instance()
    bump_version(world.account.id)

    for _ in range(10):
        if audited:
            audit.audit(timeline.now)
        timeline.after(minutes=5)

    assert list_notified(timeline) == (["alice"] if at == 2 else [])


@pytest.mark.parametrize("reconciled_by", ["a configuration change", "the audit"])
@pytest.mark.parametrize("length", ["short", "long again"])
def test_a_shortened_run_is_exhausted_unless_its_policy_gets_more_steps_again(
    timeline, world, other_policy, reconciled_by, length
):
    def reconcile():
        audit.audit(timeline.now) if reconciled_by == "the audit" else reconcile_after_change(
            "escalation_policy", row, timeline.now
        )

    row, steps = world.policy.id, [(0, world.bob), (5, world.charlie), (30, world.bob)]
    set_policy(world, *steps)
    timeline.alert("Disk full")
    timeline.after(minutes=6)
    assert list_notified(timeline) == ["bob", "charlie"]
    set_policy(world, *steps[:2])
    reconcile()
    assert timeline.incident().exhausted
    if length == "long again":
        set_policy(world, *steps)
        reconcile()

    Service.update(escalation_policy=other_policy).execute()
    world.policy.delete_instance()
    bump_version(world.account.id)
    audit.audit(timeline.now)
    timeline.after(minutes=600)
    assert list_notified(timeline) == ([] if length == "short" else ["alice"])


@pytest.fixture
def resolving(world):
    """Set auto-resolve to an hour and the acknowledgement timeout to a quarter of an hour."""
    known = {"acknowledgement_timeout_enabled": True, "acknowledgement_timeout": 900}
    Service.update(auto_resolve_timeout=3600, **known).execute()
    set_policy(world, (0, world.alice))
    bump_version(world.account.id)


@pytest.mark.parametrize("action", ["acknowledged", "re-routed", "assigned", "assigned to nobody"])
def test_no_action_on_an_open_incident_delays_its_auto_resolve(
    timeline, world, apply_action, other_policy, resolving, action
):
    timeline.alert("Disk full")
    for place in range(3):
        timeline.after(minutes=18)
        if action == "acknowledged":
            timeline.alert("on it", "acknowledged")
        elif action == "re-routed":
            apply_action(
                incidents.change_policy,
                (other_policy, world.policy)[place % 2].id,
                policies=[other_policy.id],
            )
        else:
            apply_action(incidents.assign, get_person(world.charlie))
            apply_action(incidents.assign, None if action == "assigned to nobody" else get_person(world.bob))

    timeline.after(minutes=5, seconds=59)
    assert timeline.incident().status in (T, A)
    timeline.after(seconds=1)
    assert timeline.incident().status == R


def test_the_auto_resolve_time_starts_again_after_a_snooze(timeline, apply_action, resolving):
    """An incident triggered by the end of its snooze is not resolved in the next moment."""
    timeline.alert("Disk full")
    timeline.alert("on it", "acknowledged")
    apply_action(incidents.snooze, timeline.now + 59 * MINUTE)
    timeline.after(minutes=118)
    assert timeline.incident().status == T

    timeline.after(minutes=1)
    assert timeline.incident().status == R
