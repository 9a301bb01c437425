"""Which statements scan a table or sort, by the plans of the store."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from models.store.base import db, store

# A statement with its values; a number stands for this many values.
Statement = tuple[str, Any]

# Partial indexes that contain only pending rows: a full scan of one reads only pending rows.
PARTIAL_INDEXES = {
    "receipt_pending", "receipt_to_route", "receipt_dead_letter", "event_pending", "event_dead_letter",
    "message_due", "timer_due", "entity_deferred",
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


def list_scans(seen: Iterable[Statement]) -> list[str]:
    """Return the lines of the query plans that scan a whole table, or an index of all its rows."""
    found: list[str] = []
    for statement, values in seen:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
            found += [f"{line}: {statement}" for line in PLANS[store().name](statement, values)]
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
    """Return the sequential scans. With enable_seqscan off they remain only where no index fits."""
    db.execute_sql("set enable_seqscan = off")
    plan_lines = [row[0] for row in db.execute_sql(f"EXPLAIN {statement}", values).fetchall()]
    return [line for line in plan_lines if "Seq Scan" in line]


PLANS = {"sqlite": list_sqlite_scans, "postgresql": list_postgresql_scans}


def list_sorts(seen: Sequence[Statement]) -> list[str]:
    """Return the lines of the query plans that sort rows."""
    if store().name == "sqlite":
        explained = [db.execute_sql(f"EXPLAIN QUERY PLAN {each}", values) for each, values in seen]
        return [row[3] for cursor in explained for row in cursor.fetchall() if "B-TREE" in row[3]]
    # With these methods off, a sort remains only where no index gives the order.
    for method in ("seqscan", "sort", "incremental_sort", "bitmapscan"):
        db.execute_sql(f"set enable_{method} = off")
    explained = [db.execute_sql(f"EXPLAIN {each}", values) for each, values in seen]
    return [row[0] for cursor in explained for row in cursor.fetchall() if "Sort" in row[0]]
