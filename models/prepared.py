"""Queries whose SQL is written once per process, for what is asked for each batch.

peewee declares them; writing their SQL anew costs more than the database's own work: measured, a third of a
worker's time in a storm. What differs from call to call is named in the query by `given` and `among`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import peewee

from models.base import db, store


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value is put in; `many` values travel as one."""

    name: str
    many: bool = False


class _Given(peewee.ColumnBase):
    def __init__(self, place: _Place) -> None:
        self._place = place
        super().__init__()

    def __sql__(self, ctx: Any) -> Any:
        return ctx.value(self._place, converter=False)


def given(name: str) -> Any:
    """A value that is put in at each call."""
    return _Given(_Place(name))


def among(field: Any, name: str) -> Any:
    """Whether a column is among values that are put in at each call: any number of them, one parameter."""
    return _one_of(field, _Given(_Place(name, many=True)))


def any_of(field: Any, values: Iterable[Any]) -> Any:
    """The same in a query that is written each time, for more values than a statement can name."""
    return _one_of(field, peewee.Value(_many(values), converter=False, unpack=False))


def holding(field: Any, texts: Iterable[str]) -> Any:
    """Whether a column's text holds one of these, wherever in it; any number of them, one parameter."""
    if store().name == "postgresql":
        before, between = "EXISTS (SELECT 1 FROM UNNEST(", "::text[]) AS one(value) WHERE STRPOS("
    else:
        before, between = "EXISTS (SELECT 1 FROM json_each(", ") AS one WHERE INSTR("
    asked = peewee.Value(_many(texts), converter=False, unpack=False)
    parts = (peewee.SQL(before), asked, peewee.SQL(between), field, peewee.SQL(", one.value) > 0)"))
    return peewee.NodeList(parts, glue="")


def _one_of(field: Any, values: Any) -> Any:
    if store().name == "postgresql":
        return peewee.Expression(
            field, "=", peewee.NodeList((peewee.SQL("ANY("), values, peewee.SQL(")")), glue="")
        )
    listed = peewee.NodeList((peewee.SQL("(SELECT value FROM json_each("), values, peewee.SQL("))")), glue="")
    return peewee.Expression(field, "IN", listed)


@dataclass(frozen=True, slots=True)
class _Written:
    sql: str
    places: tuple[Any, ...]
    readers: tuple[Callable[[Any], Any] | None, ...]


class Prepared:
    """`declare` makes the query; it is called once for each kind of store."""

    def __init__(self, declare: Callable[[], Any]) -> None:
        self._declare = declare
        self._written: dict[str, _Written] = {}

    def rows(self, **values: Any) -> list[tuple[Any, ...]]:
        """All rows as tuples of the selected columns, each as its field reads it."""
        written = self._for_store()
        cursor = db.execute_sql(written.sql, self._parameters(written, values))
        readers = written.readers
        if not any(readers):
            return list(cursor.fetchall())
        return [_read(row, readers) for row in cursor.fetchall()]

    def first(self, **values: Any) -> tuple[Any, ...] | None:
        """The first row, or None."""
        return next(iter(self.rows(**values)), None)

    def run(self, **values: Any) -> int:
        """For a statement without an answer: how many rows it changed."""
        written = self._for_store()
        count: int = db.execute_sql(written.sql, self._parameters(written, values)).rowcount
        return count

    def _for_store(self) -> _Written:
        name = store().name
        if name not in self._written:
            self._written[name] = _write(self._declare())
        return self._written[name]

    @staticmethod
    def _parameters(written: _Written, values: dict[str, Any]) -> list[Any]:
        return [
            _sent(place, values[place.name]) if isinstance(place, _Place) else place
            for place in written.places
        ]


def _sent(place: _Place, value: Any) -> Any:
    if not place.many:
        return store().moment_in(value.astimezone(UTC)) if isinstance(value, datetime) else value
    return _many(value)


def _many(values: Iterable[Any]) -> Any:
    return list(values) if store().name == "postgresql" else orjson.dumps(list(values)).decode()


def _write(query: Any) -> _Written:
    """Numbers that never differ are written into the text: only so are indexes of some rows chosen."""
    sql, places = query.sql()
    sign = "%s" if store().name == "postgresql" else "?"
    parts = sql.split(sign)
    text = parts[0]
    for place, part in zip(places, parts[1:], strict=True):
        text += (_literal(place) if isinstance(place, int) else sign) + part
    kept = tuple(place for place in places if not isinstance(place, int))
    return _Written(text, kept, tuple(_reader(column) for column in getattr(query, "_returning", None) or ()))


def _literal(value: int) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(int(value))


def _reader(column: Any) -> Callable[[Any], Any] | None:
    """What makes a column's value of what the driver gives; None where they are the same."""
    field = column.unalias() if hasattr(column, "unalias") else column
    field = getattr(field, "field", field)
    reader: Callable[[Any], Any] | None = getattr(field, "python_value", None)
    if not isinstance(field, peewee.Field) or isinstance(
        field, peewee.ForeignKeyField | peewee.CharField | peewee.IntegerField | peewee.AutoField
    ):
        return None
    return reader


def _read(row: tuple[Any, ...], readers: tuple[Callable[[Any], Any] | None, ...]) -> tuple[Any, ...]:
    return tuple(
        value if read is None or value is None else read(value)
        for value, read in zip(row, readers, strict=True)
    )
