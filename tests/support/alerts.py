"""Write accepted alerts as the web process does, and read rows as comparable values."""

import json
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import peewee

from models.store.base import Table
from models.tables.events import Receipt
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import STORED_SOURCES
from tests.support.world import World

_ID_LIKE = {"id", "message"}


def accept(
    world: World,
    now: datetime,
    *,
    source: str = "generic",
    body: bytes | None = None,
    trace: int | None = None,
    exactly: bool = False,
    **alert: Any,
) -> Receipt:
    """Write a receipt of one generic alert or of a whole body.

    It is accepted a millisecond after the previous one, or with `exactly` at `now`.
    """
    number = Receipt.select().count() if trace is None else trace
    raw = body if body is not None else json.dumps(alert).encode()
    return Receipt.create(
        trace_id=f"00000000-0000-4000-8000-{number:012d}",
        account=world.account,
        integration=world.integration,
        service=world.service,
        source=source,
        body=raw,
        alerts=len(STORED_SOURCES[source].parse(RequestBody(raw))),
        received_at=now if exactly else now + timedelta(milliseconds=number),
    )


def list_rows(*tables: type[Table], without: Collection[str] = ()) -> dict[str, list[str]]:
    """Return all rows of these tables, without the columns that may differ between equal sequences.

    Row numbers depend on the order of inserts. Notifications share messages depending on batches. References
    to incidents are replaced by the incident's unique_id.
    """
    ids = _UniqueIds()
    return {
        table.__name__: sorted(repr(_get_values(row, ids, without)) for row in table.select())
        for table in tables
    }


class _UniqueIds(dict[Any, dict[int, str]]):
    """The unique_id of each row by its number, for each table. A table is read on first access."""

    def __missing__(self, table: Any) -> dict[int, str]:
        self[table] = dict(table.select(table.id, table.unique_id).tuples())
        return self[table]


def _get_values(row: Any, ids: _UniqueIds, without: Collection[str]) -> dict[str, Any]:
    hidden = {"id", "receipt", *without, *(["message"] if row._meta.table_name == "notification" else [])}
    values = {name: row.__data__.get(name) for name in row._meta.sorted_field_names if name not in hidden}
    return {name: _named(row._meta.fields[name], value, ids) for name, value in values.items()}


def _named(field: Any, value: Any, ids: _UniqueIds) -> Any:
    if value is None or not isinstance(field, peewee.ForeignKeyField):
        return value
    return ids[field.rel_model][value] if "unique_id" in field.rel_model._meta.fields else value
