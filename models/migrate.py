"""Bring the schema up to date: the numbered scripts in models/migrations, each once, one runner at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playhouse.migrations import Runner

from models.base import connection, db, store

DIRECTORY = Path(__file__).with_name("migrations")

# Any number, the same in every process: PostgreSQL's advisory locks are named by numbers.
_LOCK = 7_206_247


class SchemaBehind(RuntimeError):
    """The database is older than the program; the text says what to run."""


def migrate(home: Path) -> list[str]:
    """Apply what is missing; returns the names applied. Safe to run from several processes and hosts."""
    with connection(), _alone(home):
        return _runner().up()


def make_schema(home: Path) -> list[str]:
    """Give an empty database its schema; returns the names applied. Raises SchemaBehind.

    A database that is in use is brought up to date only when somebody asks for it: others may still work
    on it. Waits for whoever does that at the moment.
    """
    with connection(), _alone(home):
        runner = _runner()
        missing = _missing(runner)
        if missing and runner.applied():
            raise _behind(missing)
        return runner.up()


def require_schema() -> None:
    """Look whether the schema is as the program needs it, and change nothing. Raises SchemaBehind."""
    with connection():
        runner = _runner()
        if not runner.applied():
            raise SchemaBehind("the database is empty: start Tocsin, or run `tocsin migrate`")
        if missing := _missing(runner):
            raise _behind(missing)


def pending() -> list[str]:
    """Names of the migrations that the schema still lacks."""
    with connection():
        return _missing(_runner())


def _behind(missing: list[str]) -> SchemaBehind:
    return SchemaBehind(f"the database lacks {', '.join(missing)}: run `tocsin migrate` first")


def _missing(runner: Runner) -> list[str]:
    return [migration.name for migration in runner.status() if not migration.applied]


def _runner() -> Runner:
    return Runner(db.obj, str(DIRECTORY))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
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
