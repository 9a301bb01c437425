"""Telegram is asked for updates: each one acts once, also if the process is killed in between."""

import time
from datetime import timedelta

import pytest

from models.domain.enums import IncidentStatus
from models.store.store import store as get_store
from models.tables.incidents import Incident, IncidentLog
from runtime.settings import load
from tests.support.delivery.chat_servers import start_telegram
from tests.support.polling import wait_until
from tests.support.scenarios.chats import ALICE_IN_TELEGRAM, TELEGRAM, add_contact, open_incident
from tocsin.server.listener import telegram_updates
from tocsin.server.listener.telegram_updates import create_session
from web.callbacks import telegram

ALICE = int(ALICE_IN_TELEGRAM)


@pytest.fixture
def server():
    with start_telegram() as server:
        yield server


@pytest.fixture
def build_session(server, home):
    def build(**more: str) -> telegram_updates.TelegramUpdates:
        settings = {
            "TOCSIN_HOME": str(home),
            "TOCSIN_TELEGRAM_TOKEN": server.token,
            "TOCSIN_TELEGRAM_URL": server.url,
            "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
        }
        return create_session(load({**settings, **more}))

    return build


@pytest.fixture
def notification(world, enqueued):
    add_contact(world.alice, TELEGRAM, ALICE_IN_TELEGRAM)
    return open_incident(world, get_store().now())


def count_acknowledgements() -> int:
    return IncidentLog.select().where(IncidentLog.what == "acknowledged").count()


def test_a_press_acts_and_is_answered(server, build_session, notification):
    server.press(ALICE, f"a:{notification.id}")
    session = build_session()
    session._poll()
    session._poll()

    assert Incident.get().status == IncidentStatus.ACKNOWLEDGED
    (answer,) = server.list_calls("answerCallbackQuery")
    assert answer["text"] == "Acknowledged: #1 Disk full on db1"
    assert server.pending == 0
    assert [call.get("offset") for call in server.list_calls("getUpdates")] == [None, 700_000_002]


def test_a_server_without_long_polling_is_asked_with_pauses(server, build_session, store, monkeypatch):
    monkeypatch.setattr(telegram_updates, "FIRST_PAUSE_S", 0.3)
    server.patience_s = 0.0
    session = build_session()
    began = time.monotonic()
    session.start()
    server.wait_for("getUpdates", 3)

    assert time.monotonic() - began > 0.5
    session.stop()


def test_an_update_whose_handling_was_interrupted_is_handled_again(
    server, build_session, notification, monkeypatch
):
    server.press(ALICE, f"a:{notification.id}")
    whole = telegram.handle

    def handle_and_die(*arguments):
        whole(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(telegram, "handle", handle_and_die)
    with pytest.raises(KeyboardInterrupt):
        build_session()._poll()
    assert Incident.get().status == IncidentStatus.TRIGGERED

    monkeypatch.setattr(telegram, "handle", whole)
    build_session()._poll()

    assert count_acknowledgements() == 1
    assert server.list_calls("answerCallbackQuery")[0]["text"].startswith("Acknowledged")


def test_an_update_that_two_processes_got_acts_once(server, build_session, notification):
    number = server.press(ALICE, f"a:{notification.id}")
    update = server._updates[0]
    first, second = build_session(), build_session()
    first._handle(update)
    second._handle(update)

    assert len(server.list_calls("answerCallbackQuery")) == 1
    assert number == 700_000_001


def test_a_session_runs_until_it_is_stopped(server, build_session, notification):
    session = build_session()
    session.start()
    server.wait_for("getUpdates")
    server.press(ALICE, f"r:{notification.id}")
    server.wait_for("answerCallbackQuery")
    session.stop()
    server.press(ALICE, f"a:{notification.id}")
    wait_until(lambda: not session._thread.is_alive())

    assert server.list_calls("deleteWebhook") == [{"drop_pending_updates": False}]
    assert len(server.list_calls("answerCallbackQuery")) == 1
    assert Incident.get().status == IncidentStatus.RESOLVED


def test_a_server_that_fails_is_asked_again(server, build_session, notification, monkeypatch):
    monkeypatch.setattr(telegram_updates, "FIRST_PAUSE_S", 0.01)
    server.prepared["getUpdates"] = [
        (502, {}, {}),
        (429, {}, {"ok": False, "parameters": {"retry_after": 0}}),
    ]
    server.press(ALICE, f"a:{notification.id}")
    session = build_session()
    session.start()
    server.wait_for("answerCallbackQuery")
    session.stop()
    wait_until(lambda: not session._thread.is_alive())

    assert len(server.list_calls("getUpdates")) >= 3


def test_an_answer_that_telegram_refuses_loses_nothing(server, build_session, notification):
    text = "Bad Request: query is too old and response timeout expired or query ID is invalid"
    server.prepared["answerCallbackQuery"] = [
        (400, {}, {"ok": False, "error_code": 400, "description": text})
    ]
    server.press(ALICE, f"a:{notification.id}")
    session = build_session()
    session._poll()
    session._poll()

    assert count_acknowledgements() == 1
    assert server.pending == 0


def test_with_a_secret_telegram_gets_the_address_of_web(server, build_session, store):
    session = build_session(TOCSIN_TELEGRAM_WEBHOOK_SECRET="abc_1")
    session.start()
    wait_until(lambda: not session._thread.is_alive())
    session.stop()

    assert server.webhook["url"] == "https://tocsin.example.org/callbacks/telegram/"
    assert server.webhook["secret_token"] == "abc_1"
    assert server.list_calls("getUpdates") == []


def test_an_answer_fits_into_the_limit_of_the_client():
    """Ten updates, each with the longest text of a message and its entities."""
    assert telegram_updates.BATCH * 6_000 < 64 * 1024
    assert timedelta(seconds=telegram_updates.POLL_S) < timedelta(seconds=telegram_updates.DEADLINE_S)
