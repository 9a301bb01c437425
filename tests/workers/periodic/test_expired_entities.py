"""Each expired entity is reported once, and no report overtakes an alert that was accepted before it."""

import json
from datetime import timedelta

import pytest

from models.domain.applications import KINDS
from models.people import provisioning
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.tables.accounts import bump_version
from models.tables.events import Entity, Receipt
from models.tables.incidents import Incident
from pipeline.sources import expired
from tests.support.rules import accept_from_router, add_router, add_router_rule
from workers.alerts import process_lane, process_router
from workers.periodic import expired_entities

LASTS = timedelta(minutes=4)


@pytest.fixture
def report(now):
    """report(at): report what has expired at a time until which a web process took alerts."""

    def report(at):
        backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), at)
        return expired_entities.report_expired(at)

    report(now)
    return report


def expire(integration, name, at):
    return Entity.create(integration=integration, entity_id=name, firing=True, expires_at=at)


@pytest.fixture
def other(world, now):
    """An integration of another service."""
    service = provisioning.create_service(world.team, "Builds", world.policy, world.alice, now)
    application = KINDS["alertmanager"].unique_id
    return provisioning.create_integration(service, "Builds door", application, world.alice, now)


def list_reported():
    bodies = Receipt.select(Receipt.body).where(Receipt.source == expired.EXPIRED).order_by(Receipt.id)
    return [json.loads(bytes(body)) for (body,) in bodies.tuples()]


@pytest.fixture
def routed(world, now):
    """routed(at): a push that a router sends to the integration, accepted at this time."""
    router = add_router(world)
    add_router_rule(router, world.integration)
    bump_version(world.account.id)

    def push(at):
        labels = {"alertname": "DiskFull", "severity": "critical"}
        alert = {"labels": labels, "startsAt": now.isoformat(), "endsAt": (at + LASTS).isoformat()}
        accept_from_router(router, at, source="alertmanager", body=[alert], exactly=True)

    def route():
        process_router.run(router.id)
        for stage in ("normalize", "rules"):
            process_lane.run(world.service.id, stage)

    push.route = route
    return push


def test_a_pending_push_in_the_lane_of_a_router_extends_its_entity(world, now, report, routed):
    routed(now)
    routed.route()
    routed(now + timedelta(minutes=3))
    count = report(now + timedelta(minutes=5))
    routed.route()

    assert count == 0
    assert report(now + timedelta(minutes=6)) == 0
    assert [row.status for row in Incident.select()] == [1]


def test_an_entity_that_expired_before_the_pending_push_was_received_is_reported(
    world, now, report, routed, other
):
    expire(other, "gone", now - timedelta(seconds=1))
    expire(other, "maybe", now + timedelta(seconds=1))
    routed(now)

    assert report(now + timedelta(minutes=1)) == 1
    assert list_reported() == [["gone"]]


def test_an_entity_that_expires_twice_at_the_same_time_is_reported_twice(world, now, report):
    entity = expire(world.integration, "db1", now)
    report(now + timedelta(seconds=5))
    Entity.update(expires_at=now).where(Entity.id == entity.id).execute()

    assert report(now + timedelta(seconds=10)) == 1
    assert list_reported() == [["db1"], ["db1"]]


def test_locked_services_do_not_hide_those_after_them(world, now, report, other, monkeypatch):
    monkeypatch.setattr(expired_entities, "BATCH_SIZE", 2)
    for number in range(5):
        expire(world.integration, f"held-{number}", now - timedelta(minutes=1))
    for number in range(5):
        expire(other, f"free-{number}", now)
    held = {world.service.id}
    free = expired_entities._FREE
    monkeypatch.setattr(expired_entities, "_FREE", _Locked(free, held))

    assert report(now + timedelta(minutes=1)) == 5
    held.clear()
    assert report(now + timedelta(minutes=1, seconds=5)) == 5
    assert sorted(name for names in list_reported() for name in names) == sorted(
        [f"{kind}-{number}" for kind in ("held", "free") for number in range(5)]
    )


class _Locked:
    """The query of services that are not locked, as if other workers had locked some: SQLite locks none."""

    def __init__(self, query, held):
        self._query, self._held = query, held

    def rows(self, services):
        return self._query.rows(services=[row for row in services if row not in self._held])
