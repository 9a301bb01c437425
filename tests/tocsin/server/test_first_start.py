"""What the first start creates, stores and prints."""

import json
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psycopg
import pytest
import structlog

from models.domain.enums import AccountRole
from models.domain.identity import is_uuid
from models.people.owner_email import OWNER_EMAIL
from models.store.ids import digest
from models.store.opening import open_store
from models.store.store import connection, db
from models.tables.accounts import Account, Secret, Token, User
from models.tables.services import Integration
from models.tables.users import ContactMethod
from runtime.setting_values import BadSetting
from runtime.settings import load
from tests.support.processes import build_environment, find_free_port, tocsin
from tests.support.requirements import skip_or_fail
from tests.support.stores import get_settings, get_url
from tocsin.server import first_start


@pytest.fixture
def settings(home):
    yield load({**get_settings(home), "TOCSIN_OWNER_EMAIL": "alice@example.org"})
    db.close_all()


def first_start_in(settings):
    """Run the first start like a process, and close its connections."""
    try:
        return first_start.prepare(settings)
    finally:
        db.close_all()


def test_it_creates_everything_that_a_first_alert_needs(settings, home):
    made = first_start_in(settings)

    file = home / "credentials.json"
    stored = json.loads(file.read_text())
    assert stored == {**stored, "base_url": "http://127.0.0.1:8080", "token": made.token}
    assert file.stat().st_mode & 0o777 == 0o600
    with connection():
        assert Token.get().digest == digest(stored["token"])
        assert Account.get().account_identifier == stored["account_id"]
        keys = {row.integration_key for row in Integration.select()}
        assert Secret.get(Secret.name == "links").value
    assert stored["integration_key"] in keys
    key = next(iter(keys - {stored["integration_key"]}))
    assert stored["webhook_urls"]["prometheus"] == [
        f"http://127.0.0.1:8080/api/integration/prometheus/{key}/",
        f"http://127.0.0.1:8080/integration/{stored['account_id']}/prometheus/{key}/",
    ]


def test_a_second_start_creates_nothing(settings, home):
    first_start_in(settings)
    before = (home / "credentials.json").read_text()

    assert first_start_in(settings) is None
    assert (home / "credentials.json").read_text() == before


def test_after_a_crash_before_the_commit_the_next_start_creates_all_again(settings, home, monkeypatch):
    """After the crash the file exists without the rows: the next start writes both, and they match."""

    class PowerFailure(BaseException):
        pass

    write = first_start._write

    def write_and_crash(path, credentials):
        write(path, credentials)
        raise PowerFailure

    monkeypatch.setattr(first_start, "_write", write_and_crash)
    with pytest.raises(PowerFailure):
        first_start_in(settings)
    monkeypatch.undo()

    made = first_start_in(settings)

    assert json.loads((home / "credentials.json").read_text())["token"] == made.token
    with connection():
        assert [digest(made.token)] == [row.digest for row in Token.select()]


def test_first_starts_of_parallel_processes_create_one_account(home):
    code = "from runtime.settings import load; from tocsin.server.first_start import prepare; prepare(load())"
    racing = [subprocess.Popen([sys.executable, "-c", code], env=build_environment(home)) for _ in range(4)]

    assert [process.wait(30) for process in racing] == [0, 0, 0, 0]
    open_store(get_url(home), home)
    with connection():
        assert Account.select().count() == 1
    db.close_all()


def test_credentials_are_printed_to_a_terminal_with_a_command_that_opens_an_incident(home):
    if shutil.which("curl") is None:
        skip_or_fail("curl is not installed")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tocsin", "up"],
        env=build_environment(home, find_free_port()),
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        shown = read_until(ours, b"tocsin why last")
        command = next(line for line in shown.splitlines() if line.startswith("curl "))
        straight = {**os.environ, "NO_PROXY": "*"}
        answer = json.loads(subprocess.check_output([*shlex.split(command), "-sS"], timeout=20, env=straight))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        os.close(ours)

    stored = json.loads((home / "credentials.json").read_text())
    assert stored["token"] in shown
    assert f"/api/integration/generic/{stored['integration_key']}/" in command
    assert (answer["incident"], answer["incident_created"]) == (1, True)
    assert is_uuid(answer["trace_id"])


def read_until(handle: int, ending: bytes) -> str:
    seen = b""
    deadline = time.monotonic() + 20
    while ending not in seen and select.select([handle], [], [], deadline - time.monotonic())[0]:
        seen += os.read(handle, 4096)
    return seen.decode()


