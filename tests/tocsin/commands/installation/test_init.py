"""`tocsin init` in a terminal: its questions, the file and the test message."""

import os
import pty
import select
import sqlite3
import stat
import subprocess
import sys
import time
import tomllib
from contextlib import closing

import pytest

from models.store.sqlite import SQLITE_FILE
from models.store.store import db
from runtime.settings import load
from tests.support.mail_server import start_mailbox
from tests.support.processes import build_environment, find_free_port, tocsin
from tests.support.stores import get_settings
from tocsin.server.first_start import prepare


class Terminal:
    """A terminal in which a command runs. It answers questions and collects the output."""

    def __init__(self, home, **settings):
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tocsin", "init"],
            env=build_environment(home, **settings), stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        self.output = ""
        self._read = 0

    def read_until(self, ending):
        """Read up to this text, after what was read before; "" reads to the end."""
        deadline = time.monotonic() + 30
        while not ending or ending not in self.output[self._read :]:
            if not select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise AssertionError(f"{ending!r} does not come after {self.output}")
            try:
                self.output += os.read(self._ours, 4096).decode()
            except OSError:
                break
        self._read = self.output.find(ending, self._read) + len(ending)

    def give(self, **texts):
        """Answer the questions that contain these words, in this order."""
        for question, text in texts.items():
            self.read_until(question.rstrip("_").replace("_", " "))
            os.write(self._ours, f"{text}\n".encode())

    def finish(self):
        self.read_until("")
        os.close(self._ours)
        return self.process.wait(30)


@pytest.fixture
def terminal(home):
    opened = Terminal(home)
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.process.wait()


def test_it_writes_the_file_and_sends_a_test_message(terminal, home):
    with start_mailbox() as box:
        terminal.give(
            Public_URL="https://tocsin.example.org", Mail_relay="127.0.0.1", Encryption="none", Port=box.port,
            Sender="tocsin@example.org", address="alice@example.org", last_name="Alice Ames",
            Account_name="Example Ltd",
        )  # fmt: skip
        assert terminal.finish() == 0

    path = home / "tocsin.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tomllib.loads(path.read_text()) == {
        "public_url": "https://tocsin.example.org", "smtp_host": "127.0.0.1", "smtp_tls": "none",
        "smtp_port": str(box.port), "smtp_from": "tocsin@example.org", "owner_email": "alice@example.org",
    }  # fmt: skip
    assert [to for to, _ in box.mails] == ["alice@example.org"]
    assert "Test message to Primary Email: Accepted by the relay (250)." in terminal.output
    again = tocsin(home, "check")
    assert "Tocsin cannot send" not in again.stdout
    with closing(sqlite3.connect(home / SQLITE_FILE)) as database:
        names = database.execute('SELECT first_name, last_name, name FROM "user" JOIN account')
        assert names.fetchall() == [("Alice", "Ames", "Example Ltd")]


def test_without_names_the_account_is_the_default_one(terminal, home):
    terminal.give(
        Public_URL="", Mail_relay="", Your="alice@example.org", last_name="", Account_name="x" * 256
    )

    terminal.read_until("a name has at most 255 characters")
    terminal.give(Account_name="")
    assert terminal.finish() == 0
    with closing(sqlite3.connect(home / SQLITE_FILE)) as database:
        names = database.execute('SELECT first_name, last_name, name FROM "user" JOIN account')
        assert names.fetchall() == [("", "", "Default")]


def test_a_value_that_cannot_be_used_is_asked_for_again(terminal):
    terminal.give(Public_URL="tocsin.example.org")

    terminal.read_until("It must be a URL that begins with http:// or https://.")
    terminal.give(Public_URL="", Mail_relay="relay:25")
    terminal.read_until("It must be a host name or an address without a port")
    terminal.give(Mail_relay="", Your="alice@example.org", last_name="", Account_name="")
    assert terminal.finish() == 0
    assert "There is no mail relay, so nobody can be notified." in terminal.output
    assert "Then send a first alert: curl -X POST http://127.0.0.1:8080/api/integration/" in terminal.output


def test_the_public_url_that_it_offers_has_the_port_of_the_settings(home):
    terminal = Terminal(home, TOCSIN_PORT="9000")

    terminal.read_until("Public URL [http://127.0.0.1:9000]")
    terminal.process.kill()
    terminal.finish()


