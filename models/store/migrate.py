"""Apply the numbered scripts in models/store/migrations, each once, one process at a time."""

from collections.abc import Iterable
from pathlib import Path

from playhouse.migrations import Migration, Runner

from models.store.store import connection, db, store

MIGRATIONS_DIR = Path(__file__).with_name("migrations")


class SchemaOutdated(RuntimeError):
    """The schema is older than the program. The text names the command to run."""


class SchemaUnknown(RuntimeError):
    """The database has migrations that this program does not know; the text names them."""


def migrate(home: Path) -> list[str]:
    """Apply the missing migrations and return their names. Several processes and hosts may call this."""
    with connection(), store().lock_migrations(home):
        return _open_runner().up()


def create_schema(home: Path) -> list[str]:
    """Create the schema in an empty database and return the names of the applied migrations.

    Raises SchemaOutdated if a database that is not empty lacks migrations. Such a database is migrated only
    by `tocsin migrate`, because other processes may use it. Waits for a migration that another process is
    running.
    """
    with connection(), store().lock_migrations(home):
        runner = _open_runner()
        missing = _list_missing(runner)
        if missing and runner.applied():
            raise _build_error(missing)
        return runner.up()


def require_schema() -> None:
    """Check that no migration is missing, and change nothing. Raises SchemaOutdated."""
    with connection():
        runner = _open_runner()
        if not runner.applied():
            raise SchemaOutdated("the database is empty: start Tocsin, or run `tocsin migrate`")
        if missing := _list_missing(runner):
            raise _build_error(missing)


def list_unknown(applied: Iterable[str]) -> list[str]:
    """Return those of these migrations that this program does not know. Needs no database."""
    return sorted(
        set(applied) - {migration.name for migration in Migration.load_directory(str(MIGRATIONS_DIR))}
    )


def list_applied() -> list[str]:
    """Return the names of the applied migrations, in their order. Needs a connection."""
    return sorted(_open_runner().applied())


def migrate_in_transaction(target: str | None = None) -> None:
    """Apply the missing migrations up to this one (None: all) in the transaction and lock of the caller."""
    _open_runner().up(target)


def list_pending() -> list[str]:
    """Return the names of the missing migrations."""
    with connection():
        return _list_missing(_open_runner())


def _build_error(missing: list[str]) -> SchemaOutdated:
    return SchemaOutdated(f"the database lacks {', '.join(missing)}: run `tocsin migrate` first")


def _list_missing(runner: Runner) -> list[str]:
    return [migration.name for migration in runner.status() if not migration.applied]


def _open_runner() -> Runner:
    """Open the runner of this program's migrations. Raises SchemaUnknown."""
    runner = Runner(db.obj, str(MIGRATIONS_DIR))
    if unknown := list_unknown(runner.applied()):
        raise SchemaUnknown(
            f"this program does not know {', '.join(unknown)}, which the database has:"
            " start the version of Tocsin that made it or a later one, or use an empty database"
        )
    return runner
