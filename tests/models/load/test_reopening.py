"""Entities of a reopened incident (contract section 4.3)."""

from datetime import timedelta

import pytest

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus
from models.load.lane import lock_incident
from models.store.store import store
from models.tables.events import Entity
from models.tables.incidents import Incident
from models.write.apply import apply
from pipeline import incidents
from tests.support.alerts import accept
from workers.alerts import process_lane

MINUTE = timedelta(minutes=1)


def process_alert(world, kind, at, entity="db1"):
    accept(world, at, message="Disk full", alert_type=kind, entity_id=entity)
    process_lane.run(world.service.id)


def change_status(to, at):
    """Change the status of the first incident, as Bob."""
    first = Incident.select().order_by(Incident.id).get()
    with store().write_transaction():
        context = lock_incident(first.id, Author(AuthorKind.USER, "Bob"), at)
        effects = incidents.change_status(context, to, "asked for")
        apply(ChangeSet(effects=list(effects)))


@pytest.mark.parametrize(("meanwhile", "firing"), [(None, True), ("resolved", False)])
def test_a_reopened_incident_has_a_firing_entity_unless_it_was_resolved_meanwhile(
    world, now, meanwhile, firing
):
    process_alert(world, "critical", now)
    change_status(IncidentStatus.RESOLVED, now + MINUTE)
    if meanwhile:
        process_alert(world, meanwhile, now + 2 * MINUTE)
    change_status(IncidentStatus.TRIGGERED, now + 3 * MINUTE)

    entity = Entity.get()
    assert (entity.firing, entity.incident) == (firing, Incident.get())


def test_an_entity_of_another_open_incident_stays_there(world, now):
    process_alert(world, "critical", now)
    change_status(IncidentStatus.RESOLVED, now + MINUTE)
    process_alert(world, "critical", now + 2 * MINUTE)
    change_status(IncidentStatus.TRIGGERED, now + 3 * MINUTE)

    assert Entity.get().incident == Incident.select().order_by(Incident.id.desc()).get()
