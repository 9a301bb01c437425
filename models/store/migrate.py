"""Apply the numbered scripts in models/store/migrations, each once, one process at a time.

Most processes only compare names. Those that apply nothing do not load peewee's runner.
"""

import importlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from models.store.store import Busy, connection, db, store

if TYPE_CHECKING:
    from playhouse.migrations import Migration, Runner

MIGRATIONS_DIR = Path(__file__).with_name("migrations")


class SchemaOutdated(RuntimeError):
    """The schema is older than the program. The text names the command to run."""


class SchemaUnknown(RuntimeError):
    """The program does not know the migrations or the first schema of the database; see the text."""


class MigrationRefused(RuntimeError):
    """Processes use the database. The text says what to do."""


# An attempt to lock all tables ends before PostgreSQL looks for a deadlock (deadlock_timeout, 1 s): then this
# command gives way, and not a transaction that processes alerts.
LOCK_S = 0.8
# The pause in which the other transactions go on, and how long to try.
RETRY_S = 0.5
GIVE_UP_AFTER_S = 60.0
# A process that was killed counts as running until then (DEAD_AFTER in models/reports/backlog.py).
DEAD_AFTER_S = 45
# It may still change, see decision 0095. So its name does not say which schema a database has.
FIRST = "0001_initial"
# So many names of unknown migrations are shown.
MAX_NAMES = 3
# The table of the runner, with the names of the migrations that it has applied.
SCHEMA_TABLE = "schema_migration"


def migrate(home: Path, on_begin: Callable[[str], None] = lambda name: None) -> list[str]:
    """Apply the missing migrations and return their names. Several processes and hosts may call this.

    `on_begin` gets the name of each before it is applied.

    Raises MigrationRefused while processes run and a migration has `needs_stop = True`, or if they leave no
    chance to lock the tables.
    """
    with connection(), store().lock_migrations(home):
        if not _list_missing(list_applied()):
            return []
        runner = _open_runner()
        pending = [migration for migration in runner.status() if not migration.applied]
        _require_stopped(pending)
        applied = []
        for migration in pending:
            on_begin(migration.name)
            applied += _apply(runner, migration)
        return applied


def _require_stopped(pending: Sequence["Migration"]) -> None:
    marked = [one.name for one in pending if getattr(one.load(), "needs_stop", False)]
    if not marked or not db.table_exists("liveness"):
        return
    since = store().encode_datetime(store().now() - timedelta(seconds=DEAD_AFTER_S))
    rows = db.execute_sql(f"select process from liveness where at >= {db.param}", (since,)).fetchall()  # noqa: S608
    # Rows of processes have a colon, see models/reports/backlog.py.
    running = sorted({name.partition(":")[0] for (name,) in rows if ":" in name})
    if running:
        raise MigrationRefused(
            f"{', '.join(marked)} needs the database alone, and processes use it ({', '.join(running)}):"
            f" stop Tocsin first (a process that was killed counts for {DEAD_AFTER_S} s)"
        )


def _apply(runner: "Runner", migration: "Migration") -> list[str]:
    """Apply one migration, and return the name of each that was applied.

    On PostgreSQL it locks all tables first, in one order. If it took them one after the other, as its
    statements need them, it could block transactions that wait for each other in another order.
    """
    if store().has_single_writer or not getattr(migration.load(), "atomic", True):
        return list(runner.up(migration.name))
    until = time.monotonic() + GIVE_UP_AFTER_S
    while True:
        try:
            with store().write_transaction():
                store().lock_all_tables(LOCK_S)
                return list(runner.up(migration.name))
        except Busy:
            if time.monotonic() > until:
                raise MigrationRefused(
                    f"the tables are in use all the time, so {migration.name} cannot begin: stop Tocsin first"
                ) from None
        time.sleep(RETRY_S)


def create_schema(home: Path) -> list[str]:
    """Create the schema in an empty database and return the names of the applied migrations.

    Raises SchemaOutdated if a database that is not empty lacks migrations. Such a database is migrated only
    by `tocsin migrate`, because other processes may use it. Waits for a migration that another process is
    running.
    """
    with connection(), store().lock_migrations(home):
        applied = list_applied()
        missing = _list_missing(applied)
        if missing and applied:
            raise _build_error(missing)
        return list(_open_runner().up()) if missing else []


def require_schema() -> None:
    """Check that no migration is missing, and change nothing. Raises SchemaOutdated."""
    with connection():
        applied = list_applied()
        if not applied:
            raise SchemaOutdated("the database is empty: start Tocsin, or run `tocsin migrate`")
        if missing := _list_missing(applied):
            raise _build_error(missing)


def list_unknown(applied: Iterable[str]) -> list[str]:
    """Return those of these migrations that this program does not know. Needs no database."""
    return sorted(set(applied) - set(list_names()))


def list_names() -> list[str]:
    """Return the names of the migrations that this program knows, in their order. Needs no database."""
    return sorted(path.stem for path in MIGRATIONS_DIR.glob("[0-9]*.py"))


def list_applied() -> list[str]:
    """Return the names of the applied migrations, in their order. Needs a connection.

    Raises SchemaUnknown if the program does not know one, or not the first schema.
    """
    if not db.table_exists(SCHEMA_TABLE):
        return []
    applied = sorted(name for (name,) in db.execute_sql(f"select name from {SCHEMA_TABLE}").fetchall())  # noqa: S608
    if unknown := list_unknown(applied):
        more = f" and {len(unknown) - MAX_NAMES} more" if len(unknown) > MAX_NAMES else ""
        raise SchemaUnknown(
            f"this program does not know {', '.join(unknown[:MAX_NAMES])}{more}, which the database has:"
            " start the version of Tocsin that made it (or a later one, if it was made by 0.2.0 or later),"
            " or use an empty database"
        )
    if applied == [FIRST]:
        _require_first_schema()
    return applied


def migrate_in_transaction(target: str | None = None) -> None:
    """Apply the missing migrations up to this one (None: all) in the transaction and lock of the caller."""
    _open_runner().up(target)


def list_pending() -> list[str]:
    """Return the names of the missing migrations."""
    with connection():
        return _list_missing(list_applied())


def _build_error(missing: list[str]) -> SchemaOutdated:
    return SchemaOutdated(f"the database lacks {', '.join(missing)}: run `tocsin migrate` first")


def _list_missing(applied: Collection[str]) -> list[str]:
    return [name for name in list_names() if name not in applied]


def _open_runner() -> "Runner":
    """Open the runner of this program's migrations. Raises SchemaUnknown."""
    from playhouse.migrations import Runner

    list_applied()
    return Runner(db.obj, str(MIGRATIONS_DIR), table_name=SCHEMA_TABLE)


def _require_first_schema() -> None:
    """Raise SchemaUnknown if another 0001_initial created the database, before the first release."""
    declared = importlib.import_module(f"models.store.migrations.{FIRST}").list_columns()
    tables = {table for table, *_ in declared}
    found = {each for each in store().list_columns() if each[0] in tables and each[1] != "id"}
    if found != declared:
        table, column, _ = min(found ^ declared)
        raise SchemaUnknown(
            f"the database was made before version 0.2.0, with another schema (see {table}.{column}):"
            " start the version of Tocsin that made it, or use an empty database"
        )
