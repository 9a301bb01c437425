"""What runs for every alert, timer and message finds its rows by an index, however many there are."""

import pytest

from models.base import db, store
from tests.alerts import accept
from tests.workers.test_timers import open_one, set_policy
from workers import road, timers

# Indexes that hold only what waits: reading one from end to end is reading what waits.
ONLY_WHAT_WAITS = {"receipt_waiting", "event_waiting", "message_due", "timer_due"}


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
        if line.startswith("SCAN") and line != "SCAN CONSTANT ROW" and line.split()[-1] not in ONLY_WHAT_WAITS
    ]


def postgres_scans(statement, values):
    """With sequential scans priced out, one is left only where there is no index."""
    db.execute_sql("set enable_seqscan = off")
    plan = [row[0] for row in db.execute_sql(f"EXPLAIN {statement}", values).fetchall()]
    return [line for line in plan if "Seq Scan" in line]


PLANS = {"sqlite": sqlite_scans, "postgresql": postgres_scans}


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


def test_due_timers_are_found_by_their_index(world, busy, now, statements):
    with statements() as seen:
        timers.run_due(now.replace(hour=20))

    assert scans(seen) == []


def test_due_messages_are_found_by_their_index(world, busy, statements):
    with statements() as seen:
        timers.ring_due()
        timers.ring_stale()

    assert scans(seen) == []
