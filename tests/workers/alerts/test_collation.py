"""Time-based collation: alerts of a service within some minutes become one incident (contract 4.3)."""

from datetime import timedelta

import pytest

from models.domain.applications import GENERIC
from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.load.lane import lock_incident
from models.people import provisioning
from models.store.store import connection, store
from models.tables.accounts import bump_version
from models.tables.events import Entity, Event, Receipt, list_reasons
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.services import Service
from models.write.apply import apply
from pipeline import incidents
from tests.support.alert_sequences import run_parallel
from tests.support.alerts import accept
from workers.alerts import process_lane, taken_work

MINUTE = timedelta(minutes=1)


@pytest.fixture
def collating_service(world):
    set_collation(world, 1)
    return world


def set_collation(world, kind, minutes=10):
    changed = Service.update(collation=kind, collation_time=minutes)
    changed.where(Service.id == world.service.id).execute()
    bump_version(world.account.id)


def process_alert(world, at, entity, level="critical"):
    accept(world, at, message=f"{entity} {level}", alert_type=level, entity_id=entity, exactly=True)
    process_lane.run(world.service.id)
    return Event.select().order_by(Event.id.desc()).get()


def list_incidents():
    return list(Incident.select().order_by(Incident.id))


def test_alerts_within_the_window_are_one_incident_with_one_message(collating_service, now):
    for minute, entity in enumerate("abc"):
        process_alert(collating_service, now + minute * MINUTE, entity)

    assert [incident.title for incident in list_incidents()] == ["a critical"]
    assert {event.incident for event in Event.select()} == set(list_incidents())
    assert [event.incident_created for event in Event.select().order_by(Event.id)] == [True, False, False]
    assert Notification.select().count() == 1


def test_the_window_counts_from_the_incidents_creation_and_not_from_its_last_alert(collating_service, now):
    for minute, entity in ((0, "a"), (9, "b"), (10, "c"), (11, "d"), (12, "e")):
        process_alert(collating_service, now + minute * MINUTE, entity)

    assert [incident.title for incident in list_incidents()] == ["a critical", "d critical"]
    assert [incident.collecting for incident in list_incidents()] == [False, True]
    assert Event.get(Event.entity_id == "e").incident == list_incidents()[1]


def test_an_entity_whose_incident_is_open_stays_with_it_after_the_window(collating_service, now):
    process_alert(collating_service, now, "a")
    process_alert(collating_service, now + 60 * MINUTE, "b")
    event = process_alert(collating_service, now + 61 * MINUTE, "a")

    assert event.incident == list_incidents()[0]
    assert len(list_incidents()) == 2


def test_an_incident_is_resolved_when_no_entity_fires(collating_service, now):
    for entity in "abc":
        process_alert(collating_service, now, entity)
    for entity, status in (("b", 1), ("a", 1), ("b", 1), ("c", 3)):
        event = process_alert(collating_service, now + MINUTE, entity, "resolved")
        assert Incident.get().status == status, entity

    assert list_reasons(event)[-1] == ("dedupe", make_reason("resolves_incident"))


def test_an_entity_that_fires_again_keeps_the_incident_open(collating_service, now):
    for entity, level in (("a", "critical"), ("b", "critical"), ("a", "resolved"), ("a", "critical")):
        process_alert(collating_service, now, entity, level)
    process_alert(collating_service, now, "b", "resolved")

    assert [incident.status for incident in list_incidents()] == [1]
    process_alert(collating_service, now, "a", "resolved")
    assert [incident.status for incident in list_incidents()] == [3]


def test_an_alert_after_a_resolve_opens_another_incident(collating_service, now):
    process_alert(collating_service, now, "a")
    process_alert(collating_service, now, "a", "resolved")
    process_alert(collating_service, now + MINUTE, "b")

    assert [incident.status for incident in list_incidents()] == [3, 1]


def test_an_acknowledged_incident_goes_on_collecting(collating_service, now):
    process_alert(collating_service, now, "a")
    process_alert(collating_service, now, "b")
    process_alert(collating_service, now, "b", "acknowledged")
    event = process_alert(collating_service, now + MINUTE, "c")

    assert [incident.status for incident in list_incidents()] == [2]
    assert event.incident == list_incidents()[0]


@pytest.mark.parametrize("level", ["info", "warning", "resolved", "acknowledged"])
def test_an_alert_below_the_levels_joins_no_incident(collating_service, now, level):
    process_alert(collating_service, now, "a")

    assert process_alert(collating_service, now, "b", level).incident is None