@pytest.fixture
def refuse_writes(home, monkeypatch):
    """Let the database refuse all writes, and return a function that ends this."""
    if url := get_url(home):
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(f'alter database "{name}" set default_transaction_read_only = on')
            other.execute("set default_transaction_read_only = off")
            yield lambda: other.execute(f'alter database "{name}" reset default_transaction_read_only')
        return
    limits = [("max_page_count", 1)]
    real = first_start.open_store

    def open_full(url, folder):
        opened = real(url, folder)
        for name, value in limits:
            opened.database.pragma(name, value, permanent=True)
        return opened

    monkeypatch.setattr(first_start, "open_store", open_full)
    yield limits.clear


def test_a_process_waits_until_a_database_that_refuses_writes_takes_them(
    settings, refuse_writes, monkeypatch
):
    """For example while a failover is not complete, or while the disk is full."""
    pauses = []

    def sleep(seconds):
        db.close_all()
        pauses.append(seconds)
        if len(pauses) == 3:
            refuse_writes()

    monkeypatch.setattr(first_start, "time", SimpleNamespace(sleep=sleep))
    with structlog.testing.capture_logs() as logged:
        made = first_start.prepare_process(settings)

    assert made is not None
    assert pauses == [first_start.RETRY_S] * 3
    assert {entry["event"] for entry in logged if entry["log_level"] == "warning"} == {
        "the database is full or read-only: waiting until it can be written"
    }


def test_a_command_on_a_read_only_database_ends_with_one_clear_sentence(home, refuse_writes):
    if not get_url(home):
        pytest.skip("another process cannot fill a file")
    ended = tocsin(home, "migrate")

    assert ended.returncode == 1
    assert "read-only" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def start_with(home, email):
    """Start as a process does, with this TOCSIN_OWNER_EMAIL; None: not set."""
    given = {} if email is None else {"TOCSIN_OWNER_EMAIL": email}
    first_start_in(load({**get_settings(home), **given}))


def read_owner():
    with connection():
        owner = User.get(User.role == AccountRole.OWNER)
        contacts = [contact.value for contact in ContactMethod.select() if contact.user_id == owner.id]
    db.close_all()
    return owner.email, contacts


@pytest.mark.parametrize("first", [None, "alice@example.org"])
def test_an_address_of_the_owner_that_is_set_later_is_applied(home, first):
    start_with(home, first)
    start_with(home, "alice@example.com")

    assert read_owner() == ("alice@example.com", ["alice@example.com"])


def test_an_address_of_the_owner_that_was_applied_before_changes_nothing(home):
    """Also if people changed the owner since then."""
    start_with(home, "alice@example.org")
    with connection():
        User.update(email="other@example.org").execute()
    db.close_all()
    start_with(home, "alice@example.org")
    start_with(home, None)

    assert read_owner()[0] == "other@example.org"


def test_an_address_of_another_member_is_refused(home):
    start_with(home, "alice@example.org")
    assert tocsin(home, "user", "add", "bob@example.org").returncode == 0

    with pytest.raises(BadSetting, match="must not be the address of another member"):
        start_with(home, "bob@example.org")
    assert read_owner()[0] == "alice@example.org"
    assert tocsin(home, "account", "hand-over", "bob@example.org").returncode == 0
    start_with(home, "bob@example.org")


def test_an_address_is_not_applied_over_one_that_this_setting_did_not_set(home):
    assert tocsin(home, "migrate").returncode == 0
    assert tocsin(home, "account", "add", "Example", "alice@example.org").returncode == 0

    with structlog.testing.capture_logs() as logged:
        start_with(home, "bob@example.org")
        start_with(home, "bob@example.org")
    assert [entry["event"] for entry in logged if entry["log_level"] == "warning"] == [
        "TOCSIN_OWNER_EMAIL is not applied: the owner of the account has another address"
    ]
    assert read_owner()[0] == "alice@example.org"


def forget_applied():
    """Leave the rows as a version did that stored no applied value."""
    with connection():
        Secret.delete().where(Secret.name == OWNER_EMAIL).execute()
    db.close_all()


def test_an_upgrade_starts_after_the_owner_was_renamed(home):
    start_with(home, "alice@example.org")
    with connection():
        User.update(email="other@example.org").execute()
    forget_applied()
    start_with(home, "alice@example.org")

    assert read_owner()[0] == "other@example.org"
    start_with(home, "alice@example.com")
    assert read_owner()[0] == "alice@example.com"


def test_an_upgrade_starts_after_another_member_became_the_owner(home):
    start_with(home, "alice@example.org")
    assert tocsin(home, "user", "add", "bob@example.org").returncode == 0
    assert tocsin(home, "account", "hand-over", "bob@example.org").returncode == 0
    forget_applied()
    start_with(home, "alice@example.org")

    assert read_owner()[0] == "bob@example.org"
