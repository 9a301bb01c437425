"""Prepare queries: build their SQL text once per process. Use this for the queries of each batch.

The queries are declared with peewee. Building the SQL text for each call costs more than the work of the
database: measured, a third of a worker's time in an alert storm. `bind` and `in_bound` mark the values that
differ between calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from weakref import WeakSet

import peewee

from models.store.fields import Table
from models.store.peewee_internals import list_field_names, list_selected, mark_as_stored
from models.store.store import Store, db, store

Row = TypeVar("Row", bound=Table)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A placeholder for a value; `is_list`: many values are sent as one parameter."""

    name: str
    is_list: bool = False


class _Bound(peewee.ColumnBase):
    def __init__(self, parameter: _Parameter) -> None:
        self._parameter = parameter
        super().__init__()

    def __sql__(self, ctx: peewee.Context) -> peewee.Context:
        return ctx.value(self._parameter, converter=False)


def bind(name: str) -> peewee.ColumnBase:
    """Return a placeholder for a value of each call."""
    return _Bound(_Parameter(name))


def in_bound(field: peewee.ColumnBase, name: str) -> peewee.Expression:
    """Return the condition that a column is in a list of each call. Any number of values is one parameter."""
    return store().in_list(field, _bind_list(name))


def _bind_list(name: str) -> peewee.ColumnBase:
    return _Bound(_Parameter(name, is_list=True))


def in_bound_pairs(
    first: tuple[peewee.ColumnBase, str], second: tuple[peewee.ColumnBase, str], type_: str
) -> peewee.Expression:
    """Return the condition that two columns are a pair of two lists of each call, which have equal lengths.

    `type_` is the type of the second column in PostgreSQL; the first one is a row number. SQLite also finds
    other combinations of the listed values.
    """
    (field, name), (other_field, other_name) = first, second
    lists = _bind_list(name), _bind_list(other_name)
    return store().in_pairs((field, other_field), lists, type_)


def in_list(field: peewee.ColumnBase, values: Iterable[object]) -> peewee.Expression:
    """Return the same condition for a query that is not prepared. Any number of values is one parameter."""
    return store().in_list(field, _give_list(values))


def contains_any(field: peewee.ColumnBase, texts: Iterable[str]) -> peewee.NodeList:
    """Return the condition that a column contains one of these texts. All texts are one parameter."""
    return store().contains_any(field, _give_list(texts))


def _give_list(values: Iterable[object]) -> peewee.Value:
    return peewee.Value(store().encode_list(values), converter=False, unpack=False)


def on_found_rows(condition: peewee.Expression) -> peewee.Function:
    """Return a condition that is checked only on rows that the other conditions found by an index.

    For a condition of a partial index, as `status < 3`. PostgreSQL's statistics can be some minutes old. If
    nothing was open then, it takes the index of the open rows for empty, and reads all of it for a query that
    has to search another one.
    """
    return peewee.fn.COALESCE(condition, peewee.SQL("FALSE"))


# Converts a driver's value of one column.
_Reader = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class _Compiled:
    sql: str
    parameters: tuple[object, ...]
    readers: tuple[_Reader | None, ...]


