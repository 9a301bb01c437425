"""Many rows in one statement, without building it anew for every value.

peewee writes a statement value by value, which costs more than the database's own work for batches of
hundreds. Here the statement depends on the table and columns alone: SQLite gets the rows one after the
other inside one call, PostgreSQL gets one array per column.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import peewee

from models.store.base import store

Record = dict[str, Any]
# A class of rows; to the type checker it is Any, since peewee's classes cannot be keys of a cache.
Model = Any

# field_type -> the type of the array that carries such a column to PostgreSQL.
_ARRAY_TYPES = {
    "AUTO": "integer", "BIGAUTO": "bigint", "INT": "integer", "SMALLINT": "smallint", "BIGINT": "bigint",
    "VARCHAR": "text", "TEXT": "text", "BOOL": "boolean", "TIMESTAMPTZ": "timestamptz", "BLOB": "bytea",
    "DOUBLE": "double precision",
}  # fmt: skip


def insert(
    table: Model,
    records: list[Record],
    *,
    conflict: Sequence[str] = (),
    replacing: Sequence[str] = (),
    adding: Sequence[str] = (),
) -> None:
    """Insert records, which all have the same keys; columns left out get the model's default.

    With `conflict` (columns of a unique index), rows that exist get the columns `replacing` anew and those
    `adding` on top of what they hold, or stay as they are when there are none.
    """
    if records:
        names = (*records[0], *_list_defaults(table, frozenset(records[0])))
        changed = (tuple(replacing), tuple(adding))
        statement = _build_insert(table, names, tuple(conflict), *changed, store().name)
        _run(table, statement, names, records)


def update(table: Model, records: list[Record]) -> None:
    """Set columns of existing rows; each record has the same keys, `id` among them."""
    if records:
        names = (*(name for name in records[0] if name != "id"), "id")
        _run(table, _build_update(table, names, store().name), names, records)


def _run(table: Model, statement: str, names: Sequence[str], records: Iterable[Record]) -> None:
    fields = [table._meta.fields[name] for name in names]
    defaults = table._meta.defaults
    rows = [
        tuple(
            field.db_value(record[field.name] if field.name in record else _get_default(defaults[field]))
            for field in fields
        )
        for record in records
    ]
    store().execute_many(statement, rows)


def _get_default(value: Any) -> Any:
    return value() if callable(value) else value


@cache
def _list_defaults(table: Model, provided: frozenset[str]) -> tuple[str, ...]:
    return tuple(field.name for field in table._meta.defaults if field.name not in provided)


@cache
def _build_insert(
    table: Model,
    names: tuple[str, ...],
    conflict: tuple[str, ...],
    replacing: tuple[str, ...],
    adding: tuple[str, ...],
    dialect: str,
) -> str:
    columns = ", ".join(_quote_column(table, name) for name in names)
    values = f"VALUES ({', '.join('?' for _ in names)})"
    if dialect == "postgresql":
        values = f"SELECT * FROM unnest({', '.join(_build_array(table, name) for name in names)})"  # noqa: S608
    clause = ""
    if conflict:
        target = ", ".join(_quote_column(table, name) for name in conflict)
        assignments = [
            f"{column} = excluded.{column}" for column in (_quote_column(table, n) for n in replacing)
        ]
        for column in (_quote_column(table, name) for name in adding):
            assignments.append(f'{column} = "{table._meta.table_name}".{column} + excluded.{column}')
        clause = f" ON CONFLICT ({target}) DO " + (
            f"UPDATE SET {', '.join(assignments)}" if assignments else "NOTHING"
        )
    return f'INSERT INTO "{table._meta.table_name}" ({columns}) {values}{clause}'


@cache
def _build_update(table: Model, names: tuple[str, ...], dialect: str) -> str:
    target, changed = f'"{table._meta.table_name}"', names[:-1]
    if dialect != "postgresql":
        settings = ", ".join(f"{_quote_column(table, name)} = ?" for name in changed)
        return f"UPDATE {target} SET {settings} WHERE id = ?"  # noqa: S608
    settings = ", ".join(
        f"{_quote_column(table, name)} = given.{_quote_column(table, name)}" for name in changed
    )
    arrays = ", ".join(_build_array(table, name) for name in names)
    columns = ", ".join(_quote_column(table, name) for name in names)
    return f"UPDATE {target} SET {settings} FROM unnest({arrays}) AS given ({columns}) WHERE {target}.id = given.id"  # noqa: S608, E501


def _quote_column(table: Model, name: str) -> str:
    return f'"{table._meta.fields[name].column_name}"'


def _build_array(table: Model, name: str) -> str:
    field = table._meta.fields[name]
    while isinstance(field, peewee.ForeignKeyField):
        field = field.rel_field
    # In binary: as text each value would be escaped in Python, which costs ten times as much.
    return f"%b::{_ARRAY_TYPES[field.field_type]}[]"
