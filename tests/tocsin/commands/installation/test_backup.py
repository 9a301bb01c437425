"""Backups of a running installation, and copies that are paused until `tocsin resume`."""

import http.client
import json
import threading

import pytest

from models.store.opening import open_store
from models.store.store import connection, db
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message
from tests.support.mail_server import start_mailbox
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_tocsin, tocsin
from tests.support.stores import drop_store, get_url
from tocsin.commands.installation.backup import delete_old


@pytest.fixture
def copy(tmp_path):
    """Return the data folder of a restored copy, with an empty database."""
    yield tmp_path / "copy"
    db.close_all()
    drop_store(tmp_path / "copy")


def send(running, key, entity, **more):
    """Send an alert and return its trace_id."""
    alert = {"message": f"Disk full on {entity}", "alert_type": "critical", "entity_id": entity, **more}
    client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    try:
        client.request(
            "POST",
            f"/api/integration/generic/{key}/",
            json.dumps(alert),
            {"Content-Type": "application/json"},
        )
        answer = client.getresponse()
        body = json.loads(answer.read())
    finally:
        client.close()
    assert answer.status in (200, 201, 202), body
    return body["trace_id"]


def resolve(running, token, number):
    client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
    try:
        client.request("PATCH", f"/api/incidents/{number}/", json.dumps({"status": 3}), headers)
        assert client.getresponse().status == 200
    finally:
        client.close()


def read_key(home):
    return json.loads((home / "credentials.json").read_text())["integration_key"]


def count(home, query):
    open_store(get_url(home), home)
    with connection():
        found = query().count()
    db.close_all()
    return found


def test_a_backup_under_load_has_every_alert_that_was_accepted_before(home, copy, tmp_path):
    accepted, stopping = [], threading.Event()

    def send_alerts():
        while not stopping.is_set():
            accepted.append(send(up, key, f"db{len(accepted)}"))

    with start_tocsin(home, "up") as up:
        wait_until(up.is_ready)
        key = read_key(home)
        sender = threading.Thread(target=send_alerts)
        sender.start()
        try:
            wait_until(lambda: len(accepted) >= 20)
            before = len(accepted)
            made = tocsin(home, "backup", str(tmp_path / "backup"))
            during = len(accepted)
        finally:
            stopping.set()
            sender.join()
    restored = tocsin(copy, "restore", str(tmp_path / "backup"))

    assert (made.returncode, restored.returncode) == (0, 0), made.stderr + restored.stderr
    open_store(get_url(copy), copy)
    with connection():
        found = {trace for (trace,) in Receipt.select(Receipt.trace_id).tuples()}
    assert during > before
    assert set(accepted[:before]) <= found
    assert found <= set(accepted)


def test_a_restored_copy_accepts_alerts_and_sends_nothing_until_it_is_resumed(home, copy, tmp_path):
    """The original resolves the incidents after the backup. In the copy, one of them is resolved by hand."""
    backup = str(tmp_path / "backup")
    relay_down = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(find_free_port())}
    with start_tocsin(home, "up", **relay_down) as up:
        wait_until(up.is_ready)
        key = read_key(home)
        send(up, key, "db1")
        # Alerts of one batch could share a message.
        wait_until(lambda: count(home, Message.select) == 1, every=0.2)
        send(up, key, "db2")
        wait_until(lambda: count(home, Message.select) == 2, every=0.2)
        assert tocsin(home, "backup", backup).returncode == 0
        for entity in ("db1", "db2"):
            send(up, key, entity, alert_type="resolved")
    restored = tocsin(copy, "restore", backup)
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "2 unsent messages to:\n  owner: 2 by e-mail\n" in restored.stdout
    assert "e-mail to owner: #1 Disk full on db1 (First service)" in restored.stdout

    with start_mailbox() as mailbox:
        relay = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(mailbox.port)}
        with start_tocsin(copy, "up", **relay) as up:
            wait_until(lambda: up.get("/readyz") == (200, {**up.get("/readyz")[1], "status": "paused"}))
            send(up, key, "db3")
            # The worker and the clock process have looked for work.
            wait_until(lambda: up.log.count("this restored copy is paused") == 2)
            dry = json.loads(tocsin(copy, "resume", "--dry-run", "--json").stdout)
            assert (dry["paused"], dry["alerts"], dry["message_count"]) == (True, 1, 2)
            assert mailbox.mails == []
            assert count(copy, Incident.select) == 2

            resolve(up, json.loads((home / "credentials.json").read_text())["token"], 2)
            assert tocsin(copy, "resume").returncode == 0
            mails = mailbox.wait_for(2)
            wait_until(
                lambda: count(copy, lambda: Message.select().where(Message.state == 0)) == 0, every=0.2
            )
            wait_until(lambda: up.get("/readyz")[1].get("status") == "ready")

    assert sorted(mail["Subject"].partition("Disk full on ")[2][:3] for _, mail in mails) == ["db1", "db3"]
    again = tocsin(copy, "resume")
    assert (again.returncode, again.stderr) == (1, "Error: this installation is not paused\n")


def test_only_the_newest_named_backups_are_kept(tmp_path):
    others = ["tocsin-by-hand", "tocsin-2026-03-04", "notes"]
    named = [f"tocsin-2026-03-0{day}T020000Z" for day in range(1, 6)]
    for name in (*others, *named):
        (tmp_path / name).touch()

    deleted = delete_old(tmp_path, 2)

    assert [path.name for path in deleted] == named[:3]
    assert {path.name for path in tmp_path.iterdir()} == {*others, *named[3:]}
    assert delete_old(tmp_path, 2) == []


def test_a_backup_into_a_folder_that_is_missing_says_so(home):
    tocsin(home, "migrate")

    ended = tocsin(home, "backup", "/nowhere/x")

    assert (ended.returncode, ended.stderr) == (1, "tocsin: no such folder: /nowhere\n")


def test_a_damaged_backup_is_an_error_in_one_sentence(copy, tmp_path):
    (tmp_path / "backup").write_bytes(b"tocsin backup 1\n" + bytes(100))

    ended = tocsin(copy, "restore", str(tmp_path / "backup"))

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "is damaged or incomplete" in ended.stderr
    assert not copy.exists()


def test_a_copy_that_is_restored_with_resume_is_not_paused(home, copy, tmp_path):
    assert tocsin(home, "migrate").returncode == 0
    assert tocsin(home, "account", "add", "Example", "alice@example.org").returncode == 0
    assert tocsin(home, "backup", str(tmp_path / "backup")).returncode == 0

    restored = tocsin(copy, "restore", str(tmp_path / "backup"), "--resume", "--json")

    assert json.loads(restored.stdout)["paused"] is False
    assert tocsin(copy, "resume").returncode == 1
