"""Pings in a lane: what they cost, in which batches they come, and by which key."""

from datetime import timedelta

import pytest

from models import metrics
from models.accounts import raise_version
from models.applications import HEARTBEAT
from models.enums import RouterAction
from models.events import Event, Receipt
from models.ids import new_uuid
from models.metrics import Life
from models.routers import GlobalRouter, RouterRule
from models.services import Integration
from tests.alerts import accept
from workers import heartbeats, road, routing

EVERY, GRACE = timedelta(seconds=300), timedelta(seconds=60)


@pytest.fixture
def expecting(world, now):
    """The integration expects a ping, the first within six minutes; a web process has long been there."""
    values = {"heartbeat_every": 300, "heartbeat_grace": 60, "expected_at": now + EVERY + GRACE}
    Integration.update(application=HEARTBEAT, **values).execute()
    raise_version(world.account.id)
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), now)
    return world


def ping(world, at, **more):
    return accept(world, at, source="heartbeat", body=b"", exactly=True, **more)


def expected_at():
    return Integration.get().expected_at


def test_many_pings_cost_as_many_statements_as_one(expecting, now, statements):
    counted = []
    for count in (1, 1, 40):
        for second in range(count):
            ping(expecting, now + timedelta(seconds=second))
        with statements() as seen:
            road.run(expecting.service.id, now=now)
        counted.append(len(seen))

    # The first reads the configuration.
    assert counted[1] == counted[2]


def test_what_is_no_ping_asks_for_no_expectation(expecting, now, statements):
    accept(expecting, now, message="m", exactly=True)
    with statements() as seen:
        road.run(expecting.service.id, now=now)

    assert [sql for sql, _ in seen if "UPDATE" in sql and "expected_at" in sql] == []
    assert expected_at() == now + EVERY + GRACE


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_the_last_ping_counts_however_they_fall_into_batches(expecting, now, at_once):
    for minute in range(5):
        ping(expecting, now + timedelta(minutes=minute))
        if minute % at_once == 0:
            road.run(expecting.service.id, now=now)
    road.run(expecting.service.id, now=now)

    assert expected_at() == now + timedelta(minutes=4) + EVERY + GRACE


@pytest.fixture
def router(expecting, now):
    router = GlobalRouter.create(
        unique_id=new_uuid(),
        account=expecting.account,
        name="Front door",
        integration_key=new_uuid(),
        creation_date=now,
    )
    RouterRule.create(
        unique_id=new_uuid(),
        router=router,
        name="All",
        rule_json="",
        position=1,
        actions=[{"action_type": RouterAction.ROUTE, "integration": expecting.integration.unique_id}],
        creation_date=now,
    )
    return router


def by_router(expecting, router, at):
    receipt = ping(expecting, at)
    Receipt.update(router=router, service=None, integration=None).where(Receipt.id == receipt.id).execute()


def test_a_ping_by_a_routers_key_is_one(expecting, router, now):
    by_router(expecting, router, now + timedelta(minutes=3))
    routing.run(router.id)
    road.run(expecting.service.id, now=now)

    assert Event.get().integration == expecting.integration
    assert expected_at() == now + timedelta(minutes=3) + EVERY + GRACE


def test_what_waits_for_a_router_may_be_the_ping(expecting, router, now):
    by_router(expecting, router, now + timedelta(minutes=5))
    late = now + EVERY + GRACE
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), late)
    assert heartbeats.raise_missing(late) == 0

    Receipt.update(received_at=late + timedelta(seconds=1)).execute()
    assert heartbeats.raise_missing(late) == 1


def test_a_service_that_fails_keeps_no_other_waiting(expecting, now, monkeypatch):
    late = now + EVERY + GRACE
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), late)
    monkeypatch.setattr(heartbeats, "_overdue", lambda now: [expecting.service.id, 0, expecting.service.id])
    raises = heartbeats._raise

    def sometimes(service_row, now):
        if not service_row:
            raise ZeroDivisionError
        return raises(service_row, now)

    monkeypatch.setattr(heartbeats, "_raise", sometimes)

    assert heartbeats.raise_missing(late) == 1


def test_it_is_late_by_no_more_than_the_look(expecting, now):
    due = now + EVERY + GRACE
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), due)

    assert heartbeats.raise_missing(due - timedelta(microseconds=1)) == 0
    assert heartbeats.raise_missing(due) == 1
    assert Receipt.get().received_at == due
