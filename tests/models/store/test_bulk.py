"""Bulk inserts and updates store all values unchanged, on both stores."""

from datetime import timedelta

import pytest

from models.domain.reasons import Reason, make_reason
from models.store import bulk
from models.tables.events import Entity, Receipt
from tests.support.stores import SERVER

QUOTED = '"quoted", {braced} \\ back'


def receipt(world, number: int, **changed):
    return {
        "trace_id": f"trace {number}",
        "account": world.account.id,
        "integration": None,
        "service": None,
        "source": "generic",
        "body": b"",
        "alerts": 1,
        "received_at": None,
        "error": None,
        **changed,
    }


def test_a_bulk_insert_stores_values_of_every_type_unchanged(world, now):
    records = [
        receipt(
            world,
            1,
            source=QUOTED,
            body=bytes(range(256)),
            received_at=now,
            error=Reason("text", {"text": QUOTED}, (make_reason("late", ms=12),)),
            alerts=1,
        ),
        receipt(
            world,
            2,
            source="",
            body=b"\\x00",
            received_at=now + timedelta(microseconds=1),
            error=Reason("text", {"text": ""}),
            alerts=70_000,
        ),
        receipt(world, 3, body=b"{}", received_at=now, error=None, alerts=2_000_000_000),
    ]

    bulk.insert(Receipt, records)

    names = ("source", "body", "received_at", "error", "alerts", "integration_id")
    written = [tuple(getattr(row, name) for name in names) for row in Receipt.select().order_by(Receipt.id)]
    assert written == [(*(record[name] for name in names[:-1]), None) for record in records]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_columns_with_equal_and_with_different_values_are_stored(world, now, rows):
    """PostgreSQL gets one value for a column whose rows are equal."""
    texts, numbers = ["", "é\\n{,}", "NULL"][:rows], [None, 1, 2][:rows]
    records = [
        receipt(world, place, received_at=now, source=text, error=number and make_reason("late", ms=number))
        for place, (text, number) in enumerate(zip(texts, numbers, strict=True))
    ]
    bulk.insert(Receipt, records)

    written = list(Receipt.select().order_by(Receipt.id))
    assert [row.source for row in written] == texts
    assert [row.error for row in written] == [record["error"] for record in records]


def test_a_column_that_is_empty_in_all_rows_stays_empty(world, now):
    bulk.insert(Receipt, [receipt(world, number, received_at=now) for number in range(3)])

    assert [row.error for row in Receipt.select()] == [None] * 3


def test_a_bulk_insert_that_is_too_large_for_one_statement_uses_more_statements(
    world, now, store, statements
):
    """PostgreSQL closes a connection that sends a gigabyte at once; the lane would retry for ever."""
    if not SERVER:
        pytest.skip("SQLite gets the rows one by one")
    large = [receipt(world, number, received_at=now, body=b"%d" % number * 3_000_000) for number in range(9)]
    with statements() as sent:
        bulk.insert(Receipt, large)

    texts = [[each for each in values if "trace " in str(each)] for _, values in sent]
    assert [len(each) if isinstance(each, list) else 1 for (each,) in texts] == [2, 2, 2, 2, 1]
    assert [row.trace_id for row in Receipt.select().order_by(Receipt.id)] == [
        f"trace {number}" for number in range(9)
    ]


def test_a_bulk_update_gives_each_row_its_own_values(world, now):
    entities = [
        {"integration": world.integration.id, "entity_id": name, "firing": True, "resolved_at": None}
        for name in ("a", "b")
    ]
    bulk.insert(Entity, entities)
    rows = {row.entity_id: row.id for row in Entity.select()}

    bulk.update(
        Entity,
        [
            {"id": rows["a"], "firing": False, "resolved_at": now},
            {"id": rows["b"], "firing": True, "resolved_at": None},
        ],
    )

    assert {row.entity_id: (row.firing, row.resolved_at) for row in Entity.select()} == {
        "a": (False, now),
        "b": (True, None),
    }