class Prepared:
    """A prepared query. `build_query` is called once for each kind of store."""

    def __init__(self, build_query: Callable[[], peewee.BaseQuery]) -> None:
        self._build_query = build_query
        self._compiled: dict[type[Store], _Compiled] = {}
        _all.add(self)

    def rows(self, **values: object) -> list[tuple[Any, ...]]:
        """Return all rows as tuples of the selected columns, converted by their fields."""
        compiled = self._get_compiled()
        cursor = db.execute_sql(compiled.sql, self._encode_values(compiled, values))
        readers = compiled.readers
        if not any(readers):
            return list(cursor.fetchall())
        return [_read_row(row, readers) for row in cursor.fetchall()]

    def first(self, **values: object) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        return next(iter(self.rows(**values)), None)

    def load(self, table: type[Row], **values: object) -> list[Row]:
        """Return all rows as models. The query must select all columns of this table, and no others."""
        return [build_model(table, row) for row in self.rows(**values)]

    def run(self, **values: object) -> int:
        """Run a statement without a result, and return the number of changed rows."""
        compiled = self._get_compiled()
        count: int = db.execute_sql(compiled.sql, self._encode_values(compiled, values)).rowcount
        return count

    def compile(self) -> None:
        """Build the SQL text now, so that the first call need not do it."""
        self._get_compiled()

    def explain(self) -> None:
        """Let PostgreSQL plan the query, without running it."""
        compiled = self._get_compiled()
        parameters = (each for each in compiled.parameters if isinstance(each, _Parameter))
        values: dict[str, object] = {each.name: [] if each.is_list else None for each in parameters}
        db.execute_sql(f"EXPLAIN {compiled.sql}", self._encode_values(compiled, values)).fetchall()

    def _get_compiled(self) -> _Compiled:
        kind = type(store())
        if kind not in self._compiled:
            self._compiled[kind] = _compile(self._build_query())
        return self._compiled[kind]

    @staticmethod
    def _encode_values(compiled: _Compiled, values: Mapping[str, object]) -> list[object]:
        return [
            _encode(parameter, values[parameter.name]) if isinstance(parameter, _Parameter) else parameter
            for parameter in compiled.parameters
        ]


def build_rows(values: Sequence[object], *tables: type[peewee.Model]) -> list[peewee.Model | None]:
    """Build a row of each table from the values of all their columns, in this order.

    None: the row number is null, because an outer join found no row.
    """
    remaining = iter(values)
    by_table = [dict(zip(list_field_names(table), remaining, strict=False)) for table in tables]
    return [None if row["id"] is None else table(**row) for table, row in zip(tables, by_table, strict=True)]


def build_model(table: type[Row], row: Sequence[object]) -> Row:
    """Build a model from the values of all columns of its table, as peewee does."""
    model = table(**dict(zip(list_field_names(table), row, strict=True)))
    mark_as_stored(model)
    return model


# The prepared queries of all loaded modules.
_all: "WeakSet[Prepared]" = WeakSet()


def compile_all() -> None:
    """Build the SQL text of all prepared queries; once, when a process has loaded its code.

    Otherwise the first alert pays for some tens of them, about 1 ms each.
    """
    for prepared in list(_all):
        prepared.compile()


def explain_all() -> None:
    """Let PostgreSQL plan all prepared queries, with the connection of this thread."""
    for prepared in list(_all):
        prepared.explain()


def _encode(parameter: _Parameter, value: Any) -> object:
    if not parameter.is_list:
        return store().encode_datetime(value.astimezone(UTC)) if isinstance(value, datetime) else value
    return store().encode_list(value)


def _compile(query: peewee.BaseQuery) -> _Compiled:
    """Build the SQL text. Constant numbers become literals, because partial indexes are used only then."""
    sql, parameters = query.sql()
    marker = store().database.param
    parts = sql.split(marker)
    text = parts[0]
    for parameter, part in zip(parameters, parts[1:], strict=True):
        text += (_format_literal(parameter) if isinstance(parameter, int) else marker) + part
    remaining = tuple(parameter for parameter in parameters if not isinstance(parameter, int))
    return _Compiled(text, remaining, tuple(_find_reader(column) for column in list_selected(query)))


def _format_literal(value: int) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(int(value))


def _find_reader(column: object) -> _Reader | None:
    """Return the function that converts a driver's value of this column; None: no conversion."""
    field = column.unalias() if hasattr(column, "unalias") else column
    field = getattr(field, "field", field)
    reader: _Reader | None = getattr(field, "python_value", None)
    if not isinstance(field, peewee.Field) or isinstance(
        field, peewee.ForeignKeyField | peewee.CharField | peewee.IntegerField | peewee.AutoField
    ):
        return None
    return reader


def _read_row(row: tuple[object, ...], readers: tuple[_Reader | None, ...]) -> tuple[object, ...]:
    return tuple(
        value if read is None or value is None else read(value)
        for value, read in zip(row, readers, strict=True)
    )
