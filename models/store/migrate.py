"""Bring the schema up to date: each numbered script in migrations/ runs once, in one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playhouse.migrations import Runner

from models.store.base import connection, db, store

MIGRATIONS_DIR = Path(__file__).with_name("migrations")

# Any number, the same in every process: PostgreSQL's advisory locks are named by numbers.
_LOCK = 7_206_247


class SchemaOutdated(RuntimeError):
    """The database is older than the program; the text says what to run."""


class SchemaUnknown(RuntimeError):
    """The database has migrations that this program does not know; the text names them."""


def migrate(home: Path) -> list[str]:
    """Apply what is missing; returns the names applied. Safe to run from several processes and hosts."""
    with connection(), _lock_migrations(home):
        return _open_runner().up()


def create_schema(home: Path) -> list[str]:
    """Give an empty database its schema; returns the names applied. Raises SchemaBehind.

    A database that is in use is brought up to date only when somebody asks for it: others may still work
    on it. Waits for whoever does that at the moment.
    """
    with connection(), _lock_migrations(home):
        runner = _open_runner()
        missing = _list_missing(runner)
        if missing and runner.applied():
            raise _build_error(missing)
        return runner.up()


def require_schema() -> None:
    """Look whether the schema is as the program needs it, and change nothing. Raises SchemaBehind."""
    with connection():
        runner = _open_runner()
        if not runner.applied():
            raise SchemaOutdated("the database is empty: start Tocsin, or run `tocsin migrate`")
        if missing := _list_missing(runner):
            raise _build_error(missing)


def list_pending() -> list[str]:
    """Names of the migrations that the schema still lacks."""
    with connection():
        return _list_missing(_open_runner())


def _build_error(missing: list[str]) -> SchemaOutdated:
    return SchemaOutdated(f"the database lacks {', '.join(missing)}: run `tocsin migrate` first")


def _list_missing(runner: Runner) -> list[str]:
    return [migration.name for migration in runner.status() if not migration.applied]


def _open_runner() -> Runner:
    """Open the runner of this program's migrations. Raises SchemaUnknown."""
    runner = Runner(db.obj, str(MIGRATIONS_DIR))
    known = {migration.name for migration in runner.migrations()}
    if unknown := sorted(set(runner.applied()) - known):
        raise SchemaUnknown(
            f"this program does not know {', '.join(unknown)}, which the database has:"
            " start the version of Tocsin that made it or a later one, or use an empty database"
        )
    return runner


@contextmanager
def _lock_migrations(home: Path) -> Iterator[None]:
    if store().name == "postgresql":
        db.execute_sql("select pg_advisory_lock(%s)", (_LOCK,))
        try:
            yield
        finally:
            db.execute_sql("select pg_advisory_unlock(%s)", (_LOCK,))
        return
    handle = os.open(home / "migrate.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
