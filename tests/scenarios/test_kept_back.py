"""What maintenance keeps back is forgotten only when it burns no more, or a person has seen it."""

from datetime import timedelta

import pytest

from models.accounts import raise_version
from models.apply import apply
from models.base import store
from models.effects import Actor, Outcome
from models.enums import ActorKind, IncidentStatus, ServiceStatus, WorkState
from models.events import Event
from models.incidents import Incident
from models.loading import lock_families, lock_incident
from models.services import Integration
from pipeline import moves
from pipeline.sources import heartbeat
from pipeline.topology import segments
from tests.alerts import accept
from tests.scenarios.test_maintenance_nights import (
    DISK,
    HOUR,
    MINUTE,
    NEW,
    kept_back,
    road_of,
    set_service,
    work_by,
)
from workers import maintenance, retention

ALICE = Actor(ActorKind.USER, "Alice")
AGAIN = "[Checkout] #2 Disk full on db1 (critical)"
THIRD = "[Checkout] #3 Disk full on db1 (critical)"


def test_an_incident_that_resolves_itself_leaves_what_burns_again(night, world, window):
    set_service(world, auto_resolve_timeout=3600)
    night.alert("Disk full on db1")
    night.after(minutes=10)
    window(night.now, night.now + 3 * HOUR)
    night.after(minutes=30)
    trace_id = night.alert("Disk full on db1")
    night.after(minutes=20)
    assert night.incident().status == IncidentStatus.RESOLVED
    assert night.mails() == [("alice", DISK)]

    night.after(hours=3)
    assert night.mails() == [("alice", AGAIN)]
    assert ("dedupe", NEW) in road_of(trace_id)


def test_one_of_whose_entities_the_others_recovered_leaves_it_too(night, world, window):
    set_service(world, collation=1, collation_time=10)
    night.alert("Disk full on db2", entity="db2")
    night.alert("Disk full on db1", entity="db1")
    night.after(minutes=10)
    window(night.now, night.now + HOUR)
    night.alert("fine", "resolved", entity="db1")
    night.alert("Disk full on db1", entity="db1")
    night.alert("fine", "resolved", entity="db2")
    assert night.incident().status == IncidentStatus.RESOLVED
    assert len(kept_back()) == 1
    night.mails()

    night.after(hours=1)
    assert night.mails() == [("alice", AGAIN)]


def test_a_person_who_resolves_the_incident_has_seen_what_was_kept_back(night, window):
    night.alert("Disk full on db1")
    window()
    night.alert("Disk full on db1")
    assert len(kept_back()) == 1

    resolve(night, night.incident())
    night.after(hours=2)

    assert Incident.select().count() == 1


@pytest.mark.parametrize(
    ("how", "mails"),
    [
        (lambda night, parent: resolve(night, parent), []),
        (lambda night, parent: night.alert("fine", "resolved", entity="db2"), [("alice", THIRD)]),
    ],
    ids=["a person", "a source"],
)
def test_the_same_of_what_is_merged_into_what_is_resolved(night, window, how, mails):
    night.alert("Disk full on db2", entity="db2")
    parent = night.incident()
    night.alert("Disk full on db1", entity="db1")
    merge(night, parent, night.incident())
    window()
    night.alert("Disk full on db1", entity="db1")
    night.mails()

    how(night, parent)
    night.after(hours=1)

    assert night.mails() == mails


@pytest.mark.parametrize("is_open", [True, False], ids=["open again", "resolved again"])
def test_an_incident_that_is_reopened_takes_what_was_kept_back_of_it(night, world, window, is_open):
    set_service(world, auto_resolve_timeout=3600)
    night.alert("Disk full on db1")
    window(night.now + MINUTE, night.now + 3 * HOUR)
    night.after(minutes=30)
    night.alert("Disk full on db1")
    night.after(minutes=30)
    reopened = night.incident()
    move(night, reopened, IncidentStatus.ACKNOWLEDGED)
    if not is_open:
        resolve(night, reopened)
    set_service(world, auto_resolve_timeout=0)
    night.after(hours=3)

    assert Incident.select().count() == 1
    assert Event.select().where(Event.incident == reopened).count() == 1 + is_open


