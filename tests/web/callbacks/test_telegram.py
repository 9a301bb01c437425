"""Updates of Telegram by HTTP: they have the secret, act once, and for the right person."""

import pytest

from models.contacts.contact_links import create_link_code
from models.domain.enums import IncidentStatus, MessageStatus
from models.store.store import db
from models.store.store import store as get_store
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.users import ContactMethod
from runtime.settings import load
from tests.support.offenders import list_offenders
from tests.support.scenarios.chats import ALICE_IN_TELEGRAM, TELEGRAM, add_contact, move, open_incident
from web.callbacks import telegram
from workers.broker import broker

SECRET = "not-a-secret_1"


@pytest.fixture
def send(app, now, enqueued, monkeypatch):
    """send(update): send an update as Telegram does."""
    app.config["SETTINGS"] = load(
        {"TOCSIN_TELEGRAM_WEBHOOK_SECRET": SECRET, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}
    )
    monkeypatch.setattr(telegram, "get_now", lambda: now)
    client = app.test_client()

    def send(update, secret=SECRET):
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret} if secret is not None else {}
        return client.post("/callbacks/telegram/", json=update, headers=headers)

    return send


@pytest.fixture
def notification(world, now):
    add_contact(world.alice, TELEGRAM, ALICE_IN_TELEGRAM)
    return open_incident(world, now)


def press(notification, mark="a", user=4711, number=1):
    query = {"id": "q1", "from": {"id": user}, "data": f"{mark}:{notification.id}"}
    return {"update_id": number, "callback_query": query}


def write(text, user=12, number=1, kind="private"):
    message = {"message_id": 1, "from": {"id": user}, "chat": {"id": user, "type": kind}, "text": text}
    return {"update_id": number, "message": message}


def test_a_press_resolves_and_confirms_the_button(send, notification, world):
    answer = send(press(notification, "r"))

    assert answer.json == {
        "method": "answerCallbackQuery",
        "callback_query_id": "q1",
        "text": "Resolved: #1 Disk full on db1",
        "show_alert": False,
    }
    assert Incident.get().status == IncidentStatus.RESOLVED


def test_an_update_that_comes_again_does_nothing(send, notification, world, now):
    send(press(notification))
    move(Incident.get(), IncidentStatus.TRIGGERED, world.alice, now)
    again = send(press(notification))

    assert (again.status_code, again.data) == (200, b"")
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_workers_are_woken_after_the_commit(send, notification, world, monkeypatch):
    in_transaction = []
    Message.update(state=MessageStatus.SENT).execute()
    monkeypatch.setattr(
        broker, "enqueue", lambda message, delay=None: in_transaction.append(db.in_transaction())
    )
    send(press(notification))

    assert in_transaction
    assert not any(in_transaction)


def test_who_is_too_late_reads_who_was_faster(send, notification, world, now):
    move(Incident.get(), IncidentStatus.ACKNOWLEDGED, world.bob, now.replace(hour=4, minute=11))
    answer = send(press(notification))

    assert answer.json["text"] == "You are too late, Bob has #1 since 04:11."
    assert answer.json["show_alert"]


@pytest.mark.parametrize("secret", [None, "", "another", SECRET + "x", "é"])
def test_an_update_without_the_secret_is_refused(send, notification, secret):
    assert send(press(notification), secret).status_code == 403
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_without_the_setting_every_update_is_refused(send, notification, app):
    app.config["SETTINGS"] = load({})

    assert send(press(notification), "").status_code == 403


STRANGE = [
    ([], 400),
    ({"update_id": "1"}, 400),
    ({"update_id": 1}, 200),
    ({"update_id": 1, "callback_query": {"id": 5}}, 200),
    ({"update_id": 1, "callback_query": {"id": "q", "from": {"id": "x"}, "data": "a:1"}}, 200),
    ({"update_id": 1, "message": {"chat": {"id": "1"}, "text": "x"}}, 200),
    ({"update_id": 1, "message": {"chat": {"id": 1, "type": "private"}, "sticker": {}}}, 200),
    ({"update_id": 1, "edited_message": {}}, 200),
]


def test_strange_updates_do_nothing(send, notification):
    def check(case):
        update, status = case
        answer = send(update)

        assert answer.status_code == status
        assert Incident.get().status == IncidentStatus.TRIGGERED

    assert list_offenders(check, STRANGE) == []


@pytest.mark.parametrize("data", ["x:1", "a:x", "a:-1", "a:" + "9" * 30, "a", ""])
def test_a_button_with_other_data_is_only_answered(send, notification, data):
    query = {"id": "q1", "from": {"id": 4711}, "data": data}
    answer = send({"update_id": 1, "callback_query": query})

    assert answer.json == {"method": "answerCallbackQuery", "callback_query_id": "q1"}


def test_a_stranger_only_gets_a_link_to_join(send, notification):
    answer = send(press(notification, user=666))

    assert answer.json["text"].startswith("This Telegram account is not linked to Tocsin.")
    assert "https://tocsin.example.org" in answer.json["text"]
    assert len(answer.json["text"]) <= 200


def test_start_with_the_code_links_a_private_chat(send, world, now):
    with get_store().write_transaction():
        contact = add_contact(world.bob, TELEGRAM, "")
        code, _ = create_link_code(contact, now)
    in_group = send(write(f"/start {code}", kind="group", number=1))
    answer = send(write(f"/start {code}", user=12, number=2))

    linked = ContactMethod.get(ContactMethod.id == contact.id)
    assert in_group.data == b""
    assert answer.json == {
        "method": "sendMessage",
        "chat_id": 12,
        "text": "Done: Tocsin now notifies you here in Telegram.",
    }
    assert (linked.value, linked.verified_value) == ("12", "12")
