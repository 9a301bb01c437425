"""The `tocsin` command: its output and its errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from models.store.store import db
from tests.support import stores
from tests.support.processes import build_environment, find_free_port, tocsin
from tests.support.stores import get_settings
from tocsin import cli
from tocsin.commands import read_only


@pytest.fixture
def run(home):
    """run(word, ...): run a command in this process, which is faster than a new process."""
    CliRunner().invoke(cli.tocsin, ["migrate"], env=get_settings(home))
    yield lambda *words: CliRunner().invoke(cli.tocsin, words, env=get_settings(home))
    db.close_all()


@pytest.fixture
def run_ok(run):
    def run_ok(*words):
        ended = run(*words, "--json")
        assert ended.exit_code == 0, ended.output
        return json.loads(ended.stdout)

    return run_ok


@pytest.mark.skipif(bool(stores.SERVER), reason="about files of SQLite")
@pytest.mark.parametrize("words", [("migrate",), ("incidents",), ("token", "revoke", "1")])
def test_a_command_closes_its_connections_to_the_database(run, home, words):
    """SQLite deletes the log of writes with the last connection."""
    run(*words)

    assert (home / "tocsin.db").exists()
    assert not (home / "tocsin.db-wal").exists()


def test_accounts_users_and_tokens_are_added_and_a_token_is_revoked(run, run_ok):
    made = run_ok("account", "add", "Example", "alice@example.org")
    run_ok("user", "add", "bob@example.org", "--role", "admin")
    token = run_ok("token", "create", "bob@example.org", "--name", "laptop")
    listed = run_ok("token", "list")["results"]
    bobs = next(row for row in listed if row["name"] == "laptop")

    assert len(made["account_id"]) == 5
    assert len(token["token"]) == 43
    assert [row["user"] for row in listed] == ["alice@example.org", "bob@example.org"]

    assert run("token", "revoke", str(bobs["id"])).exit_code == 0
    again = run("token", "revoke", str(bobs["id"]))
    assert (again.exit_code, again.stderr) == (1, f"Error: there is no valid token {bobs['id']}\n")
    twice = run("user", "add", "bob@example.org")
    assert (twice.exit_code, twice.stderr) == (1, "Error: bob@example.org is already a user of Example\n")


def test_the_ownership_of_an_account_is_transferred(run, run_ok):
    made = run_ok("account", "add", "Example", "alice@example.org")
    bob = run_ok("user", "add", "bob@example.org")["username"]

    handed = run_ok("account", "hand-over", "bob@example.org")

    assert handed == {"account_id": made["account_id"], "owner": bob, "admin": made["username"]}
    again = run("account", "hand-over", "bob@example.org")
    assert (again.exit_code, again.stderr) == (1, "Error: bob@example.org already owns Example\n")
    unknown_user = run("account", "hand-over", "eve@example.org")
    known = "alice@example.org, bob@example.org"
    assert unknown_user.exit_code == 1
    assert unknown_user.stderr == f"Error: no user eve@example.org; there are: {known}\n"
    assert run_ok("account", "hand-over", "alice@example.org")["admin"] == bob
    # An account has one owner, and only hand-over makes a user the owner.
    assert run("user", "add", "eve@example.org", "--role", "owner").exit_code == 2
    assert run("user", "add", "BOB@example.org").exit_code == 1


def test_the_second_migrate_applies_nothing(home):
    first, second = (tocsin(home, "migrate", "--json") for _ in range(2))

    assert json.loads(first.stdout)["applied"]
    assert json.loads(second.stdout) == {"applied": []}


def test_the_settings_command_hides_secrets(home):
    ended = tocsin(home, "settings", "--json", TOCSIN_SMTP_PASSWORD="hunter2", TOCSIN_SMTP_HOST="relay")

    rows = {row["name"]: row["value"] for row in json.loads(ended.stdout)["results"]}
    assert (rows["TOCSIN_SMTP_HOST"], rows["TOCSIN_SMTP_PASSWORD"]) == ("relay", "(set)")
    assert "hunter2" not in ended.stdout


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param(
            {"TOCSIN_PORT": "x"}, "TOCSIN_PORT must be a whole number from 1 to 65535", id="bad value"
        ),
        pytest.param(
            {"TOCSIN_REDIS_URL": "redis://:hun/ter2@h"}, "TOCSIN_REDIS_URL must have a host", id="bare /"
        ),
        pytest.param(
            {"TOCSIN_PROT": "80"}, "unknown setting TOCSIN_PROT: did you mean TOCSIN_PORT?", id="unknown name"
        ),
    ],
)
def test_an_invalid_setting_is_an_error_in_one_sentence(home, settings, text):
    ended = tocsin(home, "migrate", **settings)

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"tocsin: {text}")
    assert ended.stderr.count("\n") == 1
    assert "hun" not in ended.stderr


@pytest.mark.parametrize("command", ["up", "web", "worker", "clock", "settings"])
def test_every_command_reports_an_invalid_setting(home, command):
    ended = tocsin(home, command, TOCSIN_PORT="x")

    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith("tocsin: TOCSIN_PORT must be")


def test_a_data_folder_below_a_file_is_an_error_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")

    ended = tocsin(tmp_path / "file" / "home", "migrate", TOCSIN_DATABASE_URL="")

    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "code", "text"),
    [
        pytest.param("127.0.0.1:1/none", 1, "see TOCSIN_DATABASE_URL: .*Connection refused", id="away"),
        pytest.param(
            "nowhere.invalid/none", 1, "see TOCSIN_DATABASE_URL: .*nowhere.invalid", id="no such host"
        ),
        pytest.param("127.0.0.1:x/none", 2, "TOCSIN_DATABASE_URL must be", id="bad port"),
        pytest.param("a@b@127.0.0.1:1/none", 2, "TOCSIN_DATABASE_URL must be", id="bare @"),
        pytest.param("127.0.0.1:1/none?word=1", 2, "TOCSIN_DATABASE_URL must be", id="unknown word"),
    ],
)
def test_an_unreachable_database_is_an_error_in_one_sentence(home, url, code, text):
    ended = tocsin(home, "migrate", TOCSIN_DATABASE_URL=f"postgresql://tocsin:hunter2@{url}")

    assert ended.returncode == code
    assert re.match(f"tocsin: .*{text}", ended.stderr)
    assert ended.stderr.count("\n") == 1
    assert "hunter2" not in ended.stderr


UNREACHABLE = "postgresql://tocsin:hunter2@127.0.0.1:1/none"
READ_ONLY_COMMANDS = (
    "oncall", "check", "why x", "simulate --service x --message y", "token list", "list users",
    "stakeholders list", "application list",
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *((name, 1) for name in ("up", "web", "worker", "clock", "test-message x")),
        *((name, 3) for name in READ_ONLY_COMMANDS),
    ],
)
def test_every_command_reports_an_unreachable_database(home, command, code):
    ended = tocsin(home, *command.split(), TOCSIN_DATABASE_URL=UNREACHABLE, TOCSIN_PORT=str(find_free_port()))

    assert ended.returncode == code
    assert ended.stderr.startswith("tocsin: cannot connect to the database")
    assert ended.stderr.count("\n") == 1
    assert "hunter2" not in ended.stderr


WRITING_COMMANDS = (
    "account add x a@example.org", "test-message x", "dead-letters", "rotate-link-key", "ack 1",
    "user invite x@example.org --team x", "maintenance start x 1h", "integration add x y --as grafana",
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code"),
    [*((name, 3) for name in READ_ONLY_COMMANDS), *((name, 1) for name in WRITING_COMMANDS)],
)
def test_a_command_that_finds_no_data_says_so_and_creates_nothing(tmp_path, command, code):
    ended = tocsin(tmp_path / "typo", *command.split(), TOCSIN_DATABASE_URL="")

    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr == (
        f"tocsin: no data of Tocsin in {tmp_path / 'typo'}:"
        " choose the data folder with --home or TOCSIN_HOME\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["token list", "check"])
def test_a_command_does_not_fill_an_empty_database(home, command):
    if not stores.SERVER:
        pytest.skip("an empty SQLite database is a missing file")
    ended = tocsin(home, *command.split())

    assert ended.returncode in (1, 3)
    assert ended.stderr == "tocsin: the database is empty: start Tocsin, or run `tocsin migrate`\n"


@pytest.mark.parametrize("place", ["before", "after", "below"])
def test_the_option_home_wins_against_the_variable(tmp_path, place):
    home, words = ["--home", str(tmp_path / "chosen")], ["token", "list"]
    commands = {"before": [*home, *words], "after": [*words, *home], "below": ["token", *home, "list"]}

    ended = tocsin(tmp_path / "other", *commands[place], TOCSIN_DATABASE_URL="")

    assert f"no data of Tocsin in {tmp_path / 'chosen'}" in ended.stderr


def test_without_option_and_variable_the_home_is_var_in_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = {**build_environment(tmp_path), "TOCSIN_DATABASE_URL": ""}
    del environment["TOCSIN_HOME"]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "tocsin", "check"], env=environment, capture_output=True, text=True
    )

    assert f"no data of Tocsin in {tmp_path / 'var'}:" in ended.stderr


@pytest.mark.parametrize("command", ["up", "web", "worker", "clock", "migrate"])
def test_a_home_with_files_of_others_is_not_changed(tmp_path, command):
    if stores.SERVER and command == "migrate":
        pytest.skip("on PostgreSQL, migrate does not use the folder")
    home = tmp_path / "home"
    home.mkdir(0o755)
    (home / "thesis.tex").touch()

    ended = tocsin(home, command)

    assert ended.returncode == 2
    assert ended.stderr.startswith(f"tocsin: the folder {home} has files, but no data of Tocsin")
    assert [path.name for path in home.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "command", ["up", "web", "worker", "clock", "migrate", "settings", "check", "token list"]
)
def test_servers_and_commands_read_the_settings_file(home, command):
    home.mkdir(0o700, exist_ok=True)
    path = home / "tocsin.toml"
    path.touch(0o600)
    path.write_text("port = 'abc'")

    ended = tocsin(home, *command.split())

    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith(
        f"tocsin: port in {path} must be a whole number from 1 to 65535; it is 'abc'"
    )
    assert [each.name for each in home.iterdir()] == ["tocsin.toml"]


def test_the_settings_command_shows_where_a_value_is_from(home):
    home.mkdir(0o700, exist_ok=True)
    path = home / "tocsin.toml"
    path.touch(0o600)
    path.write_text("smtp_host = 'relay'\nsmtp_password = 'hunter2'\nport = 9000")

    ended = tocsin(home, "settings", "--json", TOCSIN_PORT="9001")

    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(ended.stdout)["results"]}
    assert rows["TOCSIN_SMTP_HOST"] == ("relay", "file")
    assert rows["TOCSIN_SMTP_PASSWORD"] == ("(set)", "file")
    assert rows["TOCSIN_PORT"] == ("9001", "environment")
    assert rows["TOCSIN_LOG_LEVEL"] == ("info", "default")
    assert "hunter2" not in ended.stdout


@pytest.mark.parametrize("command", ["oncall", "migrate"])
def test_a_read_only_data_folder_is_an_error_in_one_sentence(command):
    ended = tocsin(Path("/proc/nowhere"), command, TOCSIN_DATABASE_URL="")

    assert ended.returncode in (1, 3)
    assert ended.stderr.startswith("tocsin: ")
    assert ended.stderr.count("\n") == 1


def test_an_argument_that_is_not_utf_8_is_an_error_in_one_sentence(home):
    ended = tocsin(home, "simulate", "--service", "Checkout", "--message", "\udcff\udcfe")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "tocsin: the command line is not valid UTF-8\n"


def test_an_unexpected_error_has_its_own_exit_code(store, home, monkeypatch, capsys):
    monkeypatch.setattr(read_only, "open_store", lambda *_: None)
    monkeypatch.setattr(read_only, "require_schema", lambda: 1 / 0)
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(read_only.NoResult) as raised, read_only.open_read_only():
        pass

    assert raised.value.exit_code == 3
    assert "ZeroDivisionError" in capsys.readouterr().err


# Each needs a tenth of a second or more to load.
SLOW_TO_LOAD = {"flask", "marshmallow", "dramatiq", "redis", "structlog", "datalogic_py"}


@pytest.mark.parametrize("command", ["incidents", "alerts", "why last", "changes", "token list", "--help"])
def test_a_short_command_loads_only_what_it_needs(home, command):
    tocsin(home, "migrate")
    script = (
        "import sys; from tocsin.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, *command.split()],
        env=build_environment(home),
        capture_output=True,
        text=True,
    )

    assert SLOW_TO_LOAD & set(ended.stderr.split()) == set()


def test_an_unknown_command_is_an_error(home):
    assert tocsin(home, "nonsense").returncode == 2


def test_the_first_command_creates_files_for_their_owner_only(home):
    """The database contains the key that signs links."""
    assert tocsin(home, "migrate", umask=0o022).returncode == 0

    # On PostgreSQL, a command may need no folder.
    created = [path for path in (home, *home.rglob("*")) if path.exists()]
    assert [path for path in created if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("words", [("migrate",), ("check",), ("token", "list")])
def test_a_data_folder_that_others_can_use_is_refused(home, words):
    if stores.SERVER:
        pytest.skip("without a SQLite file, these commands do not use the folder")
    assert tocsin(home, "migrate").returncode == 0
    home.chmod(0o750)
    refused = tocsin(home, *words)

    assert refused.returncode != 0
    assert f"Run: chmod 700 {home}" in refused.stderr
    home.chmod(0o700)
    assert "chmod" not in tocsin(home, *words).stderr
