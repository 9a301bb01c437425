"""Several processes may bring one database up to date at once, and none works on one that is behind."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from models import migrate
from models.base import connection, db
from models.migrate import pending
from tests.processes import environment, tocsin
from tests.stores import url_of
from tests.waiting import until

NAMES = sorted(path.stem for path in migrate.DIRECTORY.glob("[0-9]*.py"))


def migrating(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tocsin", "migrate", "--json"],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def applied(process: subprocess.Popen[str]) -> list[str]:
    said, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    return json.loads(said)["applied"]


@pytest.fixture
def behind(empty_store):
    """A database that lacks the newest migration."""
    with connection():
        migrate._runner().up(target=NAMES[-2])


def test_each_migration_is_applied_once_by_whoever_comes_first(empty_store, home):
    racing = [migrating(home) for _ in range(5)]

    done = [name for process in racing for name in applied(process)]

    assert sorted(done) == NAMES
    assert pending() == []


def test_who_finds_the_schema_half_way_waits_for_the_other(behind, home):
    with connection(), migrate._alone(home):
        late = [migrating(home) for _ in range(3)]
        until(lambda: waiting_for_the_lock(home) == 3)
        migrate._runner().up()

    assert [applied(process) for process in late] == [[], [], []]


def waiting_for_the_lock(home: Path) -> int:
    if not url_of(home):
        file = (home / "migrate.lock").stat().st_ino
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return sum(words[1] == "->" and words[6].endswith(f":{file}") for words in lines)
    with psycopg.connect(url_of(home)) as server:
        query = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        (count,) = server.execute(
            f"{query} and database = (select oid from pg_database where datname = current_database())"
        ).fetchone()
        return count


LOOKING = ["why x", "oncall", "check", "simulate --service x --message y"]


@pytest.mark.parametrize(
    ("command", "code"),
    [*((name, 1) for name in ("web", "worker", "clock", "token list")), *((name, 3) for name in LOOKING)],
)
def test_on_a_database_that_is_behind_it_says_what_to_run(behind, home, command, code):
    ended = tocsin(home, *command.split())

    assert ended.returncode == code
    assert ended.stderr == f"tocsin: the database lacks {NAMES[-1]}: run `tocsin migrate` first\n"
    assert pending() == NAMES[-1:]


@pytest.mark.parametrize("command", LOOKING)
def test_who_only_looks_gives_an_empty_database_no_schema(empty_store, home, command):
    with connection():
        assert db.get_tables() == []

    ended = tocsin(home, *command.split())

    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "tocsin: the database is empty: start Tocsin, or run `tocsin migrate`\n"
    assert pending() == NAMES


def test_then_migrate_is_all_it_takes(behind, home):
    assert tocsin(home, "migrate").stdout == f"applied {NAMES[-1]}\n"
    assert tocsin(home, "token", "list").returncode == 0
