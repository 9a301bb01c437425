"""A lane processes pings with few statements, in batches of any size, and with the key of a router."""

import os
import threading
from datetime import timedelta

import pytest

from models.domain.applications import HEARTBEAT
from models.domain.enums import RouterAction
from models.load.lane import lock_service
from models.people import provisioning
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.ids import make_uuid
from models.store.store import connection, db
from models.tables.accounts import Liveness, bump_version
from models.tables.events import Event, Receipt
from models.tables.routers import GlobalRouter, RouterRule
from models.tables.services import Integration
from schedules.outages import Coverage, Outage
from tests.support.alerts import accept
from tests.support.polling import PATIENCE_S, wait_until
from workers.alerts import process_lane, process_router
from workers.periodic import missing_heartbeats, outages

EVERY, GRACE = timedelta(seconds=300), timedelta(seconds=60)


@pytest.fixture
def expecting_world(world, now):
    """The integration expects its first ping within six minutes. A web process has run for a day."""
    values = {"heartbeat_interval": 300, "heartbeat_grace": 60, "expected_at": now + EVERY + GRACE}
    Integration.update(application=HEARTBEAT, **values).execute()
    bump_version(world.account.id)
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), now)
    return world


def ping(world, at, **more):
    return accept(world, at, source="heartbeat", body=b"", exactly=True, **more)


def expected_at():
    return Integration.get().expected_at


def test_many_pings_cost_as_many_statements_as_one(expecting_world, now, statements):
    counted = []
    for count in (1, 1, 40):
        for second in range(count):
            ping(expecting_world, now + timedelta(seconds=second))
        with statements() as seen:
            process_lane.run(expecting_world.service.id, now=now)
        counted.append(len(seen))

    # The first batch reads the configuration.
    assert counted[1] == counted[2]


def test_an_alert_that_is_not_a_ping_reads_no_expectation(expecting_world, now, statements):
    accept(expecting_world, now, message="m", exactly=True)
    with statements() as seen:
        process_lane.run(expecting_world.service.id, now=now)

    assert [sql for sql, _ in seen if "UPDATE" in sql and "expected_at" in sql] == []
    assert expected_at() == now + EVERY + GRACE


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_the_last_ping_counts_in_batches_of_any_size(expecting_world, now, at_once):
    for minute in range(5):
        ping(expecting_world, now + timedelta(minutes=minute))
        if minute % at_once == 0:
            process_lane.run(expecting_world.service.id, now=now)
    process_lane.run(expecting_world.service.id, now=now)

    assert expected_at() == now + timedelta(minutes=4) + EVERY + GRACE


@pytest.fixture
def router(expecting_world, now):
    router = GlobalRouter.create(
        unique_id=make_uuid(),
        account=expecting_world.account,
        name="Front door",
        integration_key=make_uuid(),
        creation_date=now,
    )
    RouterRule.create(
        unique_id=make_uuid(),
        router=router,
        name="All",
        rule_json="",
        position=1,
        actions=[{"action_type": RouterAction.ROUTE, "integration": expecting_world.integration.unique_id}],
        creation_date=now,
    )
    return router


def ping_by_router(expecting_world, router, at):
    receipt = ping(expecting_world, at)
    Receipt.update(router=router, service=None, integration=None).where(Receipt.id == receipt.id).execute()


def test_a_ping_with_the_key_of_a_router_counts(expecting_world, router, now):
    ping_by_router(expecting_world, router, now + timedelta(minutes=3))
    process_router.run(router.id)
    process_lane.run(expecting_world.service.id, now=now)

    assert Event.get().integration == expecting_world.integration
    assert expected_at() == now + timedelta(minutes=3) + EVERY + GRACE


def test_a_pending_receipt_of_a_router_may_be_the_ping(expecting_world, router, now):
    ping_by_router(expecting_world, router, now + timedelta(minutes=5))
    late = now + EVERY + GRACE
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), late)
    assert missing_heartbeats.report_missing(late) == 0

    Receipt.update(received_at=late + timedelta(seconds=1)).execute()
    assert missing_heartbeats.report_missing(late) == 1


def test_a_service_that_fails_does_not_stop_others(expecting_world, now, monkeypatch):
    late = now + EVERY + GRACE
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), late)
    monkeypatch.setattr(
        missing_heartbeats, "_list_overdue_services", lambda now: [expecting_world.service.id, 0]
    )
    raises = missing_heartbeats._report_locked

    def fail_for_one(services, seen, now):
        if 0 in services:
            raise ZeroDivisionError
        return raises(services, seen, now)

    monkeypatch.setattr(missing_heartbeats, "_report_locked", fail_for_one)

    assert missing_heartbeats.report_missing(late) == 1


def add_services(world, now, count):
    """Create services, each with an integration that expects a ping within six minutes."""
    for number in range(count):
        service = provisioning.create_service(world.team, f"S{number}", world.policy, world.alice, now)
        provisioning.create_integration(service, f"Backup {number}", HEARTBEAT, world.alice, now)
    Integration.update(heartbeat_interval=300, heartbeat_grace=60, expected_at=now + EVERY + GRACE).execute()


def test_many_missing_pings_cost_as_many_statements_as_one(expecting_world, now, statements):
    late = now + EVERY + GRACE
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), late)
    counted = []
    for more in (0, 49):
        add_services(expecting_world, now, more)
        with statements() as seen:
            assert missing_heartbeats.report_missing(late) == 1 + more
        counted.append(len(seen))
        Liveness.delete().where(Liveness.process == outages.PROCESS).execute()
        Receipt.delete().execute()

    assert counted[0] == counted[1] <= 16


