"""The base classes of tables, and field types that behave the same on both stores."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
import peewee

from models.domain.reasons import Reason, from_json
from models.store.store import db, store


class UtcField(peewee.Field):
    """An aware datetime: TIMESTAMPTZ on PostgreSQL, UTC text of fixed width (which sorts) on SQLite.

    Raises ValueError for naive values. Returns aware UTC values.
    """

    field_type = "TIMESTAMPTZ"

    def db_value(self, value: datetime | None) -> datetime | str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{self.name} needs an aware datetime")
        return store().encode_datetime(value.astimezone(UTC))

    def python_value(self, value: datetime | str | None) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        return value.astimezone(UTC)


class JsonField(peewee.TextField):
    """JSON stored as text: the same bytes on both stores. Queries do not look inside."""

    def db_value(self, value: object) -> str | None:
        return None if value is None else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()

    def python_value(self, value: str | None) -> object:
        return None if value is None else orjson.loads(value)


class ReasonField(JsonField):
    """A reason, stored as JSON."""

    def python_value(self, value: str | None) -> Reason | None:
        if value is None:
            return None
        return _read_reason(value)


@lru_cache(maxsize=256)
def _read_reason(stored: str) -> Reason:
    """Return a stored reason. The notifications of a mail mostly have the same one."""
    return from_json(orjson.loads(stored))


class SequenceField(peewee.BigAutoField):
    """A row number that is never used twice, even after the newest row is deleted."""

    def ddl_datatype(self, ctx: peewee.Context) -> peewee.SQL:
        return peewee.SQL(store().sequence_type)

    def ddl(self, ctx: peewee.Context) -> peewee.NodeList:
        return peewee.NodeList((super().ddl(ctx), peewee.SQL(store().sequence_suffix)))


# Rows are Any for the type checker: peewee creates attributes (id, team_id ...) that stubs do not have.
if TYPE_CHECKING:
    _Model: Any
else:
    _Model = peewee.Model


class Table(_Model):
    class Meta:
        database = db
        legacy_table_names = False

    @classmethod
    def declare_index(cls, name: str, *columns: str, where: str | None = None, unique: bool = False) -> None:
        """Add an index; with `where` it holds only the rows that meet this SQL condition."""
        fields = [getattr(cls, column) for column in columns]
        condition = None if where is None else peewee.SQL(where)
        cls.add_index(cls.index(*fields, where=condition, unique=unique, name=name))


class ObjectTable(Table):
    """A table of objects that the interface shows by a UUID."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()


class NumberedTable(Table):
    """A table of objects that people change.

    `number` names the version of an object: each change of the object raises it, in the transaction of the
    change. What workers write, for example the time of the last ping, raises no number.
    """

    number = peewee.IntegerField(default=1)

    @classmethod
    def raise_number(cls) -> dict[str, object]:
        """Return what raises the number of each row that an update changes."""
        return {"number": cls.number + 1}


class NumberedObject(NumberedTable, ObjectTable):
    """A table of objects that people change, and that the interface shows by a UUID."""
