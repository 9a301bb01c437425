"""Nights on which incidents are handed from one to the next: whoever is to hear of them still does, and their
time-outs go on."""

import pytest

from models.accounts import raise_version
from models.apply import apply
from models.base import store
from models.directories import people
from models.effects import Outcome
from models.enums import IncidentStatus
from models.ids import new_uuid
from models.loading import lock_incident
from models.services import Service
from models.teams import EscalationPolicy
from models.users import NotificationRule
from pipeline import moves
from schedules.responders import Call, call_responders
from tests.scenarios.conftest import ALICE
from tests.workers.test_timers import MINUTE, set_policy
from workers import audit
from workers.replanning import plan_anew

A, R, T = IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED, IncidentStatus.TRIGGERED


def delayed(world, user, minutes):
    """Somebody is told so many minutes after they were named."""
    NotificationRule.update(start_delay=minutes).where(NotificationRule.user == user).execute()
    raise_version(world.account.id)


def facts(user):
    return people([user.username])[user.username]


@pytest.fixture
def other(world, night):
    """Another policy, which tells Alice."""
    rules = EscalationPolicy.get_by_id(world.policy.id).rules
    known = {"unique_id": new_uuid(), "creation_date": night.now}
    return EscalationPolicy.create(team=world.team, name="Other", rules=rules, **known)


def told(night):
    return [person for person, _ in night.mails()]


@pytest.mark.parametrize("to", ["a person", "another policy", "nobody"])
def test_who_was_asked_to_help_is_told_whoever_has_it(night, world, moved, other, to):
    delayed(world, world.bob, 5)
    night.alert("Disk full")
    with store().writing():
        found = lock_incident(night.incident().id)
        call = Call("call", facts(world.bob))
        asked = call_responders(found.incident, [call], found.directory, ALICE, night.now)
        apply(Outcome(effects=list(asked)), {found.incident.unique_id: night.incident().id})
    if to == "a person":
        moved(moves.assign, facts(world.charlie))
    elif to == "nobody":
        moved(moves.assign, None)
    else:
        moved(moves.change_policy, other.id, policies=[other.id])
    night.after(minutes=4)
    told(night)

    night.after(minutes=1)
    assert told(night) == ["bob"]


def test_who_keeps_what_goes_to_another_policy_is_told_of_it(night, world, moved, other):
    delayed(world, world.charlie, 5)
    night.alert("Disk full")
    moved(moves.assign, facts(world.charlie))
    night.after(minutes=1)
    assert told(night) == ["alice"]

    moved(moves.change_policy, other.id, policies=[other.id], keeps_assignee=True)
    night.after(minutes=30)
    assert night.incident().assigned_to == world.charlie
    assert told(night) == ["alice", "charlie"]


def test_what_is_taken_from_somebody_and_given_to_nobody_begins_its_chain_anew(night, world, moved):
    delayed(world, world.charlie, 5)
    set_policy(world, (0, world.alice), (10, world.bob))
    night.alert("Disk full")
    moved(moves.assign, facts(world.charlie))
    night.after(minutes=1)
    assert told(night) == ["alice"]

    moved(moves.assign, None)
    night.after(minutes=30)
    assert told(night) == ["alice", "bob"]
    night.after(minutes=600)
    assert told(night) == []


@pytest.mark.parametrize("audited", [False, True])
@pytest.mark.parametrize("at", [2, 20], ids=["in the middle", "at the end"])
def test_who_hears_of_a_chain_whose_policy_is_deleted_does_not_depend_on_an_audit(
    night, world, other, audited, at
):
    set_policy(world, (0, world.bob), (10, world.charlie))
    night.alert("Disk full")
    night.after(minutes=at)
    assert told(night) == (["bob"] if at == 2 else ["bob", "charlie"])
    Service.update(escalation_policy=other).execute()
    world.policy.delete_instance()
    raise_version(world.account.id)

    for _ in range(10):
        if audited:
            audit.audit(night.now)
        night.after(minutes=5)

    assert told(night) == (["alice"] if at == 2 else [])


@pytest.mark.parametrize("looks", ["the bell", "the audit"])
@pytest.mark.parametrize("length", ["short", "long again"])
def test_a_chain_that_was_cut_short_has_ended_unless_its_policy_is_long_again(
    night, world, other, looks, length
):
    def planned():
        audit.audit(night.now) if looks == "the audit" else plan_anew("escalation_policy", row, night.now)

    row, steps = world.policy.id, [(0, world.bob), (5, world.charlie), (30, world.bob)]
    set_policy(world, *steps)
    night.alert("Disk full")
    night.after(minutes=6)
    assert told(night) == ["bob", "charlie"]
    set_policy(world, *steps[:2])
    planned()
    assert night.incident().chain_over
    if length == "long again":
        set_policy(world, *steps)
        planned()

    Service.update(escalation_policy=other).execute()
    world.policy.delete_instance()
    raise_version(world.account.id)
    audit.audit(night.now)
    night.after(minutes=600)
    assert told(night) == ([] if length == "short" else ["alice"])


@pytest.fixture
def resolving(world):
    """The service's incidents resolve themselves after an hour; acknowledgements last a quarter of one."""
    known = {"acknowledgement_timeout_enabled": True, "acknowledgement_timeout": 900}
    Service.update(auto_resolve_timeout=3600, **known).execute()
    set_policy(world, (0, world.alice))
    raise_version(world.account.id)


@pytest.mark.parametrize("happening", ["acknowledged", "re-routed", "assigned", "assigned to nobody"])
def test_nothing_that_leaves_an_incident_open_makes_it_younger(
    night, world, moved, other, resolving, happening
):
    night.alert("Disk full")
    for place in range(3):
        night.after(minutes=18)
        if happening == "acknowledged":
            night.alert("on it", "acknowledged")
        elif happening == "re-routed":
            moved(moves.change_policy, (other, world.policy)[place % 2].id, policies=[other.id])
        else:
            moved(moves.assign, facts(world.charlie))
            moved(moves.assign, None if happening == "assigned to nobody" else facts(world.bob))

    night.after(minutes=5, seconds=59)
    assert night.incident().status in (T, A)
    night.after(seconds=1)
    assert night.incident().status == R


def test_woken_it_has_its_whole_time_again(night, moved, resolving):
    """Triggered by the end of its sleep, it is not over in the next moment."""
    night.alert("Disk full")
    night.alert("on it", "acknowledged")
    moved(moves.snooze, night.now + 59 * MINUTE)
    night.after(minutes=118)
    assert night.incident().status == T

    night.after(minutes=1)
    assert night.incident().status == R
