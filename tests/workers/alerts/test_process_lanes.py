"""Lanes with few alerts share a transaction, and none of them notices it."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import peewee
import pytest

from models.domain.applications import GENERIC
from models.domain.enums import WorkState
from models.domain.values import replace
from models.load.lane import lock_service
from models.people import provisioning
from models.people.provisioning import bump_version
from models.store.store import connection, db
from models.store.store import store as get_store
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.teams import EscalationPolicy
from tests.support.alerts import accept
from tests.support.large_groups import build_body
from tests.support.polling import wait_until
from tests.support.rules import (
    RuleAction,
    accept_from_router,
    action,
    add_router,
    add_router_rule,
    add_rule,
)
from tests.support.scenarios.timers import set_policy
from workers.alerts import batches, lane_actors, pending, process_lane, process_lanes, process_router
from workers.alerts.lane_actors import BUSY_PAUSE_S, PAUSE_S
from workers.alerts.process_lanes import CommonResult
from workers.broker import broker
from workers.lane_turns import BusyLanes, Gathering, LaneTurns, Linger


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

    result = run(places)

    assert (result.done, result.others, result.left) == ({p.service.id for p in places}, set(), [])
    assert result.alerts == 3
    assert {row.service_id for row in Incident.select()} == result.done
    assert Message.select().count() == 1
    assert not Receipt.select().where(Receipt.state != WorkState.DONE).exists()


def test_a_lane_without_pending_alerts_is_neither_done_nor_left(places, now):
    accept_critical(places[0], now)

    result = run(places)

    assert (result.done, result.others, result.left) == ({places[0].service.id}, set(), [])


def test_a_service_that_gets_the_number_of_a_deleted_one_keeps_to_its_account(world, places, now):
    """SQLite uses the row number of the last service again."""
    run(places)
    deleted = places[2].service
    deleted.delete_instance()
    bump_version(world.account.id)
    elsewhere = add_place(world, now, "Elsewhere", world.mallorys_team)
    accept_critical(elsewhere, now)
    accept_critical(places[0], now)

    assert run([places[0], elsewhere]).alerts == 2

    incidents = {row.service_id: (row.account_id, row.incident_number) for row in Incident.select()}
    assert incidents[elsewhere.service.id] == (world.mallorys_team.account_id, 1)
    assert {row.account_id for row in Message.select()} == {world.account.id, world.mallorys_team.account_id}


def test_an_error_of_the_database_in_one_account_does_not_stop_another(world, places, now, monkeypatch):
    elsewhere = add_place(world, now, "Elsewhere", world.mallorys_team)
    for place in (places[0], elsewhere):
        accept_critical(place, now)
    load = process_lanes.load_small_lanes

    def fail(lanes, limit):
        if places[0].service.id in lanes:
            raise peewee.OperationalError("deadlock detected")
        return load(lanes, limit)

    monkeypatch.setattr(process_lanes, "load_small_lanes", fail)
    result = run([places[0], elsewhere])

    assert (result.others, result.done) == ({places[0].service.id}, {elsewhere.service.id})


def test_rules_that_take_much_time_leave_the_other_lanes_for_the_next_batch(places, now, monkeypatch):
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.0)
    for place in places:
        add_rule(place, action(RuleAction.ADD_NOTE, value="note"), integration=place.integration)
        accept_critical(place, now)

    result = run(places)

    assert result.done == {places[0].service.id}
    assert result.left == [place.service.id for place in places[1:]]


def test_lanes_that_costly_rules_leave_are_not_loaded_for_each_batch(world, places, now, monkeypatch):
    places += [add_place(world, now, f"Shop {number}") for number in range(5)]
    for place in places:
        add_rule(place, action(RuleAction.ADD_NOTE, value="note"), integration=place.integration)
        accept_critical(place, now)
    limits, load = [], process_lanes.load_small_lanes
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.0)
    monkeypatch.setattr(
        process_lanes,
        "load_small_lanes",
        lambda lanes, limit: limits.append(limit) or load(lanes, limit),
    )

    result = run(places)
    while result.left:
        left = set(result.left)
        result = run([place for place in places if place.service.id in left])

    assert limits[1:] == [2] * 7
    assert Incident.select().count() == 8


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

    result = run(places[:2])

    assert result.others == {places[0].service.id}
    assert result.done == {places[1].service.id}
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


def test_lanes_without_progress_are_processed_alone(places, now, monkeypatch):
    """Their rules take too much time before the entities that they name are loaded."""
    monkeypatch.setattr(batches, "get_max_decision_s", lambda: 0.0)
    for place in places:
        add_rule(place, action(RuleAction.CHANGE_ENTITY_ID, value="db2"), integration=place.integration)
        accept_critical(place, now)

    result = run(places)

    assert (result.others, result.left) == ({place.service.id for place in places}, [])


def test_a_round_robin_that_no_alert_advances_does_not_matter(world, places, now):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2}
    set_policy(world, (0, world.alice, world.bob), assignment_settings=settings)
    for place in places:
        accept(place, now, message="Backup done", alert_type="info", entity_id="db1")

    assert len(run(places).done) == 3


def test_a_merged_incident_of_another_lane_is_processed_alone(world, places, now):
    for place in places[:2]:
        accept_critical(place, now)
    run(places[:2])
    parent, child = Incident.select().order_by(Incident.id)
    Incident.update(parent=parent).where(Incident.id == child.id).execute()
    for place in places[:2]:
        accept(place, now, message="Disk full", alert_type="resolved", entity_id="db1")

    result = run(places[:2])

    assert result.others == {parent.service_id}


def test_a_lane_whose_alert_advances_a_round_robin_is_processed_alone(world, places, now):
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2}
    set_policy(world, (0, world.alice, world.bob), assignment_settings=settings)
    for place in places:
        accept_critical(place, now)

    assert run(places).others == {place.service.id for place in places}
    assert Incident.select().count() == 0


def test_a_batch_locks_a_limited_number_of_lanes(places, now, monkeypatch):
    monkeypatch.setattr(process_lanes, "MAX_LANES", 2)
    for place in places:
        accept_critical(place, now)

    result = run(places)

    assert (len(result.done), result.left) == (2, [places[2].service.id])


def test_lanes_share_a_transaction_in_the_given_order(places, now, monkeypatch):
    """PostgreSQL reads rows in any order; the lane that has been pending for longest comes first."""
    monkeypatch.setattr(process_lanes, "MAX_LANES", 2)
    for place in places:
        accept_critical(place, now)

    assert run(places[::-1]).left == [places[0].service.id]


def test_lanes_beyond_the_limit_of_a_batch_are_left(places, now, monkeypatch):
    monkeypatch.setattr(process_lanes._batch_size, "limit", 3)
    for place in places:
        accept_critical(place, now)
        accept_critical(place, now)

    result = run(places)

    assert result.done == {places[0].service.id}
    assert result.left == [place.service.id for place in places[1:]]


def test_a_deleted_service_delays_no_other_lane(places, now):
    accept_critical(places[1], now)
    places[2].service.delete_instance()

    assert places[1].service.id in run(places).done


@contextmanager
def hold_lock(service_row: int) -> Iterator[None]:
    """Lock a service in another transaction."""
    holds, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with connection(), get_store().write_transaction():
            lock_service(service_row)
            holds.set()
            leave.wait(30)
        db.close()

    other = threading.Thread(target=hold)
    other.start()
    wait_until(holds.is_set)
    try:
        yield
    finally:
        leave.set()
        other.join()


needs_row_locks = pytest.mark.skipif(
    not os.environ.get("TEST_DATABASE_URL"), reason="on SQLite a lane locks all others"
)


@needs_row_locks
def test_a_lane_that_another_transaction_holds_is_not_waited_for(places, now):
    for place in places:
        accept_critical(place, now)
    with hold_lock(places[0].service.id):
        result = run(places)

    assert (result.busy, result.others) == ({places[0].service.id}, set())
    assert result.alerts == 2


@needs_row_locks
@pytest.mark.parametrize("is_large", [False, True])
def test_a_lane_that_is_held_is_sent_again_in_a_moment(places, now, monkeypatch, is_large):
    """Also a large lane, which is processed alone. Its thread would wait for what another worker does now."""
    service_row, sent = places[0].service.id, []
    monkeypatch.setattr(
        broker, "enqueue", lambda message, delay=None: sent.append((message.queue_name, message.args, delay))
    )
    monkeypatch.setattr(lane_actors, "_linger", Linger())
    monkeypatch.setattr(lane_actors, "_large_lanes", {service_row} if is_large else set())
    accept_critical(places[0], now)
    with hold_lock(service_row):
        lane_actors.normalize(service_row)

    assert sent == [("pipeline.normalize", (service_row,), 15)]
    assert Event.select().count() == 0
    lane_actors.normalize(service_row)
    assert Event.select().count() == 1


@needs_row_locks
def test_the_poller_leaves_out_a_lane_that_is_held(places, now):
    for place in places[:2]:
        accept_critical(place, now)
    with hold_lock(places[0].service.id):
        assert process_lane.process_pending_lanes() == 1


@pytest.mark.parametrize(
    ("result", "pause_s"),
    [
        (CommonResult(alerts=10), 0.0),
        (CommonResult(alerts=100), PAUSE_S),
        (CommonResult(alerts=0, busy={1}), BUSY_PAUSE_S),
        (CommonResult(alerts=100, busy={1}), BUSY_PAUSE_S),
        (CommonResult(alerts=10, busy={1}, left=[2]), 0.0),
        (CommonResult(alerts=290, busy={1}), 0.0),
    ],
    ids=["few alerts", "many", "another worker has the lane", "or one of them", "some are left", "full"],
)
def test_a_common_batch_that_was_not_full_is_followed_by_a_pause(places, monkeypatch, result, pause_s):
    monkeypatch.setattr(type(get_store()), "write_batch", 300)
    monkeypatch.setattr(process_lanes, "run", lambda lanes, segment: result)

    _, pause = lane_actors._process_common([1], process_lane.get_segment("normalize"))
    assert pause == pause_s


@needs_row_locks
def test_a_lane_that_others_lock_all_the_time_gets_its_turn(places, now, monkeypatch):
    """PostgreSQL gives the lock to the other thread that waits, and never to one that does not wait."""
    service_row, wake_ups, done = places[0].service.id, deque(), threading.Event()
    monkeypatch.setattr(lane_actors, "_linger", Linger())
    monkeypatch.setattr(lane_actors, "_busy_lanes", BusyLanes())
    monkeypatch.setattr(lane_actors, "_large_lanes", set())
    monkeypatch.setattr(broker, "enqueue", lambda message, delay=None: wake_ups.append(message))
    accept_critical(places[0], now)

    def lock_again_and_again():
        while not done.is_set():
            with connection(), get_store().write_transaction():
                lock_service(service_row)
                done.wait(0.008)
        db.close()

    others = [threading.Thread(target=lock_again_and_again) for _ in range(2)]
    for other in others:
        other.start()
    ends_at = monotonic() + 3
    while not Event.select().count() and monotonic() < ends_at:
        lane_actors.normalize(service_row)
        # A wake-up comes after each turn that found the lane locked.
        assert wake_ups
        wake_ups.clear()
        done.wait(0.015)
    done.set()
    for other in others:
        other.join()

    assert Event.select().count() == 1


@pytest.mark.parametrize("running", ["nothing", "lingering", "gathering", "alone"])
def test_a_wake_up_is_covered_by_running_work(places, monkeypatch, running):
    service_row, account = places[0].service.id, places[0].account.id
    monkeypatch.setattr(lane_actors, "_linger", Linger())
    monkeypatch.setattr(lane_actors, "_accounts", {service_row: account})
    monkeypatch.setattr(lane_actors, "_gatherings", {account: Gathering()})
    monkeypatch.setattr(lane_actors, "turns", LaneTurns())
    lane, found = (service_row, process_lane.get_segment("normalize").name), []

    def ask(*_):
        found.append(broker.is_covered("pipeline.normalize", (service_row,)))
        return []

    if running == "lingering":
        for _ in range(2):
            lane_actors._linger.record_turn(lane, 1)
        ask()
    elif running == "gathering":
        lane_actors._gatherings[account].work(places[1].service.id, lambda lanes: (ask(), 0.0), 0.0)
    elif running == "alone":
        lane_actors.turns.work(lane, ask)
    else:
        ask()

    assert found == [running != "nothing"]


@pytest.mark.parametrize(("alerts", "pauses"), [(49, False), (50, True), (69, True), (210, False)])
def test_a_thread_pauses_after_common_batches_of_medium_size(places, monkeypatch, alerts, pauses):
    result = process_lanes.CommonResult(alerts=alerts)
    monkeypatch.setattr(process_lanes, "run", lambda lanes, segment: result)

    _, pause_s = lane_actors._process_common([places[0].service.id], process_lane.get_segment("normalize"))

    assert (pause_s > 0) is pauses


@needs_row_locks
def test_a_turn_ends_when_its_lane_is_held(places, now):
    accept_critical(places[0], now)
    with hold_lock(places[0].service.id):
        result = process_lane.run(places[0].service.id, blocking=False)

    assert (result.taken, result.is_busy) == (0, True)


def test_a_deleted_lane_is_not_busy(world):
    result = process_lane.run(987_654, blocking=False)

    assert (result.taken, result.is_busy) == (0, False)


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
        counts.append(len(seen) - (0 if store.has_lateral_joins else count))
    assert counts[0] == counts[1]
