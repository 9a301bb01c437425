"""Which statements scan a table or sort, by the plans of the store."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from models.store.store import db, store

# A statement with its values; a number stands for this many values.
Statement = tuple[str, Any]

# Partial indexes that contain only pending rows: a full scan of one reads only pending rows.
PARTIAL_INDEXES = {
    "receipt_pending", "receipt_to_route", "receipt_dead_letter", "receipt_dead_letter_of",
    "event_pending", "event_dead_letter", "event_dead_letter_of",
    "message_due", "message_update_due", "timer_due", "timer_pending", "entity_deferred",
    "outbound_delivery_due",
}  # fmt: skip


# Plan lines for values of the statement itself, not for a table.
INDEXED_VALUES = {"SCAN CONSTANT ROW", "SCAN json_each VIRTUAL TABLE INDEX 1:"}


class _Collector(logging.Handler):
    """Collects the statements that peewee logs. Its pool logs texts, about connections."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Statement] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, tuple):
            self.seen.append(cast(Statement, record.msg))


@contextmanager
def collect_statements() -> Iterator[list[Statement]]:
    """Collect all SQL statements of this process with their values."""
    collector, logger = _Collector(), logging.getLogger("peewee")
    level = logger.level
    logger.addHandler(collector)
    logger.setLevel(logging.DEBUG)
    try:
        yield collector.seen
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)


def list_scans(seen: Iterable[Statement], *, whole_indexes: bool = False) -> list[str]:
    """Return the lines of the query plans that scan a whole table, or an index of all its rows.

    `whole_indexes`: also on PostgreSQL, whose plans for small tables read whole indexes for good reason.
    """
    found: list[str] = []
    for statement, values in seen:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
            plan_lines = PLANS[store().name].list_scans(statement, values)
            found += [
                f"{line}: {statement}"
                for line in plan_lines
                if whole_indexes or not _WHOLE_INDEX.search(line)
            ]
    return found


def list_sqlite_scans(statement: str, values: Any) -> list[str]:
    values = [0] * statement.count("?") if isinstance(values, int) else values
    plan_lines = [row[3] for row in db.execute_sql(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()]
    return [
        line
        for line in plan_lines
        if line.startswith("SCAN") and line not in INDEXED_VALUES and line.split()[-1] not in PARTIAL_INDEXES
    ]


def list_postgresql_scans(statement: str, values: Any) -> list[str]:
    """Return the scans of a whole table or index.

    With enable_seqscan off, a sequential scan remains only where no index fits. A join may read a whole index
    instead: an index scan without a condition. That counts for the tables that grow with the alerts.
    """
    db.execute_sql("set enable_seqscan = off")
    plan = [row[0] for row in db.execute_sql(f"EXPLAIN {statement}", values).fetchall()]
    return [
        row
        for row, below in zip(plan, [*plan[1:], ""], strict=True)
        if "Seq Scan" in row
        or (_WHOLE_INDEX.search(row) and "Index Cond" not in below and not _is_partial(row))
    ]


_WHOLE_INDEX = re.compile(
    r"Index (Only )?Scan .* on (receipt|event|entity|incident|notification|message|attempt|timer) "
)


def _is_partial(row: str) -> bool:
    return any(f"using {name} " in row for name in PARTIAL_INDEXES)


def list_sorts(seen: Sequence[Statement]) -> list[str]:
    """Return the lines of the query plans that sort rows."""
    return PLANS[store().name].list_sorts(seen)


def list_sqlite_sorts(seen: Sequence[Statement]) -> list[str]:
    explained = [db.execute_sql(f"EXPLAIN QUERY PLAN {each}", values) for each, values in seen]
    return [row[3] for cursor in explained for row in cursor.fetchall() if "B-TREE" in row[3]]


def list_postgresql_sorts(seen: Sequence[Statement]) -> list[str]:
    # With these methods off, a sort remains only where no index gives the order.
    for method in ("seqscan", "sort", "incremental_sort", "bitmapscan"):
        db.execute_sql(f"set enable_{method} = off")
    explained = [db.execute_sql(f"EXPLAIN {each}", values) for each, values in seen]
    return [row[0] for cursor in explained for row in cursor.fetchall() if "Sort" in row[0]]


class Plans(NamedTuple):
    """How to read what a store says about its plans."""

    list_scans: Callable[[str, Any], list[str]]
    list_sorts: Callable[[Sequence[Statement]], list[str]]


# What is no question to the store that Tocsin asks, but one of measurements: by the name of the store.
PLANS = {
    "sqlite": Plans(list_sqlite_scans, list_sqlite_sorts),
    "postgresql": Plans(list_postgresql_scans, list_postgresql_sorts),
}
