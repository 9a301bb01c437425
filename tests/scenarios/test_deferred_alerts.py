"""A deferred alert is dropped only if its entity is resolved or a person resolved the incident."""

from datetime import timedelta

import pytest

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus, ServiceStatus, WorkState
from models.domain.reasons import make_reason
from models.load.lane import lock_incident, lock_with_children
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.services import Integration
from models.write.apply import apply
from pipeline import incidents
from pipeline.sources import heartbeat
from pipeline.topology import build_segments
from tests.support.alerts import accept
from tests.support.scenarios.maintenance import (
    DISK,
    HOUR,
    MINUTE,
    NEW,
    deferred_alert,
    get_stage_reasons,
    set_service,
    use_segments,
)
from workers.periodic import release_maintenance, retention

ALICE = Author(AuthorKind.USER, "Alice")
AGAIN = "[Checkout] #2 Disk full on db1 (critical)"
THIRD = "[Checkout] #3 Disk full on db1 (critical)"
RECOVERED = "[Checkout] 2 incidents are resolved: Disk full on db2, Disk full on db1"


def test_an_auto_resolved_incident_does_not_drop_a_deferred_alert(timeline, world, window):
    set_service(world, auto_resolve_timeout=3600)
    timeline.alert("Disk full on db1")
    timeline.after(minutes=10)
    window(timeline.now, timeline.now + 3 * HOUR)
    timeline.after(minutes=30)
    trace_id = timeline.alert("Disk full on db1")
    timeline.after(minutes=20)
    assert timeline.incident().status == IncidentStatus.RESOLVED
    assert timeline.mails() == [
        ("alice", DISK),
        ("alice", "[Checkout] #1 Disk full on db1 (critical): resolved after 1 h"),
    ]

    timeline.after(hours=3)
    assert timeline.mails() == [("alice", AGAIN)]
    assert ("dedupe", NEW) in get_stage_reasons(trace_id)


def test_an_incident_resolved_by_its_other_entities_does_not_drop_a_deferred_alert(timeline, world, window):
    set_service(world, collation=1, collation_time=10)
    timeline.alert("Disk full on db2", entity="db2")
    timeline.alert("Disk full on db1", entity="db1")
    timeline.after(minutes=10)
    window(timeline.now, timeline.now + HOUR)
    timeline.alert("fine", "resolved", entity="db1")
    timeline.alert("Disk full on db1", entity="db1")
    timeline.alert("fine", "resolved", entity="db2")
    assert timeline.incident().status == IncidentStatus.RESOLVED
    assert len(deferred_alert()) == 1
    timeline.mails()

    timeline.after(hours=1)
    assert timeline.mails() == [("alice", AGAIN)]


def test_a_person_who_resolves_the_incident_drops_its_deferred_alert(timeline, window):
    timeline.alert("Disk full on db1")
    window()
    timeline.alert("Disk full on db1")
    assert len(deferred_alert()) == 1

    resolve(timeline, timeline.incident())
    timeline.after(hours=2)

    assert Incident.select().count() == 1


@pytest.mark.parametrize(
    ("how", "mails"),
    [
        (lambda timeline, parent: resolve(timeline, parent), [("alice", RECOVERED)]),
        (
            lambda timeline, parent: timeline.alert("fine", "resolved", entity="db2"),
            [("alice", RECOVERED), ("alice", THIRD)],
        ),
    ],
    ids=["a person", "a source"],
)
def test_a_person_who_resolves_the_parent_drops_the_deferred_alert_of_a_merged_incident(
    timeline, window, how, mails
):
    timeline.alert("Disk full on db2", entity="db2")
    parent = timeline.incident()
    timeline.alert("Disk full on db1", entity="db1")
    merge(timeline, parent, timeline.incident())
    window()
    timeline.alert("Disk full on db1", entity="db1")
    timeline.mails()

    how(timeline, parent)
    timeline.after(hours=1)

    assert timeline.mails() == mails


@pytest.mark.parametrize("is_open", [True, False], ids=["open again", "resolved again"])
def test_a_reopened_incident_gets_its_deferred_alert(timeline, world, window, is_open):
    set_service(world, auto_resolve_timeout=3600)
    timeline.alert("Disk full on db1")
    window(timeline.now + MINUTE, timeline.now + 3 * HOUR)
    timeline.after(minutes=30)
    timeline.alert("Disk full on db1")
    timeline.after(minutes=30)
    reopened = timeline.incident()
    change_status(timeline, reopened, IncidentStatus.ACKNOWLEDGED)
    if not is_open:
        resolve(timeline, reopened)
    set_service(world, auto_resolve_timeout=0)
    timeline.after(hours=3)

    assert Incident.select().count() == 1
    assert Event.select().where(Event.incident == reopened).count() == 1 + is_open


