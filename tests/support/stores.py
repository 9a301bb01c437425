"""The store that the tests run on: a SQLite file for each, or PostgreSQL databases that are dropped again.

TEST_DATABASE_URL names a PostgreSQL server on which the tests may make databases of their own, for
example postgresql:///postgres; unset means SQLite.
"""

import copy
import os
import secrets
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import peewee
import psycopg

from models.store.base import SQLITE_FILE, Store, connection, db, open_store, store
from models.store.migrate import migrate
from models.tables.all import TABLES

SERVER = os.environ.get("TEST_DATABASE_URL", "")

# Two runs of the tests at once, and the processes of one, must not meet.
PREFIX = f"tocsin_test_{secrets.token_hex(5)}"

# The databases of this test process, by the data folder that each belongs to.
_databases: dict[Path, str] = {}
_shared: str = ""


def get_url(home: Path) -> str:
    """The database of a data folder, made when it is first asked for; empty on SQLite, where the folder
    holds it.
    """
    if not SERVER:
        return ""
    if home not in _databases:
        _databases[home] = create_database()
    return _databases[home]


def get_settings(home: Path) -> dict[str, str]:
    """The settings that lead a process to this folder and its database."""
    url = get_url(home)
    return {"TOCSIN_HOME": str(home), **({"TOCSIN_DATABASE_URL": url} if url else {})}


def create_database() -> str:
    """The URL of a new, empty database."""
    name = f"{PREFIX}_{secrets.token_hex(4)}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f'create database "{name}"')
    base, mark, options = SERVER.partition("?")
    return f"{base.rpartition('/')[0]}/{name}{mark}{options}"


def drop_database(url: str) -> None:
    """Drop a database of ours, whoever is still connected to it."""
    name = urlsplit(url).path.lstrip("/")
    assert name.startswith(PREFIX)
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f'drop database if exists "{name}" with (force)')


def drop_store(home: Path) -> None:
    """Drop the database that was made for a data folder, if any."""
    url = _databases.pop(home, _shared)
    if url != _shared:
        drop_database(url)


def drop_all_stores() -> None:
    """Drop every database of this test process."""
    for url in {*_databases.values(), _shared} - {""}:
        drop_database(url)
    _databases.clear()


class Migrated:
    """A schema that is made once and given to each test without rows."""

    # The one of this process; None until it is needed.
    cached: "Migrated | None" = None

    def __init__(self, folder: Path) -> None:
        global _shared
        self._folder = folder
        _shared = get_url(folder)
        open_store(_shared, folder)
        migrate(folder)
        db.close_all()

    def open_copy(self, home: Path) -> Store:
        """The store of one test, its data folder included."""
        home.mkdir(parents=True, exist_ok=True)
        if not SERVER:
            shutil.copyfile(self._folder / SQLITE_FILE, home / SQLITE_FILE)
            return open_store("", home)
        _databases[home] = _shared
        opened = open_store(_shared, home)
        with connection():
            db.execute_sql(_build_delete_statement())
        return opened


T = TypeVar("T")


class RowCache(Generic[T]):
    """Rows that many tests begin with, made once in each process and put in by bulk for all others: on
    SQLite as the whole file.

    `what` is what was made with them; each test gets one of its own.
    """

    def __init__(self) -> None:
        self._cached: tuple[T, Any] | None = None

    def get(self, make: Callable[[], T]) -> T:
        """Into a store that holds what it held when it was made first."""
        if self._cached is None:
            value = make()
            kept = _read_all_rows() if SERVER else _file_of_store().read_bytes()
            self._cached = copy.deepcopy(value), kept
        else:
            value, kept = copy.deepcopy(self._cached[0]), self._cached[1]
            if SERVER:
                _insert_rows(kept)
            else:
                _file_of_store().write_bytes(kept)
        db.connect(reuse_if_open=True)
        return value


def _file_of_store() -> Path:
    """SQLite's file, which nobody has open and in which all is that was written."""
    db.close_all()
    return Path(db.database)


def _read_all_rows() -> dict[str, tuple[list[str], list[Any]]]:
    """The columns and rows of each table that has any, in the order in which they can be put in."""
    found = {}
    for table in peewee.sort_models(TABLES):
        cursor = db.execute_sql(f'select * from "{table._meta.table_name}" order by id')
        if rows := cursor.fetchall():
            found[table._meta.table_name] = [each[0] for each in cursor.description], rows
    return found


def _insert_rows(found: dict[str, tuple[list[str], list[Any]]]) -> None:
    """In the place of whatever is there."""
    mark = "%s" if SERVER else "?"
    with store().write_transaction():
        for table in reversed(peewee.sort_models(TABLES)):
            db.execute_sql(f'delete from "{table._meta.table_name}"')
        cursor = db.cursor()
        for table, (columns, rows) in found.items():
            names = ", ".join(f'"{name}"' for name in columns)
            places = ", ".join([mark] * len(columns))
            cursor.executemany(f'insert into "{table}" ({names}) values ({places})', rows)
        if SERVER:
            nexts = (f"setval('\"{table}_id_seq\"', {rows[-1][0]})" for table, (_, rows) in found.items())
            db.execute_sql(f"select {', '.join(nexts)}")


@cache
def _build_delete_statement() -> str:
    """A statement that takes all rows and begins every number anew.

    A truncate of all tables makes their files anew, which took 0.4 s where this takes 2 ms.
    """
    tables = [table._meta.table_name for table in peewee.sort_models(TABLES)]
    found = db.execute_sql("select sequencename from pg_sequences where schemaname = current_schema()")
    numbers = [name for (name,) in found if name.rpartition("_id_seq")[0] in tables]
    deletes = "; ".join(f'delete from "{table}"' for table in reversed(tables))
    restarts = ", ".join(f"setval('\"{name}\"', 1, false)" for name in numbers)
    return f"begin; {deletes}; select {restarts}; commit"
