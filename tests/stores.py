"""The store that the tests run on: a SQLite file for each, or one PostgreSQL database that is emptied.

TEST_DATABASE_URL names a PostgreSQL server on which the tests may make databases of their own, for
example postgresql:///postgres; unset means SQLite.
"""

import os
import shutil
from pathlib import Path

import psycopg

from models.base import Store, connection, db, open_store
from models.migrate import migrate
from models.tables import TABLES

SERVER = os.environ.get("TEST_DATABASE_URL", "")


def database_url() -> str:
    """The database of this test process; empty on SQLite, where a data folder is a database."""
    if not SERVER:
        return ""
    name = f"tocsin_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    return f"{SERVER.rpartition('/')[0]}/{name}"


def make_empty() -> None:
    """A database without a schema."""
    if not SERVER:
        return
    name = database_url().rpartition("/")[2]
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f'drop database if exists "{name}" with (force)')
        server.execute(f'create database "{name}"')


class Migrated:
    """A schema that is made once and given to each test without rows."""

    # The one of this process; None until it is needed, or after a test has taken it down.
    made: "Migrated | None" = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_empty()
        open_store(database_url(), folder)
        migrate(folder)
        db.close_all()

    def give(self, home: Path) -> Store:
        """The store of one test, its data folder included."""
        home.mkdir(parents=True, exist_ok=True)
        if not SERVER:
            shutil.copy(self._folder / "tocsin.db", home / "tocsin.db")
            return open_store("", home)
        opened = open_store(database_url(), home)
        names = ", ".join(f'"{table._meta.table_name}"' for table in TABLES)
        with connection():
            db.execute_sql(f"truncate {names} restart identity cascade")
        return opened
