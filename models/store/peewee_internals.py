"""What peewee knows of tables, rows and connections: the only file that uses its private names.

docs/upgrading-dependencies.md lists each name with the test that notices when it breaks.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import peewee
from playhouse.pool import PooledDatabase, PooledPostgresqlDatabase

if TYPE_CHECKING:
    import psycopg

TableOrRow = peewee.Model | type[peewee.Model]

# Raises the errors of a driver as those of peewee.
wrap_errors: AbstractContextManager[None] = peewee.__exception_wrapper__  # type: ignore[attr-defined]


def get_table_name(table: TableOrRow) -> str:
    name: str = table._meta.table_name
    return name


def list_fields(table: TableOrRow) -> list[peewee.Field]:
    """Return the fields of a table in the order in which a select returns its columns."""
    return list(table._meta.sorted_fields)


def list_field_names(table: TableOrRow) -> list[str]:
    """Return the names of the fields in the same order. The caller must not change the list."""
    names: list[str] = table._meta.sorted_field_names
    return names


def get_fields(table: TableOrRow) -> Mapping[str, peewee.Field]:
    """Return the fields of a table by their names."""
    fields: Mapping[str, peewee.Field] = table._meta.fields
    return fields


def get_defaults(table: TableOrRow) -> Mapping[peewee.Field, object]:
    """Return the default of each field that has one: a value, or a function that returns it."""
    defaults: Mapping[peewee.Field, object] = table._meta.defaults
    return defaults


def list_references(table: TableOrRow) -> list[peewee.ForeignKeyField]:
    return list(table._meta.refs)


def get_referred(reference: peewee.Field) -> type[peewee.Model]:
    """Return the table to which a reference refers. Raise TypeError if the field is no reference."""
    if not isinstance(reference, peewee.ForeignKeyField):
        raise TypeError(f"{reference.name} is no reference")
    table: type[peewee.Model] = reference.rel_model
    return table


def list_backrefs(table: TableOrRow) -> list[peewee.ForeignKeyField]:
    """Return the references of all tables to this one."""
    return list(table._meta.backrefs)


def get_values(row: peewee.Model) -> dict[str, object]:
    """Return the values of a row by field. A change of the dictionary is one of the row."""
    values: dict[str, object] = row.__data__
    return values


def mark_as_stored(row: peewee.Model) -> None:
    """Let a row that was built by its class be one that was read: nothing of it has to be saved."""
    row._dirty.clear()  # type: ignore[attr-defined]


def list_selected(query: peewee.BaseQuery) -> Sequence[object]:
    """Return what a query selects or returns."""
    return getattr(query, "_returning", None) or ()


def count_used_connections(pool: PooledDatabase) -> int:
    """Return how many connections of a pool the threads of this process have now."""
    return len(pool._in_use)


class PoolOfConnections(PooledPostgresqlDatabase):
    """peewee's pool, with a public name for what its subclass extends."""

    def get_adapter(self) -> peewee.Psycopg3Adapter:
        """Return what opens and checks the connections of this pool."""
        return self._adapter

    def give_back(self, conn: "psycopg.Connection", close_conn: bool) -> None:
        """Put a connection back into the pool, or close it."""
        super()._close(conn, close_conn)

    def _close(self, conn: "psycopg.Connection", close_conn: bool = False) -> None:
        self.give_back(conn, close_conn)
