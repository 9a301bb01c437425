"""Write many rows with one cached statement.

peewee builds a statement value by value. For batches of hundreds of rows that costs more than the work of
the database. Here the statement depends only on the table and its columns. SQLite gets the rows one by one
inside one call. PostgreSQL gets one array per column, or a single value if all rows have the same one: the
alerts of a batch have most of their values in common.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import peewee

from models.store.peewee_internals import get_defaults, get_fields, get_table_name
from models.store.store import Column, store

# The values of a row by the names of their columns.
Record = Mapping[str, object]
# A model class. It is Any for the type checker, because peewee's classes are not typed as hashable.
Model = Any


def insert(
    table: Model,
    records: Sequence[Record],
    *,
    conflict: Sequence[str] = (),
    replacing: Sequence[str] = (),
    adding: Sequence[str] = (),
) -> None:
    """Insert records, which all have the same keys; missing columns get the default of the model.

    `conflict` names the columns of a unique index. In rows that exist, the columns `replacing` are replaced
    and the columns `adding` are increased by the new value. Without both, existing rows stay unchanged.
    """
    if records:
        names = (*records[0], *_list_defaults(table, frozenset(records[0])))
        changed = (tuple(replacing), tuple(adding))
        build = partial(_build_insert, table, names, tuple(conflict), *changed, store().build_rows)
        _run(table, build, names, records)


def update(table: Model, records: Sequence[Record]) -> None:
    """Update existing rows. All records have the same keys, including `id`."""
    if records:
        names = (*(name for name in records[0] if name != "id"), "id")
        _run(table, partial(_build_update, table, names, store().build_update), names, records)


# Builds a statement. Its argument says which columns have the same value in all rows.
BuildStatement = Callable[[tuple[bool, ...]], str]


def _run(table: Model, build: BuildStatement, names: Sequence[str], records: Sequence[Record]) -> None:
    fields = [get_fields(table)[name] for name in names]
    defaults = get_defaults(table)
    # Encode by column: in storms, most time of a write is spent here.
    columns = [
        _encode(field, [record[field.name] for record in records])
        if field.name in records[0]
        else [field.db_value(_get_default(defaults[field])) for _ in records]
        for field in fields
    ]
    store().execute_many(build, columns)


# The classes of columns whose values of this type are stored as they are. The others are converted.
_STORED_AS = {
    peewee.CharField: str,
    peewee.TextField: str,
    peewee.IntegerField: int,
    peewee.SmallIntegerField: int,
    peewee.BigIntegerField: int,
    peewee.BooleanField: bool,
    peewee.ForeignKeyField: int,
}


def _encode(field: peewee.Field, values: list[object]) -> list[object]:
    """Return the values of a column as the driver needs them."""
    if {*map(type, values)} <= {_STORED_AS.get(type(field)), type(None)}:
        return values
    return list(map(field.db_value, values))


def _get_default(value: object) -> object:
    return value() if callable(value) else value


@cache
def _list_defaults(table: Model, provided: frozenset[str]) -> tuple[str, ...]:
    return tuple(field.name for field in get_defaults(table) if field.name not in provided)


@cache
def _build_insert(
    table: Model,
    names: tuple[str, ...],
    conflict: tuple[str, ...],
    replacing: tuple[str, ...],
    adding: tuple[str, ...],
    build_rows: Callable[[Sequence[Column], Sequence[bool]], str],
    singles: tuple[bool, ...],
) -> str:
    columns = _list_columns(table, names)
    clause = ""
    if conflict:
        target = ", ".join(_quote_column(table, name) for name in conflict)
        assignments = [
            f"{column} = excluded.{column}" for column in (_quote_column(table, n) for n in replacing)
        ]
        for column in (_quote_column(table, name) for name in adding):
            assignments.append(f'{column} = "{get_table_name(table)}".{column} + excluded.{column}')
        clause = f" ON CONFLICT ({target}) DO " + (
            f"UPDATE SET {', '.join(assignments)}" if assignments else "NOTHING"
        )
    listed, rows = ", ".join(name for name, _ in columns), build_rows(columns, singles)
    return f'INSERT INTO "{get_table_name(table)}" ({listed}) {rows}{clause}'


@cache
def _build_update(
    table: Model,
    names: tuple[str, ...],
    build_update: Callable[[str, Sequence[Column], Sequence[bool]], str],
    singles: tuple[bool, ...],
) -> str:
    return build_update(f'"{get_table_name(table)}"', _list_columns(table, names), singles)


def _list_columns(table: Model, names: Sequence[str]) -> list[Column]:
    return [(_quote_column(table, name), _get_type(table, name)) for name in names]


def _quote_column(table: Model, name: str) -> str:
    return f'"{get_fields(table)[name].column_name}"'


def _get_type(table: Model, name: str) -> str:
    """Return the type of a column, of a reference that of the column that it refers to."""
    field = get_fields(table)[name]
    while isinstance(field, peewee.ForeignKeyField):
        field = field.rel_field
    type_: str = field.field_type
    return type_
