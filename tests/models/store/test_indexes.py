"""Queries for alerts, timers and messages find their rows by an index."""

import pytest

from bench.servers.plans import (
    list_scans,
    list_sorts,
)
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.store import store
from models.tables.services import Integration, Service
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_body
from tests.support.rules import accept_from_router, add_router, add_router_rule
from tests.support.scenarios.timers import open_incident, set_policy
from workers.alerts import process_lane, process_lanes, process_router
from workers.periodic import due_scan, missing_heartbeats, release_maintenance
from workers.timers import fire, on_config_change


@pytest.fixture
def many_rows(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    for number in range(3):
        accept(world, now, message="m", alert_type=("critical", "resolved", "info")[number], entity_id="db1")


def test_the_lane_scans_no_large_table(world, many_rows, statements):
    with statements() as seen:
        process_lane.run(world.service.id)

    assert list_scans(seen) == []


def test_lanes_that_share_a_transaction_scan_no_large_table(world, many_rows, statements):
    with statements() as seen:
        result = process_lanes.run([world.service.id], process_lane.get_segment("normalize"))

    assert result.alerts == 3
    assert list_scans(seen) == []


def test_a_lane_finds_its_first_routed_alerts_without_a_sort(world, now, statements):
    router = add_router(world)
    add_router_rule(router, world.integration)
    accept_from_router(router, now, message="m", alert_type="critical")
    process_router.run(router.id)
    with statements() as seen:
        process_lane.run(world.service.id)

        event_queries = [each for each in seen if 'FROM "event"' in each[0] and "ORDER BY" in each[0]]
        assert event_queries
        assert list_sorts(event_queries) == []


def test_due_timers_are_found_by_their_index(world, many_rows, now, statements):
    with statements() as seen:
        fire.fire_due(now.replace(hour=20))

    assert list_scans(seen) == []


@pytest.mark.parametrize("column", ["escalation_policy", "service", "sla"])
def test_incidents_of_a_changed_object_are_found_by_their_index(world, many_rows, statements, column):
    with statements() as seen:
        on_config_change.reconcile_after_change(column, 1)

    assert list_scans(seen) == []


def test_due_messages_are_found_by_their_index(world, many_rows, statements):
    with statements() as seen:
        due_scan.enqueue_due()
        due_scan.enqueue_stale()

    assert list_scans(seen) == []


def test_deferred_alerts_are_found_by_their_index(world, many_rows, now, statements):
    Service.update(under_maintenance=True).execute()
    accept(world, now, message="m", alert_type="critical", entity_id="deferred")
    process_lane.run(world.service.id)
    Service.update(under_maintenance=False).execute()
    with statements() as seen:
        release_maintenance.enqueue_ended()
        assert release_maintenance.release_deferred() == 1

    assert list_scans(seen) == []


def test_missing_pings_are_found_by_indexes(world, many_rows, now, statements):
    Integration.update(heartbeat_interval=60, heartbeat_grace=30, expected_at=now).execute()
    backlog.record_liveness(ProcessLiveness("web", "web:1", now), now)
    with statements() as seen:
        missing_heartbeats.enqueue_overdue(now)
        assert missing_heartbeats.report_missing(now) == 1

    # The liveness table has only a few rows.
    assert [each for each in list_scans(seen) if 'FROM "liveness"' not in each] == []


def test_the_backlog_is_counted_by_partial_indexes(world, many_rows, now, statements):
    add_dead_letter_body(world, now)
    with statements() as seen:
        backlog.measure_backlog(store().now())

    assert list_scans(seen) == []