def resolve(night, incident):
    move(night, incident, IncidentStatus.RESOLVED)


def move(night, incident, to):
    with store().writing():
        found = lock_incident(incident.id)
        around = (found.service, found.directory, ALICE, night.now, "done", found.children)
        apply(Outcome(effects=list(moves.move(found.incident, to, *around))))


def merge(night, parent, child):
    with store().writing():
        found = lock_families([parent.id, child.id]).incidents
        merged = moves.merge(found[parent.id], [found[child.id]], (), ALICE, night.now)
        apply(Outcome(effects=list(merged)), {one.unique_id: one.row for one in found.values()})


def test_a_disabled_service_tells_when_it_is_enabled_again_what_still_burns(night, world, window):
    window()
    night.alert("Disk full on db1", entity="db1")
    night.alert("Disk full on db2", entity="db2")
    set_service(world, status=ServiceStatus.DISABLED)
    night.after(hours=2)
    night.alert("fine", "resolved", entity="db2")
    assert night.mails() == []

    set_service(world, status=ServiceStatus.ACTIVE)
    night.after(seconds=1)
    assert night.mails() == [("alice", DISK)]
    assert Incident.select().count() == 1


def test_what_was_released_before_the_service_was_disabled_is_told_when_it_is_enabled_again(
    night, world, window
):
    window()
    trace_id = night.alert("Disk full on db1")
    night.now += HOUR
    assert maintenance.release(night.now) == 1
    set_service(world, status=ServiceStatus.DISABLED)
    night.after(hours=1)
    assert road_of(trace_id)[-1] == ("dedupe", "the service is disabled: to be told when it is enabled again")

    set_service(world, status=ServiceStatus.ACTIVE)
    night.after(seconds=1)
    assert night.mails() == [("alice", DISK)]


@pytest.mark.parametrize("cuts", [(), ("normalize", "route", "rules")], ids=str)
@pytest.mark.parametrize("comes", [True, False], ids=["the ping comes", "no ping comes"])
def test_that_a_ping_is_missing_is_told_when_the_service_is_enabled_again_unless_it_came(
    night, world, monkeypatch, cuts, comes
):
    work_by(night, monkeypatch, segments(cuts))
    missing = heartbeat.missing("Backup", night.now - HOUR, HOUR, MINUTE)
    accept(world, night.now, source="heartbeat", body=missing, exactly=True)
    set_service(world, status=ServiceStatus.DISABLED)
    night.after(minutes=1)
    assert len(kept_back()) == 1
    if comes:
        accept(world, night.now, source="heartbeat", body=b"", exactly=True)
    night.after(minutes=1)

    set_service(world, status=ServiceStatus.ACTIVE)
    night.after(seconds=1)
    assert len(night.mails()) == (0 if comes else 1)


def test_what_others_say_while_the_service_is_disabled_is_not_told_when_it_is_enabled_again(night, world):
    set_service(world, status=ServiceStatus.DISABLED)
    night.alert("Disk full on db1")
    accept(world, night.now, source="heartbeat", body=b'{"status": "failed"}', exactly=True)
    night.after(minutes=1)

    set_service(world, status=ServiceStatus.ACTIVE)
    night.after(hours=1)
    assert night.mails() == []


def test_what_a_deleted_integration_left_is_dropped(night, world, window):
    window()
    night.alert("Disk full on db1")
    Integration.delete().where(Integration.id == world.integration.id).execute()
    raise_version(world.account.id)
    night.after(hours=2)

    assert night.mails() == []
    assert [event.state for event in Event.select()] == [WorkState.DONE]


def test_what_is_kept_back_is_not_forgotten_however_long_it_is(night, world, window, now):
    set_service(world, under_maintenance=True)
    night.alert("Disk full on db1", entity="db1")
    night.alert("fine", "info", entity="db2")
    night.now += timedelta(days=40)
    assert retention.clean_up(night.now) == 1

    set_service(world, under_maintenance=False)
    night.after(seconds=1)
    assert night.mails() == [("alice", DISK)]
