"""A batch reads its own receipts, also while many others of its lane are pending."""

import json

import pytest

from models.store.store import db
from models.tables.events import Receipt
from tests.support.alerts import accept
from tests.support.stores import SERVER
from workers.alerts.pending import load_pending_receipts, load_small_lanes


def count_filtered(plan):
    """Return how many rows PostgreSQL read and did not return."""
    inner = sum(count_filtered(each) for each in plan.get("Plans", ()))
    return inner + plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]


@pytest.mark.parametrize("statement", [0, 1], ids=["heads", "bodies"])
def test_no_other_pending_receipt_is_read(world, now, statements, statement):
    if not SERVER:
        pytest.skip("SQLite does not say how many rows it reads")
    for _ in range(200):
        accept(world, now, message="Disk full")
    # The server may have counted the rows of the last test, when there were none.
    db.execute_sql("ANALYZE receipt")

    with statements() as seen:
        taken = load_pending_receipts(world.service.id, 20)

    assert [work.receipt for work in taken] == [row.id for row in Receipt.select().order_by(Receipt.id)][:20]
    sql, parameters = seen[statement]
    ((plan,),) = db.execute_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters).fetchall()
    found = plan if isinstance(plan, list) else json.loads(plan)
    assert count_filtered(found[0]["Plan"]) == 0


def test_the_receipts_of_many_lanes_are_found_by_their_numbers(world, now, statements):
    """PostgreSQL could also find a number in the index of the pending receipts, but would read all of it."""
    if not SERVER:
        pytest.skip("SQLite has no plans that are made without the parameters")
    for _ in range(20):
        accept(world, now, message="Disk full")

    with statements() as seen:
        load_small_lanes([world.service.id], 100)

    sql, _ = seen[-1]
    with db.atomic():
        db.execute_sql("SET LOCAL plan_cache_mode = force_generic_plan")
        db.execute_sql(f"PREPARE bodies (bigint[]) AS {sql.replace('%s', '$1')}")
        plan = db.execute_sql("EXPLAIN EXECUTE bodies ('{1}')").fetchall()
        db.execute_sql("DEALLOCATE bodies")
    assert "receipt_pkey" in str(plan)
