"""Incidents with due timers."""

from datetime import timedelta

import pytest

from models.domain.applications import GENERIC
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.schedules import Schedule
from models.tables.teams import EscalationPolicy
from pipeline.incidents.decide_timer import decide_timer
from tests.support.alerts import accept
from workers.alerts import process_lane

MINUTE = timedelta(minutes=1)


def set_policy(world, *steps, **columns):
    """Set the steps of the policy; each step is (minutes, user or schedule, ...)."""
    rules = [
        {
            "unique_id": make_uuid(),
            "delay": delay,
            "position": position,
            "targets": [build_target(target, place) for place, target in enumerate(targets)],
        }
        for position, (delay, *targets) in enumerate(steps, start=1)
    ]
    EscalationPolicy.update(rules=rules, **columns).where(EscalationPolicy.id == world.policy.id).execute()
    provisioning.bump_version(world.account.id)


def build_target(target, place):
    if isinstance(target, Schedule):
        return {"target_type": 1, "target_id": target.unique_id, "position": place}
    return {"target_type": 2, "target_id": target.username, "position": place}


def open_incident(world, now, entity="db1"):
    accept(world, now, message="Disk full", alert_type="critical", entity_id=entity, trace=0)
    process_lane.run(world.service.id)
    return Incident.get()


def list_notified():
    return [(n.user.first_name, n.not_before) for n in Notification.select().order_by(Notification.id)]


def open_incidents(world, now, *entities):
    for entity in entities:
        accept(world, now, message="Disk full", alert_type="critical", entity_id=entity, exactly=True)
    process_lane.run(world.service.id)


@pytest.fixture
def other_service(world, now):
    """The world with another service of the team."""
    with store().write_transaction():
        service = provisioning.create_service(world.team, "Search", world.policy, world.alice, now)
        integration = provisioning.create_integration(service, "Probe", GENERIC, world.alice, now)
    return replace(world, service=service, integration=integration)


def failing_for(incident):
    def decide(context, kind, key):
        if context.incident.row == incident:
            raise ZeroDivisionError
        return decide_timer(context, kind, key)

    return decide