def test_after_a_failed_test_message_the_relay_is_asked_for_again(terminal, home):
    terminal.give(Public_URL="", Mail_relay="127.0.0.1", Encryption="none", Port=find_free_port())
    terminal.give(Sender="tocsin@example.org", Your="alice@example.org", last_name="", Account_name="")
    with start_mailbox() as box:
        terminal.give(again="y", Mail_relay="127.0.0.1", Encryption="none", Port=box.port)
        terminal.give(Sender="tocsin@example.org")
        assert terminal.finish() == 0

    assert [to for to, _ in box.mails] == ["alice@example.org"]
    assert tomllib.loads((home / "tocsin.toml").read_text())["smtp_port"] == str(box.port)


def test_a_second_relay_keeps_nothing_of_the_first_one(terminal, home):
    """The first relay has a login, the second one has neither TLS nor a login."""
    terminal.give(
        Public_URL="", Mail_relay="127.0.0.1", Encryption="starttls", Port=find_free_port(), User="tocsin",
        Password="secret", Sender="tocsin@example.org", Your="alice@example.org", last_name="",
        Account_name="",
    )  # fmt: skip
    with start_mailbox() as box:
        terminal.give(again="y", Mail_relay="127.0.0.1", Encryption="none", Port=box.port)
        terminal.give(Sender="tocsin@example.org")
        assert terminal.finish() == 0, terminal.output

    assert [to for to, _ in box.mails] == ["alice@example.org"]
    assert {"smtp_user", "smtp_password"}.isdisjoint(tomllib.loads((home / "tocsin.toml").read_text()))


def test_a_password_is_not_shown(terminal, home):
    terminal.give(
        Public_URL="", Mail_relay="127.0.0.1", Encryption="starttls", Port=find_free_port(), User="tocsin",
        Password="hun\"ter2", Sender="tocsin@example.org", Your="alice@example.org",
        last_name="", Account_name="", again="n",
    )  # fmt: skip

    assert terminal.finish() == 1
    assert "ter2" not in terminal.output
    assert tomllib.loads((home / "tocsin.toml").read_text())["smtp_password"] == 'hun"ter2'


def test_without_a_terminal_it_says_so(home):
    ended = tocsin(home, "init")

    assert ended.returncode == 2
    assert ended.stderr == (
        f"Error: init asks questions, so it needs a terminal. Without one, write {home / 'tocsin.toml'}:"
        " see docs/settings.md\n"
    )
    assert not home.exists()


def test_an_existing_file_is_not_changed(home):
    home.mkdir(0o700)
    path = home / "tocsin.toml"
    path.touch(0o600)
    path.write_text("port = 9000")
    terminal = Terminal(home)

    assert terminal.finish() == 1
    assert f"{path} exists: change it with an editor" in terminal.output.replace("\r\n", " ")
    assert path.read_text() == "port = 9000"


def test_a_refused_owner_leaves_no_file(home):
    """Only `tocsin account hand-over` makes another member the owner."""
    prepare(load({**get_settings(home), "TOCSIN_OWNER_EMAIL": "alice@example.org"}))
    db.close_all()
    assert tocsin(home, "user", "add", "bob@example.org").returncode == 0
    terminal = Terminal(home)

    terminal.give(Public_URL="", Mail_relay="", Your="bob@example.org", last_name="", Account_name="")

    assert terminal.finish() == 2
    assert "TOCSIN_OWNER_EMAIL must not be the address of another member" in terminal.output
    assert not (home / "tocsin.toml").exists()


def test_values_that_contradict_the_environment_leave_no_file(home):
    """The user of the relay is in the environment, and Tocsin sends no password without TLS."""
    terminal = Terminal(home, TOCSIN_SMTP_USER="tocsin")

    terminal.give(Public_URL="", Mail_relay="127.0.0.1", Encryption="none", Port="25")
    terminal.give(Sender="tocsin@example.org", Your="alice@example.org", last_name="", Account_name="")

    assert terminal.finish() == 2
    assert "TOCSIN_SMTP_USER needs TLS" in terminal.output
    assert not (home / "tocsin.toml").exists()
