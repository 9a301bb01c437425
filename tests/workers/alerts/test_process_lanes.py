"""Lanes with few alerts share a transaction, and none of them notices it."""

import os
import threading
from dataclasses import replace

import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.lifecycle import provisioning
from models.load.lane import lock_service
from models.store.base import connection, db
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.teams import EscalationPolicy
from tests.support.alerts import accept
from tests.support.large_groups import build_body
from tests.support.polling import wait_until
from tests.support.rules import accept_from_router, add_router, add_router_rule
from tests.support.scenarios.timers import set_policy
from workers.alerts import pending, process_lane, process_lanes, process_router


def add_place(world, now, name, team=None):
    """Add a service with an integration. Return the world with them in place of its own."""
    team = team or world.team
    policy = EscalationPolicy.get(EscalationPolicy.team == team)
    service = provisioning.create_service(team, name, policy, world.alice, now)
    integration = provisioning.create_integration(service, name, GENERIC, world.alice, now)
    return replace(world, account=team.account, service=service, integration=integration)


@pytest.fixture
def places(world, now):
    return [world, add_place(world, now, "Search"), add_place(world, now, "Mail")]


def run(places):
    return process_lanes.run([place.service.id for place in places], process_lane.get_segment("normalize"))


def accept_critical(place, now, entity="db1"):
    return accept(place, now, message="Disk full", alert_type="critical", entity_id=entity)


def test_each_lane_opens_its_own_incident_and_a_person_gets_one_message(places, now):
    for place in places:
        accept_critical(place, now)

    turn = run(places)

    assert (turn.done, turn.alerts, turn.others, turn.left) == ({p.service.id for p in places}, 3, set(), [])
    assert {row.service_id for row in Incident.select()} == turn.done
    assert Message.select().count() == 1
    assert not Receipt.select().where(Receipt.state != WorkState.DONE).exists()


def test_a_lane_without_pending_alerts_is_done(places, now):
    accept_critical(places[0], now)

    assert run(places).done == {place.service.id for place in places}


def test_accounts_share_no_transaction(world, places, now):
    elsewhere = add_place(world, now, "Elsewhere", world.mallorys_team)
    for place in (places[0], elsewhere, places[1]):
        accept_critical(place, now)

    assert run([places[0], elsewhere, places[1]]).alerts == 3

    numbers = {row.service_id: row.incident_number for row in Incident.select()}
    assert numbers[elsewhere.service.id] == 1
    assert sorted(numbers[place.service.id] for place in places[:2]) == [1, 2]


def test_a_lane_whose_alert_fails_is_processed_alone(places, now):
    accept_critical(places[0], now)
    Receipt.update(body=b"[").where(Receipt.service == places[0].service.id).execute()
    accept_critical(places[1], now)

    turn = run(places[:2])

    assert turn.others == {places[0].service.id}
    assert turn.done == {places[1].service.id}
    assert Incident.select().count() == 1


def test_a_lane_with_many_alerts_is_processed_alone(places, now, monkeypatch):
    monkeypatch.setattr(pending, "SMALL_LANE", 2)
    accept(places[0], now, source="prometheus", body=build_body(3))
    accept_critical(places[1], now)

    assert run(places).others == {places[0].service.id}
    assert not Event.select().where(Event.service == places[0].service.id).exists()


def test_a_lane_with_routed_alerts_is_processed_alone(world, places, now):
    router = add_router(world)
    add_router_rule(router, world.integration)
    accept_from_router(router, now, message="m", alert_type="critical")
    process_router.run(router.id)
    accept_critical(places[1], now)

    assert run(places).others == {world.service.id}


def test_a_lane_with_a_round_robin_is_processed_alone(world, places, now):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2}
    set_policy(world, (0, world.alice, world.bob), assignment_settings=settings)
    for place in places:
        accept_critical(place, now)

    assert run(places).others == {place.service.id for place in places}
    assert Incident.select().count() == 0


def test_lanes_beyond_the_limit_of_a_batch_are_left(places, now, monkeypatch):
    monkeypatch.setattr(process_lanes._batch_size, "limit", 3)
    for place in places:
        accept_critical(place, now)
        accept_critical(place, now)

    turn = run(places)

    assert turn.done == {places[0].service.id}
    assert turn.left == [place.service.id for place in places[1:]]


def test_a_deleted_service_delays_no_other_lane(places, now):
    accept_critical(places[1], now)
    places[2].service.delete_instance()

    assert places[1].service.id in run(places).done


@pytest.mark.skipif(not os.environ.get("TEST_DATABASE_URL"), reason="on SQLite a lane locks all others")
def test_a_lane_that_another_transaction_holds_is_not_waited_for(places, now, store):
    for place in places:
        accept_critical(place, now)
    holds, leave = threading.Event(), threading.Event()

    def hold():
        with connection(), store.write_transaction():
            lock_service(places[0].service.id)
            holds.set()
            leave.wait(10)
        db.close()

    other = threading.Thread(target=hold)
    other.start()
    wait_until(holds.is_set)
    turn = run(places)
    leave.set()
    other.join()

    assert turn.others == {places[0].service.id}
    assert turn.alerts == 2


def test_more_lanes_need_no_more_statements(world, places, now, statements, store):
    """SQLite finds the first receipts of each lane by a query of its own, which costs as little as a call."""
    counts = []
    for count in (1, 3):
        for place in places:
            accept_critical(place, now, f"db{count}")
        run(places)
        for place in places[:count]:
            accept_critical(place, now, f"db{count}")
        with statements() as seen:
            assert run(places[:count]).alerts == count
        counts.append(len(seen) - (0 if store.name == "postgresql" else count))
    assert counts[0] == counts[1]
