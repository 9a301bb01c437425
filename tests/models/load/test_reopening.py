"""What a reopened incident takes back: contract section 4.3."""

from datetime import timedelta

import pytest

from models.domain.effects import Actor, ChangeSet
from models.domain.enums import ActorKind, IncidentStatus
from models.load.lane import lock_incident
from models.store.base import store
from models.tables.events import Entity
from models.tables.incidents import Incident
from models.write.apply import apply
from pipeline import incidents
from tests.support.alerts import accept
from workers.alerts import process_lane

MINUTE = timedelta(minutes=1)


def alert(world, kind, at, entity="db1"):
    accept(world, at, message="Disk full", alert_type=kind, entity_id=entity)
    process_lane.run(world.service.id)


def move(to, at):
    """A person moves the first incident."""
    first = Incident.select().order_by(Incident.id).get()
    with store().write_transaction():
        found = lock_incident(first.id)
        actor = Actor(ActorKind.USER, "Bob")
        effects = incidents.change_status(
            found.incident, to, found.service, found.config, actor, at, "asked for"
        )
        apply(ChangeSet(effects=list(effects)))


@pytest.mark.parametrize(("meanwhile", "firing"), [(None, True), ("resolved", False)])
def test_an_entity_fires_unless_its_source_said_resolved_even_meanwhile(world, now, meanwhile, firing):
    alert(world, "critical", now)
    move(IncidentStatus.RESOLVED, now + MINUTE)
    if meanwhile:
        alert(world, meanwhile, now + 2 * MINUTE)
    move(IncidentStatus.TRIGGERED, now + 3 * MINUTE)

    entity = Entity.get()
    assert (entity.firing, entity.incident) == (firing, Incident.get())


def test_an_entity_that_another_open_incident_holds_stays_there(world, now):
    alert(world, "critical", now)
    move(IncidentStatus.RESOLVED, now + MINUTE)
    alert(world, "critical", now + 2 * MINUTE)
    move(IncidentStatus.TRIGGERED, now + 3 * MINUTE)

    assert Entity.get().incident == Incident.select().order_by(Incident.id.desc()).get()
