"""Callbacks of Slack over a connection (Socket Mode), with the client of slack_sdk and our own server."""

import gc

import pytest

from models.contacts.contact_links import create_link_code
from models.domain.enums import IncidentStatus
from models.store.store import store as get_store
from models.tables.incidents import Incident
from models.tables.users import ContactMethod
from runtime.settings import load
from tests.support.delivery.chat_servers import start_slack
from tests.support.polling import wait_until
from tests.support.scenarios.chats import ALICE_IN_SLACK, SLACK, add_contact, open_incident
from tocsin.server.listener.slack_connection import create_session

# If two threads of the library open a connection at the same time, it forgets one of the sockets.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def server():
    with start_slack() as server:
        yield server


@pytest.fixture
def session(server, home, world, enqueued):
    settings = {
        "TOCSIN_HOME": str(home),
        "TOCSIN_SLACK_BOT_TOKEN": "xoxb-1",
        "TOCSIN_SLACK_APP_TOKEN": "xapp-1",
        "TOCSIN_SLACK_URL": server.api,
        "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
    }
    session = create_session(load(settings))
    session.start()
    yield session
    session.stop()
    # A forgotten socket is found here, not in a later test.
    gc.collect()


def press(notification, server, trigger="1.2.abc"):
    pressed = {"action_id": f"acknowledge:{notification.id}", "value": str(notification.id)}
    return {"type": "block_actions", "user": {"id": ALICE_IN_SLACK}, "actions": [pressed],
            "trigger_id": trigger, "response_url": f"{server.url}/hooks/1"}  # fmt: skip


def test_a_press_acts_once_is_confirmed_and_answered(server, session, world):
    add_contact(world.alice, SLACK, ALICE_IN_SLACK)
    notification = open_incident(world, get_store().now())
    first = server.send_envelope("e1", "interactive", press(notification, server))
    server.send_envelope("e2", "interactive", press(notification, server))

    (answer,) = server.wait_for("hook")
    assert first == {"envelope_id": "e1"}
    assert "xapp-1" in server.tokens
    assert Incident.get().status == IncidentStatus.ACKNOWLEDGED
    assert answer["text"] == "Acknowledged: #1 Disk full on db1"
    assert answer["response_type"] == "ephemeral"


def test_a_code_in_a_message_or_a_command_links_the_user(server, session, world):
    with get_store().write_transaction():
        code, _ = create_link_code(add_contact(world.bob, SLACK, ""), get_store().now())
    command = {"command": "/tocsin", "text": code, "user_id": "U0BOB0001", "trigger_id": "1.1.x"}
    answer = server.send_envelope("e1", "slash_commands", command)
    event = {"type": "message", "channel_type": "im", "user": "U0BOB0001", "text": "hello"}
    server.send_envelope("e2", "events_api", {"type": "event_callback", "event_id": "Ev1", "event": event})

    assert answer["payload"]["text"] == "Done: Tocsin now notifies you here in Slack."
    assert ContactMethod.get(ContactMethod.contact_type == SLACK).verified_value == "U0BOB0001"
    (reply,) = server.wait_for("chat.postMessage")
    assert reply["text"] == "Tocsin notifies you here in Slack. You need not write anything."


def test_a_connection_that_slack_closes_is_opened_again(server, session):
    wait_until(lambda: server.sockets)
    old = server.sockets[-1]
    server.run(old.send_json({"type": "disconnect", "reason": "refresh_requested"}))

    wait_until(lambda: any(socket is not old for socket in server.sockets))
    assert len(server.list_calls("apps.connections.open")) == 2
