"""`tocsin test-message` as a process, with a real relay."""

import json

import pytest

from models.store.store import db
from models.tables.notifications import Message
from tests.support.processes import tocsin
from tests.support.relays import relay


@pytest.fixture
def send(world, home):
    """send(who): run the command as a process with the data of this test."""
    db.close_all()

    def send(who, *options, **settings):
        return tocsin(home, "test-message", who, *options, **settings)

    return send


def build_settings(box) -> dict[str, str]:
    return {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}


def test_it_sends_a_test_message_and_prints_the_outcome(send):
    with relay() as box:
        done = send("bob@example.org", **build_settings(box))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Primary Email: Accepted by the relay (250). (")
    assert [to for to, _ in box.mails] == ["bob@example.org"]


def test_it_accepts_a_username_and_prints_json(send, world):
    with relay() as box:
        done = send(world.bob.username, "--json", **build_settings(box))

    (output,) = json.loads(done.stdout)["results"]
    assert (output["contact"], output["state"]) == ("Primary Email", "sent")
    assert output["outcome"] == "Accepted by the relay (250)."
    assert box.mails[0][1]["Message-ID"].startswith(f"<{output['message_id']}@")


def test_a_failure_has_an_exit_code_and_a_reason(send):
    with relay({"RCPT": "550 5.1.1 unknown"}) as box:
        refused = send("bob@example.org", **build_settings(box))
    unset = send("bob@example.org")

    assert refused.returncode == unset.returncode == 1
    assert "The relay does not accept the recipient: 550 5.1.1 unknown." in refused.stdout
    assert "Not sent, because a setting is missing or not valid: set TOCSIN_SMTP_HOST" in unset.stdout
    assert Message.select().count() == 2


def test_an_unknown_user_is_an_error(send):
    done = send("nobody@example.org")

    assert (done.returncode, done.stdout) == (1, "")
    assert "no user nobody@example.org" in done.stderr