def change_as_person(world, incident, to, at):
    with store().write_transaction():
        context = lock_incident(incident.id, Author(AuthorKind.USER, "Alice", world.alice.id), at)
        effects = incidents.change_status(context, to, make_reason("requested", by="Alice"))
        apply(ChangeSet(effects=list(effects)))


def test_an_alert_pages_after_a_person_resolved_the_incident(collating_service, now):
    for entity in "ab":
        process_alert(collating_service, now, entity)
    change_as_person(collating_service, list_incidents()[0], IncidentStatus.RESOLVED, now + MINUTE)

    assert not Entity.select().where(Entity.firing | Entity.incident.is_null(False)).exists()
    assert process_alert(collating_service, now + 2 * MINUTE, "a").incident_created


def test_a_reopened_incident_gets_its_entities_but_does_not_collect(collating_service, now):
    for entity in "ab":
        process_alert(collating_service, now, entity)
    first = list_incidents()[0]
    change_as_person(collating_service, first, IncidentStatus.RESOLVED, now + MINUTE)
    process_alert(collating_service, now + 2 * MINUTE, "c")
    change_as_person(collating_service, first, IncidentStatus.TRIGGERED, now + 3 * MINUTE)

    assert process_alert(collating_service, now + 4 * MINUTE, "a").incident == first
    assert process_alert(collating_service, now + 4 * MINUTE, "d").incident == list_incidents()[1]
    assert [incident.collecting for incident in list_incidents()] == [False, True]


def test_collation_can_be_switched_off_and_on(collating_service, now):
    process_alert(collating_service, now, "a")
    set_collation(collating_service, 0)
    process_alert(collating_service, now + MINUTE, "b")
    set_collation(collating_service, 1)
    joined = process_alert(collating_service, now + 2 * MINUTE, "c")
    set_collation(collating_service, 1, minutes=1)
    fresh = process_alert(collating_service, now + 3 * MINUTE, "d")

    assert [incident.title for incident in list_incidents()] == ["a critical", "b critical", "d critical"]
    assert (joined.incident, fresh.incident) == (list_incidents()[0], list_incidents()[2])
    assert [incident.collecting for incident in list_incidents()] == [False, False, True]


def test_two_integrations_of_a_service_collect_into_one_incident(collating_service, now):
    other = provisioning.create_integration(
        collating_service.service, "Other", GENERIC, collating_service.alice, now
    )
    process_alert(collating_service, now, "a")
    process_alert(replace(collating_service, integration=other), now, "a")
    assert len(list_incidents()) == 1

    process_alert(collating_service, now, "a", "resolved")
    assert list_incidents()[0].status == 1
    process_alert(replace(collating_service, integration=other), now, "a", "resolved")
    assert list_incidents()[0].status == 3


def test_concurrent_integrations_open_one_collecting_incident(collating_service, now):
    """Senders with different integrations and workers run at the same time."""
    integrations = [collating_service.integration] + [
        provisioning.create_integration(
            collating_service.service, f"Door {n}", GENERIC, collating_service.alice, now
        )
        for n in range(2)
    ]
    bump_version(collating_service.account.id)

    def build_sender(place, integration_of):
        def job():
            with connection():
                for number in range(10):
                    trace = place * 100 + number
                    with store().write_transaction():
                        accept(
                            replace(collating_service, integration=integration_of),
                            now,
                            message="m",
                            alert_type="critical",
                            entity_id=f"{number}",
                            trace=trace,
                            exactly=True,
                        )
                    process_lane.run(collating_service.service.id)

        return job

    run_parallel([build_sender(place, integration_of) for place, integration_of in enumerate(integrations)])
    process_lane.run(collating_service.service.id)

    assert not Receipt.select().where(Receipt.state == 0).exists()
    assert [incident.collecting for incident in list_incidents()] == [True]
    assert Entity.select().where(Entity.incident == list_incidents()[0], Entity.firing).count() == 30
    assert Event.select().where(Event.incident_created).count() == 1


def test_a_dead_letter_opens_an_incident_beside_the_collecting_one(collating_service, now, monkeypatch):
    process_alert(collating_service, now, "a")
    monkeypatch.setattr(taken_work, "parse_alerts", lambda *_: 1 / 0)
    accept(collating_service, now, message="poison")
    process_lane.run(collating_service.service.id)

    assert [incident.collecting for incident in list_incidents()] == [True, False]