def test_extending_many_deadlines_costs_as_many_statements_as_one(expecting_world, now, statements):
    counted = []
    for more in (0, 49):
        add_services(expecting_world, now, more)
        Integration.update(is_extended=False).execute()
        late = now + EVERY + GRACE
        Liveness.delete().execute()
        backlog.record_liveness(ProcessLiveness("web", "web:1", late), late)
        outages._save(None, Coverage(late, (Outage(now, late, late - now),)))
        with statements() as seen:
            assert missing_heartbeats.report_missing(late) == 0
        counted.append(len(seen))

    assert Integration.select().where(Integration.is_extended).count() == 50
    assert counted[0] == counted[1]


@pytest.fixture
def locked_lane(expecting_world, store):
    """Another transaction holds the lock of the service's lane."""
    holds, leave = threading.Event(), threading.Event()

    def hang():
        with connection(), store.write_transaction():
            lock_service(expecting_world.service.id)
            holds.set()
            leave.wait(PATIENCE_S)
        db.close()

    lane = threading.Thread(target=hang)
    lane.start()
    wait_until(holds.is_set)
    yield
    leave.set()
    lane.join()


@pytest.mark.skipif(not os.environ.get("TEST_DATABASE_URL"), reason="on SQLite a lane locks all others")
def test_a_lane_that_hangs_delays_neither_the_clock_nor_others(expecting_world, now, locked_lane, enqueued):
    service = provisioning.create_service(
        expecting_world.team, "Other", expecting_world.policy, expecting_world.alice, now
    )
    other = provisioning.create_integration(service, "Other", HEARTBEAT, expecting_world.alice, now)
    late = now + EVERY + GRACE
    Integration.update(heartbeat_interval=300, heartbeat_grace=60, expected_at=late).execute()
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), late)

    missing_heartbeats.enqueue_overdue(late)
    assert enqueued == [("heartbeats",)]
    assert missing_heartbeats.report_missing(late) == 1
    assert Receipt.get().integration == other


def test_the_clock_only_enqueues_the_report(expecting_world, now, enqueued):
    due_moment = now + EVERY + GRACE
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), due_moment)
    missing_heartbeats.enqueue_overdue(due_moment - timedelta(microseconds=1))
    assert enqueued == []

    missing_heartbeats.enqueue_overdue(due_moment)
    assert (enqueued, Receipt.select().count()) == ([("heartbeats",)], 0)


def test_a_missing_ping_is_reported_at_its_due_time(expecting_world, now):
    due_moment = now + EVERY + GRACE
    backlog.record_liveness(ProcessLiveness("web", "web:1", now - timedelta(days=1)), due_moment)

    assert missing_heartbeats.report_missing(due_moment - timedelta(microseconds=1)) == 0
    assert missing_heartbeats.report_missing(due_moment) == 1
    assert Receipt.get().received_at == due_moment


def check_while_web_runs(moments, web="web:1", started_at=None):
    """Return how many pings were reported as missing at these times."""
    alerts_raised = 0
    for moment in moments:
        backlog.record_liveness(ProcessLiveness("web", web, started_at or moment - timedelta(days=1)), moment)
        alerts_raised += missing_heartbeats.report_missing(moment)
    return alerts_raised


def list_moments(since, span):
    return [since + timedelta(seconds=second) for second in range(0, int(span.total_seconds()), 5)]


def test_a_ping_lost_in_an_outage_is_excused_after_the_clock_was_set_back(expecting_world, now):
    """The clock is set back by an hour. Then no process runs for ten minutes, in which a ping is due."""
    minutes = timedelta(minutes=1)
    ahead = now + 60 * minutes
    backlog.record_liveness(ProcessLiveness("web", "web:killed", now), ahead)
    outages.update_coverage(ahead)
    assert check_while_web_runs([now]) == 0
    Integration.update(expected_at=now + 15 * minutes, is_extended=False).execute()

    assert check_while_web_runs(list_moments(now, 10 * minutes)) == 0
    backlog.remove_process(ProcessLiveness("web", "web:1", now))
    set_back_to = now + 20 * minutes
    assert check_while_web_runs(list_moments(set_back_to, EVERY + GRACE), "web:2", set_back_to) == 0
    assert expected_at() == set_back_to + EVERY + GRACE
    assert check_while_web_runs([expected_at()], "web:2", set_back_to) == 1


def test_one_of_two_workers_saves_that_the_clock_was_set_back(expecting_world, now):
    check_while_web_runs([now + timedelta(hours=1)])
    row = Liveness.get(Liveness.process == outages.PROCESS)

    assert [outages._save(row, Coverage(now)), outages._save(row, Coverage(now))] == [True, False]
    assert Liveness.get(Liveness.process == outages.PROCESS).at == now


@pytest.mark.parametrize("detail", [{"since": "2026-03-04T12:00:00+00:00"}, {"until": "?", "outages": []}])
def test_an_observation_in_another_format_keeps_its_time(expecting_world, now, detail):
    late = now + EVERY + GRACE
    Liveness.create(process=outages.PROCESS, at=now, detail=detail)

    assert check_while_web_runs([late]) == 0
    assert expected_at() == late + EVERY + GRACE
    assert check_while_web_runs(list_moments(late, EVERY + GRACE)) == 0
    assert check_while_web_runs([expected_at()]) == 1
