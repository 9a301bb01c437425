"""What runs for every alert, timer and message finds its rows by an index, however many there are."""

import pytest

from models import metrics
from models.base import db, store
from models.metrics import Life
from models.services import Integration, Service
from tests.alerts import accept
from tests.rules import accept_by, add_router, add_router_rule
from tests.set_aside import set_aside_body
from tests.workers.test_timers import open_one, set_policy
from workers import heartbeats, maintenance, replanning, road, routing, ticks, timers

# Indexes that hold only what waits: reading one from end to end is reading what waits.
ONLY_WHAT_WAITS = {
    "receipt_waiting", "receipt_to_route", "receipt_aside", "event_waiting", "event_aside", "message_due",
    "timer_due", "entity_kept_back",
}  # fmt: skip

# Values that came with the statement, and no table.
WHAT_IS_GIVEN = {"SCAN CONSTANT ROW", "SCAN json_each VIRTUAL TABLE INDEX 1:"}


def scans(seen):
    """The lines of the query plans that read a whole table, or an index of all its rows."""
    found = []
    for statement, values in seen:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
            found += [f"{line}: {statement}" for line in PLANS[store().name](statement, values)]
    return found


def sqlite_scans(statement, values):
    values = [0] * statement.count("?") if isinstance(values, int) else values
    plan = [row[3] for row in db.execute_sql(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()]
    return [
        line
        for line in plan
        if line.startswith("SCAN") and line not in WHAT_IS_GIVEN and line.split()[-1] not in ONLY_WHAT_WAITS
    ]


def postgres_scans(statement, values):
    """With sequential scans priced out, one is left only where there is no index."""
    db.execute_sql("set enable_seqscan = off")
    plan = [row[0] for row in db.execute_sql(f"EXPLAIN {statement}", values).fetchall()]
    return [line for line in plan if "Seq Scan" in line]


PLANS = {"sqlite": sqlite_scans, "postgresql": postgres_scans}


def sorts(seen):
    """The lines of the query plans that put rows in order after reading all of them."""
    if store().name == "sqlite":
        explained = [db.execute_sql(f"EXPLAIN QUERY PLAN {each}", values) for each, values in seen]
        return [row[3] for cursor in explained for row in cursor.fetchall() if "B-TREE" in row[3]]
    # With sorting priced out, it is left only where no index gives the order.
    for way in ("seqscan", "sort", "incremental_sort", "bitmapscan"):
        db.execute_sql(f"set enable_{way} = off")
    explained = [db.execute_sql(f"EXPLAIN {each}", values) for each, values in seen]
    return [row[0] for cursor in explained for row in cursor.fetchall() if "Sort" in row[0]]


@pytest.fixture
def busy(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_one(world, now)
    for number in range(3):
        accept(world, now, message="m", alert_type=("critical", "resolved", "info")[number], entity_id="db1")


def test_the_lane_scans_no_large_table(world, busy, statements):
    with statements() as seen:
        road.run(world.service.id)

    assert scans(seen) == []


def test_a_lane_finds_the_first_of_what_was_routed_without_sorting_it_all(world, now, statements):
    router = add_router(world)
    add_router_rule(router, world.integration)
    accept_by(router, now, message="m", alert_type="critical")
    routing.run(router.id)
    with statements() as seen:
        road.run(world.service.id)

        takes = [each for each in seen if 'FROM "event"' in each[0] and "ORDER BY" in each[0]]
        assert takes
        assert sorts(takes) == []


def test_due_timers_are_found_by_their_index(world, busy, now, statements):
    with statements() as seen:
        timers.run_due(now.replace(hour=20))

    assert scans(seen) == []


@pytest.mark.parametrize("column", ["escalation_policy", "service", "sla"])
def test_what_follows_from_what_was_changed_is_found_by_indexes(world, busy, statements, column):
    with statements() as seen:
        replanning.plan_anew(column, 1)

    assert scans(seen) == []


def test_due_messages_are_found_by_their_index(world, busy, statements):
    with statements() as seen:
        ticks.ring_due()
        ticks.ring_stale()

    assert scans(seen) == []


def test_what_maintenance_kept_back_is_found_by_its_index(world, busy, now, statements):
    Service.update(under_maintenance=True).execute()
    accept(world, now, message="m", alert_type="critical", entity_id="kept back")
    road.run(world.service.id)
    Service.update(under_maintenance=False).execute()
    with statements() as seen:
        maintenance.ring_over()
        assert maintenance.release() == 1

    assert scans(seen) == []


def test_missing_pings_are_found_by_indexes(world, busy, now, statements):
    Integration.update(heartbeat_every=60, heartbeat_grace=30, expected_at=now).execute()
    metrics.beat(Life("web", "web:1", now), now)
    with statements() as seen:
        heartbeats.ring_overdue(now)
        assert heartbeats.raise_missing(now) == 1

    # The signs of life of processes are a few rows.
    assert [each for each in scans(seen) if 'FROM "heartbeat"' not in each] == []


def test_what_waits_is_counted_by_indexes_of_it_alone(world, busy, now, statements):
    set_aside_body(world, now)
    with statements() as seen:
        metrics.backlog(store().now())

    assert scans(seen) == []