def resolve(timeline, incident):
    change_status(timeline, incident, IncidentStatus.RESOLVED)


def change_status(timeline, incident, to):
    with store().write_transaction():
        context = lock_incident(incident.id, ALICE, timeline.now)
        why = make_reason("requested", by="Alice")
        apply(ChangeSet(effects=list(incidents.change_status(context, to, why))))


def merge(timeline, parent, child):
    with store().write_transaction():
        found = lock_with_children([parent.id, child.id]).incidents
        merged = incidents.merge(found[parent.id], [found[child.id]], (), ALICE, timeline.now)
        apply(ChangeSet(effects=list(merged)), {one.unique_id: one.row for one in found.values()})


def test_a_service_that_is_enabled_again_reports_deferred_alerts_that_are_still_firing(
    timeline, world, window
):
    window()
    timeline.alert("Disk full on db1", entity="db1")
    timeline.alert("Disk full on db2", entity="db2")
    set_service(world, status=ServiceStatus.DISABLED)
    timeline.after(hours=2)
    timeline.alert("fine", "resolved", entity="db2")
    assert timeline.mails() == []

    set_service(world, status=ServiceStatus.ACTIVE)
    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]
    assert Incident.select().count() == 1


def test_an_alert_released_before_the_service_was_disabled_is_reported_when_it_is_enabled_again(
    timeline, world, window
):
    window()
    trace_id = timeline.alert("Disk full on db1")
    timeline.now += HOUR
    assert release_maintenance.release_deferred(timeline.now) == 1
    set_service(world, status=ServiceStatus.DISABLED)
    timeline.after(hours=1)
    assert get_stage_reasons(trace_id)[-1] == (
        "dedupe",
        "Service Checkout is disabled: the alert is deferred until the service is enabled again.",
    )

    set_service(world, status=ServiceStatus.ACTIVE)
    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]


@pytest.mark.parametrize("splits", [(), ("normalize", "route", "rules")], ids=str)
@pytest.mark.parametrize("pings", [True, False], ids=["the ping comes", "no ping comes"])
def test_a_missing_ping_is_reported_when_the_service_is_enabled_again_unless_a_ping_arrived(
    timeline, world, monkeypatch, splits, pings
):
    use_segments(timeline, monkeypatch, build_segments(splits))
    missing = heartbeat.build_missing("Backup", timeline.now - HOUR, HOUR, MINUTE)
    accept(world, timeline.now, source=heartbeat.MISSING_PING, body=missing, exactly=True)
    set_service(world, status=ServiceStatus.DISABLED)
    timeline.after(minutes=1)
    assert len(deferred_alert()) == 1
    if pings:
        accept(world, timeline.now, source="heartbeat", body=b"", exactly=True)
    timeline.after(minutes=1)

    set_service(world, status=ServiceStatus.ACTIVE)
    timeline.after(seconds=1)
    assert len(timeline.mails()) == (0 if pings else 1)


def test_other_alerts_of_a_disabled_service_are_not_reported_when_it_is_enabled_again(timeline, world):
    set_service(world, status=ServiceStatus.DISABLED)
    timeline.alert("Disk full on db1")
    accept(world, timeline.now, source="heartbeat", body=b'{"status": "failed"}', exactly=True)
    timeline.after(minutes=1)

    set_service(world, status=ServiceStatus.ACTIVE)
    timeline.after(hours=1)
    assert timeline.mails() == []


def test_a_deferred_alert_of_a_deleted_integration_is_dropped(timeline, world, window):
    window()
    timeline.alert("Disk full on db1")
    Integration.delete().where(Integration.id == world.integration.id).execute()
    bump_version(world.account.id)
    timeline.after(hours=2)

    assert timeline.mails() == []
    assert [event.state for event in Event.select()] == [WorkState.DONE]


def test_retention_keeps_a_deferred_alert_for_any_length_of_maintenance(timeline, world, window, now):
    set_service(world, under_maintenance=True)
    timeline.alert("Disk full on db1", entity="db1")
    timeline.alert("fine", "info", entity="db2")
    timeline.now += timedelta(days=40)
    assert retention.clean_up(timeline.now) == 1

    set_service(world, under_maintenance=False)
    timeline.after(seconds=1)
    assert timeline.mails() == [("alice", DISK)]
