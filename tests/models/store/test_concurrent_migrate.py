"""Several processes can migrate one database at once, and no process uses a database with an old schema."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store import migrate
from models.store.migrate import list_pending
from models.store.store import connection, db, store
from tests.support.polling import wait_until
from tests.support.processes import build_environment, tocsin
from tests.support.stores import get_url
from tests.support.upgrades import NEXT, copy_migrations

NAMES = sorted(path.stem for path in migrate.MIGRATIONS_DIR.glob("[0-9]*.py"))

# A later version of the program, which has one more migration.
NEXT_PROGRAM = """
import sys
from pathlib import Path
from models.store import migrate
migrate.MIGRATIONS_DIR = Path(sys.argv.pop(1))
from tocsin.cli import main
main()
"""


@pytest.fixture
def next_migrations(tmp_path):
    """The migrations folder of a later version, which has one more migration."""
    return copy_migrations(tmp_path / "migrations", "CREATE TABLE next (id INTEGER)")


def run_next(home: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the later version."""
    command = [sys.executable, "-c", NEXT_PROGRAM, str(folder), *words]
    return subprocess.run(command, env=build_environment(home), capture_output=True, text=True, timeout=30)


def start_migrate(home: Path, folder: Path = migrate.MIGRATIONS_DIR) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", NEXT_PROGRAM, str(folder), "migrate", "--json"],
        env=build_environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def list_applied(process: subprocess.Popen[str]) -> list[str]:
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    return json.loads(output)["applied"]


@pytest.fixture
def migrated_store(empty_store, home):
    """A database with the schema of this version."""
    home.mkdir(exist_ok=True)
    migrate.migrate(home)


def test_each_migration_is_applied_once_by_simultaneous_processes(empty_store, home):
    racing = [start_migrate(home) for _ in range(5)]

    done = [name for process in racing for name in list_applied(process)]

    assert sorted(done) == NAMES
    assert list_pending() == []


def test_a_process_waits_for_a_migration_that_another_process_runs(
    migrated_store, home, next_migrations, monkeypatch
):
    monkeypatch.setattr(migrate, "MIGRATIONS_DIR", next_migrations)
    with connection(), store().lock_migrations(home):
        late = [start_migrate(home, next_migrations) for _ in range(3)]
        wait_until(lambda: count_blocked_processes(home) == 3)
        migrate._open_runner().up()

    assert [list_applied(process) for process in late] == [[], [], []]


def count_blocked_processes(home: Path) -> int:
    """Return the number of processes that wait for the lock of the migrations."""
    if not get_url(home):
        file = (home / "migrate.lock").stat().st_ino
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return sum(words[1] == "->" and words[6].endswith(f":{file}") for words in lines)
    with psycopg.connect(get_url(home)) as server:
        query = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        (count,) = server.execute(
            f"{query} and database = (select oid from pg_database where datname = current_database())"
        ).fetchone()
        return count


def test_a_migration_beside_a_transaction_gives_way_and_is_repeated(migrated_store, home, tmp_path):
    if not get_url(home):
        pytest.skip("a single writer locks everything at once")
    changes = "ALTER TABLE account ADD COLUMN next INTEGER; ALTER TABLE service ADD COLUMN next INTEGER;"
    folder = copy_migrations(tmp_path / "migrations", f"DO $$ BEGIN {changes} END $$")
    with psycopg.connect(get_url(home)) as worker, psycopg.connect(get_url(home), autocommit=True) as server:
        worker.execute("lock table service in row exclusive mode")
        migrating = start_migrate(home, folder)
        waiting = "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock'"
        wait_until(lambda: server.execute(waiting).fetchone() != (0,), seconds=20)
        # The other order: it would be a deadlock if the migration kept this table.
        worker.execute("lock table account in row exclusive mode")
        worker.commit()

    assert list_applied(migrating) == [NEXT]


def test_a_migration_that_needs_the_database_alone_is_refused_while_processes_run(
    migrated_store, home, next_migrations
):
    with (next_migrations / f"{NEXT}.py").open("a") as file:
        file.write("\nneeds_stop = True\n")
    with connection(), store().write_transaction():
        now = store().now()
        backlog.record_liveness(ProcessLiveness("worker", "worker:1", now), now)
    refused = run_next(home, next_migrations, "migrate")

    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"tocsin: {NEXT} needs the database alone, and processes use it (worker):"
    )
    assert "stop Tocsin first" in refused.stderr
    with connection(), store().write_transaction():
        backlog.remove_process(ProcessLiveness("worker", "worker:1", now))
    assert run_next(home, next_migrations, "migrate").stdout == f"applied {NEXT}\n"


READ_ONLY_COMMANDS = ["token list", "why x", "oncall", "check", "simulate --service x --message y"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *((name, 1) for name in ("web", "worker", "clock")),
        *((name, 3) for name in READ_ONLY_COMMANDS),
    ],
)
def test_a_command_with_an_old_schema_names_the_command_to_run(
    migrated_store, home, next_migrations, command, code
):
    ended = run_next(home, next_migrations, *command.split())

    assert ended.returncode == code
    assert ended.stderr == f"tocsin: the database lacks {NEXT}: run `tocsin migrate` first\n"


@pytest.mark.parametrize("command", READ_ONLY_COMMANDS)
def test_a_read_only_command_creates_no_schema_in_an_empty_database(empty_store, home, command):
    with connection():
        assert db.get_tables() == []

    ended = tocsin(home, *command.split())

    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "tocsin: the database is empty: start Tocsin, or run `tocsin migrate`\n"
    assert list_pending() == NAMES


def test_a_command_works_after_the_migration(migrated_store, home, next_migrations):
    assert run_next(home, next_migrations, "migrate").stdout == f"applied {NEXT}\n"
    assert run_next(home, next_migrations, "token", "list").returncode == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *((name, 1) for name in ("up", "migrate", "web", "worker", "clock")),
        *((name, 3) for name in READ_ONLY_COMMANDS),
    ],
)
def test_a_database_of_a_later_version_is_refused_with_the_names_of_its_migrations(
    migrated_store, home, next_migrations, command, code
):
    assert run_next(home, next_migrations, "migrate").returncode == 0

    ended = tocsin(home, *command.split())

    assert ended.returncode == code
    assert ended.stderr.endswith(
        f"tocsin: this program does not know {NEXT}, which the database has:"
        " start the version of Tocsin that made it (or a later one, if it was made by 0.2.0 or later),"
        " or use an empty database\n"
    )
