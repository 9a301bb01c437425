"""Pings in a lane: what they cost, in which batches they come, and by which key."""

import os
import threading
from datetime import timedelta

import pytest

from models import founding, metrics
from models.accounts import Heartbeat, raise_version
from models.applications import HEARTBEAT
from models.base import connection, db
from models.enums import RouterAction
from models.events import Event, Receipt
from models.ids import new_uuid
from models.loading import lock_service
from models.metrics import Life
from models.routers import GlobalRouter, RouterRule
from models.services import Integration
from schedules.absences import Absence, Watch
from tests.alerts import accept
from tests.waiting import until
from workers import bell, heartbeats, presence, road, routing

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
    monkeypatch.setattr(heartbeats, "_overdue", lambda now: [expecting.service.id, 0])
    raises = heartbeats._raise

    def sometimes(services, seen, now):
        if 0 in services:
            raise ZeroDivisionError
        return raises(services, seen, now)

    monkeypatch.setattr(heartbeats, "_raise", sometimes)

    assert heartbeats.raise_missing(late) == 1


def add_services(world, now, count):
    """Each with an integration that expects a ping within six minutes."""
    for number in range(count):
        service = founding.new_service(world.team, f"S{number}", world.policy, world.alice, now)
        founding.new_integration(service, f"Backup {number}", HEARTBEAT, world.alice, now)
    Integration.update(heartbeat_every=300, heartbeat_grace=60, expected_at=now + EVERY + GRACE).execute()


def test_many_missing_pings_cost_as_many_statements_as_one(expecting, now, statements):
    late = now + EVERY + GRACE
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), late)
    counted = []
    for more in (0, 49):
        add_services(expecting, now, more)
        with statements() as seen:
            assert heartbeats.raise_missing(late) == 1 + more
        counted.append(len(seen))
        Heartbeat.delete().where(Heartbeat.process == presence.WATCHED).execute()
        Receipt.delete().execute()

    assert counted[0] == counted[1] <= 16


def test_more_time_for_many_costs_as_many_statements_as_for_one(expecting, now, statements):
    counted = []
    for more in (0, 49):
        add_services(expecting, now, more)
        Integration.update(is_excused=False).execute()
        late = now + EVERY + GRACE
        Heartbeat.delete().execute()
        metrics.beat(Life("web", "web:1", late), late)
        presence._note(None, Watch(late, late, (Absence.between(now, late),)))
        with statements() as seen:
            assert heartbeats.raise_missing(late) == 0
        counted.append(len(seen))

    assert Integration.select().where(Integration.is_excused).count() == 50
    assert counted[0] == counted[1]


@pytest.fixture
def held(expecting, store):
    """The service's lane hangs in a transaction of its own."""
    holds, leave = threading.Event(), threading.Event()

    def hang():
        with connection(), store.writing():
            lock_service(expecting.service.id)
            holds.set()
            leave.wait(10)
        db.close()

    lane = threading.Thread(target=hang)
    lane.start()
    until(holds.is_set)
    yield
    leave.set()
    lane.join()


@pytest.mark.skipif(not os.environ.get("TEST_DATABASE_URL"), reason="on SQLite a lane holds all others")
def test_a_lane_that_hangs_keeps_neither_the_clock_nor_another_service_waiting(
    expecting, now, held, monkeypatch
):
    rung = []
    monkeypatch.setattr(bell, "ring_heartbeats", lambda: rung.append(1))
    service = founding.new_service(expecting.team, "Other", expecting.policy, expecting.alice, now)
    other = founding.new_integration(service, "Other", HEARTBEAT, expecting.alice, now)
    late = now + EVERY + GRACE
    Integration.update(heartbeat_every=300, heartbeat_grace=60, expected_at=late).execute()
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), late)

    heartbeats.ring_overdue(late)
    assert rung == [1]
    assert heartbeats.raise_missing(late) == 1
    assert Receipt.get().integration == other


def test_the_clock_looks_and_rings_and_says_nothing_itself(expecting, now, monkeypatch):
    rung = []
    monkeypatch.setattr(bell, "ring_heartbeats", lambda: rung.append(1))
    due = now + EVERY + GRACE
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), due)
    heartbeats.ring_overdue(due - timedelta(microseconds=1))
    assert rung == []

    heartbeats.ring_overdue(due)
    assert (rung, Receipt.select().count()) == ([1], 0)


def test_it_is_late_by_no_more_than_the_look(expecting, now):
    due = now + EVERY + GRACE
    metrics.beat(Life("web", "web:1", now - timedelta(days=1)), due)

    assert heartbeats.raise_missing(due - timedelta(microseconds=1)) == 0
    assert heartbeats.raise_missing(due) == 1
    assert Receipt.get().received_at == due


def look_while_web_lives(moments, web="web:1", started_at=None):
    """How many were said to be missing at these moments."""
    said = 0
    for moment in moments:
        metrics.beat(Life("web", web, started_at or moment - timedelta(days=1)), moment)
        said += heartbeats.raise_missing(moment)
    return said


def each_five_seconds(since, span):
    return [since + timedelta(seconds=second) for second in range(0, int(span.total_seconds()), 5)]


def test_after_the_clock_was_set_back_nobody_is_blamed_for_our_absence(expecting, now):
    """An hour back; then all of us are away for ten minutes, over the moment of a ping."""
    minutes = timedelta(minutes=1)
    ahead = now + 60 * minutes
    metrics.beat(Life("web", "web:killed", now), ahead)
    presence.watched(ahead)
    Integration.update(expected_at=now + 15 * minutes).execute()

    assert look_while_web_lives(each_five_seconds(now, 10 * minutes)) == 0
    metrics.leave(Life("web", "web:1", now))
    back = now + 20 * minutes
    assert look_while_web_lives(each_five_seconds(back, EVERY + GRACE), "web:2", back) == 0
    assert expected_at() == back + EVERY + GRACE
    assert look_while_web_lives([expected_at()], "web:2", back) == 1


def test_of_two_who_see_that_the_clock_was_set_back_one_notes_it(expecting, now):
    look_while_web_lives([now + timedelta(hours=1)])
    row = Heartbeat.get(Heartbeat.process == presence.WATCHED)

    assert [presence._note(row, Watch(now, now)), presence._note(row, Watch(now, now))] == [True, False]
    assert Heartbeat.get(Heartbeat.process == presence.WATCHED).at == now


@pytest.mark.parametrize("detail", [{"since": "2026-03-04T12:00:00+00:00"}, {"until": "?", "absences": []}])
def test_a_note_in_other_words_tells_when_somebody_looked(expecting, now, detail):
    late = now + EVERY + GRACE
    Heartbeat.create(process=presence.WATCHED, at=now, detail=detail)

    assert look_while_web_lives([late]) == 0
    assert expected_at() == late + EVERY + GRACE
    assert look_while_web_lives(each_five_seconds(late, EVERY + GRACE)) == 0
    assert look_while_web_lives([expected_at()]) == 1
