"""Scenarios in which a person snoozes an incident or merges incidents."""

import pytest

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus
from models.load.lane import lock_incident, lock_with_children
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.services import Service
from models.write.apply import apply
from pipeline import incidents
from tests.support.scenarios.timers import MINUTE, set_policy

ALICE = Author(AuthorKind.USER, "Alice")


@pytest.fixture
def apply_action(timeline):
    """apply_action(incidents.snooze, until): apply an action of Alice to the newest incident, now."""

    def apply_to_newest(how, *more):
        with store().write_transaction():
            context = lock_incident(timeline.incident().id, ALICE, timeline.now)
            apply(ChangeSet(effects=list(how(context, *more))))

    return apply_to_newest


def list_notified(timeline):
    return [person for person, _ in timeline.mails()]


@pytest.mark.parametrize("timeout_s", [0, 900], ids=["no timeout", "a timeout of 15 minutes"])
def test_a_snoozed_incident_notifies_again_at_the_end_of_the_snooze(timeline, world, apply_action, timeout_s):
    Service.update(
        acknowledgement_timeout_enabled=bool(timeout_s), acknowledgement_timeout=timeout_s
    ).execute()
    set_policy(world, (0, world.alice), (10, world.bob))
    timeline.alert("Disk full on db1")
    timeline.after(minutes=5)
    timeline.alert("on it", "acknowledged")
    apply_action(incidents.snooze, timeline.now + 480 * MINUTE)
    assert list_notified(timeline) == ["alice"]

    timeline.alert("Disk full on db1")
    timeline.after(hours=7, minutes=59)
    assert list_notified(timeline) == []

    timeline.after(minutes=1)
    assert list_notified(timeline) == ["alice"]
    timeline.after(minutes=10)
    assert list_notified(timeline) == ["bob"]


def test_an_incident_resolved_during_a_snooze_notifies_nobody_again(timeline, world, apply_action):
    timeline.alert("Disk full on db1")
    timeline.alert("on it", "acknowledged")
    apply_action(incidents.snooze, timeline.now + 60 * MINUTE)
    timeline.after(minutes=30)
    timeline.alert("Disk full on db1", "resolved")
    timeline.after(hours=5)

    (opened, resolved) = timeline.mails()
    assert (opened[0], resolved[0]) == ("alice", "alice")
    assert "resolved after" in resolved[1]


def test_an_unsnoozed_incident_has_an_acknowledgement_timeout_again(timeline, world, apply_action):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=900).execute()
    timeline.alert("Disk full on db1")
    timeline.alert("on it", "acknowledged")
    apply_action(incidents.snooze, timeline.now + 60 * MINUTE)
    timeline.after(minutes=30)
    apply_action(incidents.unsnooze)
    assert list_notified(timeline) == ["alice"]

    timeline.after(minutes=14)
    assert list_notified(timeline) == []
    timeline.after(minutes=1)
    assert list_notified(timeline) == ["alice"]


def test_merged_incidents_notify_only_for_new_entities(timeline, world):
    set_policy(world, (0, world.alice), (10, world.bob))
    for entity in ("db1", "db2", "db3"):
        timeline.alert(f"Disk full on {entity}", entity=entity)
    assert len(list_notified(timeline)) == 3
    first, *other_incidents = Incident.select().order_by(Incident.id)
    with store().write_transaction():
        found = lock_with_children([row.id for row in (first, *other_incidents)])
        states = list(found.incidents.values())
        effects = incidents.merge(states[0], states[1:], [], ALICE, timeline.now)
        apply(ChangeSet(effects=list(effects)), {first.unique_id: first.id})

    timeline.after(minutes=10)
    assert [subject for _, subject in timeline.mails()] == ["[Checkout] #1 Disk full on db1 (critical)"]
    timeline.alert("Disk full on db2", entity="db2")
    assert list_notified(timeline) == []
    timeline.alert("Disk full on db4", entity="db4")
    assert list_notified(timeline) == ["alice"]

    timeline.alert("all is well", "resolved", entity="db1")
    assert [row.status for row in Incident.select().order_by(Incident.id)] == [
        *[IncidentStatus.RESOLVED] * 3,
        IncidentStatus.TRIGGERED,
    ]
