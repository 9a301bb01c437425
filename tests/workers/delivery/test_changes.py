"""A sent message is changed when its incident is acknowledged, resolved or triggered again."""

from datetime import timedelta

import pytest

from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus
from models.store.store import store
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.notifications import Message, MessageUpdate, Notification
from models.tables.users import ContactMethod
from models.write import message_updates
from runtime.settings import load
from tests.support.delivery.chat_servers import start_slack, start_telegram
from tests.support.scenarios.chats import (
    ALICE_IN_SLACK,
    ALICE_IN_TELEGRAM,
    SLACK,
    TELEGRAM,
    add_contact,
    move,
    open_incident,
)
from workers.delivery import changes, deliver, outbox
from workers.delivery.transport.relay_gate import FAILURE_THRESHOLD
from workers.periodic import due_scan

ACKNOWLEDGED, RESOLVED, TRIGGERED = (
    IncidentStatus.ACKNOWLEDGED,
    IncidentStatus.RESOLVED,
    IncidentStatus.TRIGGERED,
)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def server():
    with start_slack() as server:
        yield server


@pytest.fixture
def slack(server, world, home):
    """The server, to which messages for Alice are sent."""
    server.calls.clear()
    server.prepared.clear()
    add_contact(world.alice, SLACK, ALICE_IN_SLACK)
    settings = {"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1", "TOCSIN_SLACK_URL": server.api, "TOCSIN_HOME": str(home)}
    deliver.configure(load({**settings, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}))
    yield server
    deliver._runtimes.clear()


@pytest.fixture
def sent(slack, world, now):
    """An incident whose message was sent to Alice."""
    open_incident(world, now)
    deliver.send_due(SLACK, now)
    assert Message.get().state == MessageStatus.SENT
    return Incident.get()


def list_buttons(call):
    actions = [block["elements"] for block in call["blocks"] if block["type"] == "actions"]
    return [button["text"]["text"] for elements in actions for button in elements]


def send_changes(now):
    deliver.send_due(SLACK, now)


def test_an_acknowledged_incident_has_no_acknowledge_button_any_more(slack, sent, world, now):
    result = move(sent, ACKNOWLEDGED, world.bob, now + 11 * MINUTE)
    send_changes(now + 11 * MINUTE)

    (change,) = slack.list_calls("chat.update")
    assert result.channels == {SLACK}
    assert (change["channel"], change["ts"]) == ("D0ALICE01", slack.calls[0][1].get("ts", change["ts"]))
    assert change["text"].startswith("Acknowledged: [Checkout] #1 Disk full")
    assert change["blocks"][1]["text"]["text"].startswith("Acknowledged by Bob at 12:11\n")
    assert list_buttons(change) == ["Resolve", "Open the incident"]
    assert MessageUpdate.select().count() == 0


def test_a_resolved_incident_has_no_buttons_and_a_triggered_one_has_all(slack, sent, world, now):
    move(sent, RESOLVED, world.alice, now + 20 * MINUTE)
    send_changes(now + 20 * MINUTE)
    move(sent, TRIGGERED, world.alice, now + 21 * MINUTE)
    send_changes(now + 21 * MINUTE)

    resolved, again = slack.list_calls("chat.update")
    assert resolved["blocks"][1]["text"]["text"].startswith("Resolved by Alice at 12:20, after 20 min\n")
    assert list_buttons(resolved) == ["Open the incident"]
    assert list_buttons(again) == ["Acknowledge", "Resolve", "Open the incident"]
    assert again["text"].startswith("[Checkout] #1")


def test_only_the_last_state_is_sent(slack, sent, world, now):
    for to in (ACKNOWLEDGED, RESOLVED):
        move(sent, to, world.alice, now + MINUTE)
    send_changes(now + MINUTE)

    (change,) = slack.list_calls("chat.update")
    assert change["text"].startswith("Resolved: ")


def test_a_state_that_changes_while_a_change_is_sent_is_sent_too(slack, sent, world, now):
    move(sent, ACKNOWLEDGED, world.alice, now)
    claimed = changes.claim(SLACK, now)
    move(sent, RESOLVED, world.alice, now)
    changes._finish(claimed)

    send_changes(now)

    assert [call["text"][:9] for call in slack.list_calls("chat.update")] == ["Resolved:"]


def test_a_message_that_is_being_sent_is_changed_afterwards(slack, world, now):
    """The worker has rendered the state before the acknowledgement."""
    open_incident(world, now)
    with store().write_transaction():
        claimed = outbox.claim(SLACK, world.account.id, now)
    runtime = deliver._runtimes[SLACK]
    attempt = deliver._deliver(runtime, runtime.gate, runtime.channel.create_connection(), claimed, now)
    move(Incident.get(), ACKNOWLEDGED, world.bob, now)
    send_changes(now)
    assert slack.list_calls("chat.update") == []
    deliver._record(SLACK, attempt)

    send_changes(now + changes.IN_FLIGHT_DELAY)

    assert Notification.get().state == NotificationStatus.SENT
    assert [call["text"][:13] for call in slack.list_calls("chat.update")] == ["Acknowledged:"]


def test_a_message_that_is_not_sent_yet_needs_no_change(slack, world, now):
    open_incident(world, now)
    move(Incident.get(), RESOLVED, world.bob, now)
    deliver.send_due(SLACK, now)

    assert slack.calls == []
    assert MessageUpdate.select().count() == 0


def test_a_change_is_retried_and_given_up(slack, sent, world, now):
    slack.prepared["chat.update"] = [(429, {"Retry-After": "60"}, {"ok": False, "error": "ratelimited"})]
    move(sent, ACKNOWLEDGED, world.alice, now)
    send_changes(now)
    assert MessageUpdate.get().due_at == now + MINUTE

    slack.prepared["chat.update"] = [(200, {}, {"ok": False, "error": "internal_error"})] * 9
    for _ in range(9):
        row = MessageUpdate.get_or_none()
        if row is not None:
            deliver._runtimes[SLACK].gate.record_success()
            send_changes(row.due_at)

    assert MessageUpdate.get_or_none() is None
    assert len(slack.list_calls("chat.update")) == 1 + len(changes.DELAYS)


def test_a_provider_that_takes_no_changes_counts_as_down(slack, sent, world, now):
    gate = deliver._runtimes[SLACK].gate
    slack.prepared["chat.update"] = [(200, {}, {"ok": False, "error": "invalid_auth"})] * FAILURE_THRESHOLD
    move(sent, ACKNOWLEDGED, world.alice, now)
    for number in range(FAILURE_THRESHOLD):
        assert not gate.is_down()
        send_changes(now + number * 10 * MINUTE)
    assert gate.is_down()
    requests = len(slack.calls)
    send_changes(now + 60 * MINUTE)
    assert len(slack.calls) == requests

    gate._retry_at = 0.0
    send_changes(now + 60 * MINUTE)
    assert not gate.is_down()
    assert MessageUpdate.get_or_none() is None


def test_a_change_of_a_deleted_message_is_not_repeated(slack, sent, world, now):
    slack.prepared["chat.update"] = [(200, {}, {"ok": False, "error": "message_not_found"})]
    move(sent, ACKNOWLEDGED, world.alice, now)
    send_changes(now)

    assert MessageUpdate.get_or_none() is None


@pytest.mark.parametrize("loss", ["removed", "changed"])
def test_a_person_who_may_not_get_it_any_more_gets_no_change(slack, sent, world, now, loss):
    move(sent, ACKNOWLEDGED, world.bob, now)
    if loss == "removed":
        User.update(removed_at=now).where(User.id == world.alice.id).execute()
    else:
        ContactMethod.update(value="U0OTHER01").where(ContactMethod.contact_type == SLACK).execute()
    send_changes(now)

    assert slack.list_calls("chat.update") == []
    assert MessageUpdate.get_or_none() is None


def test_a_message_about_two_incidents_shows_the_state_of_each(slack, world, now):
    body = b'{"version": "4", "alerts": [%s]}' % b",".join(
        b'{"status": "firing", "labels": {"alertname": "A%d"}, "startsAt": "2026-03-04T12:00:00Z"}' % n
        for n in range(2)
    )
    open_group(world, now, body)
    deliver.send_due(SLACK, now)
    first = Incident.select().order_by(Incident.id).get()
    move(first, ACKNOWLEDGED, world.bob, now)
    send_changes(now)

    (change,) = slack.list_calls("chat.update")
    notes = [
        block["text"]["text"] for block in change["blocks"] if block["type"] == "section" and "text" in block
    ]
    assert sum("Acknowledged" in note for note in notes) == 1
    assert list_buttons(change).count("Acknowledge") == 1


def open_group(world, now, body):
    from tests.support.alerts import accept
    from workers.alerts import process_lane

    accept(world, now, source="prometheus", body=body)
    process_lane.run(world.service.id)


def test_the_clock_wakes_the_channel_for_a_change(slack, sent, world, enqueued):
    move(sent, ACKNOWLEDGED, world.bob, store().now())
    enqueued.clear()

    due_scan.enqueue_due()

    assert ("deliver.slack",) in enqueued


def test_without_a_channel_that_can_change_messages_no_statement_is_added(world, now, statements):
    open_incident(world, now)
    message_updates.configure([])
    try:
        with statements() as without:
            move(Incident.get(), ACKNOWLEDGED, world.bob, now)
    finally:
        message_updates.configure([SLACK, TELEGRAM])
    with statements() as found:
        move(Incident.get(), RESOLVED, world.bob, now)

    reads = 'FROM "message" AS "t1" INNER JOIN "notification"'
    assert not any("message_update" in sql or reads in sql for sql, _ in without)
    assert any(reads in sql for sql, _ in found)
    # If nobody was notified in such a channel, the incident needs one more statement, which reads.
    assert not any("message_update" in sql for sql, _ in found)


def test_a_telegram_message_is_changed_too(world, now, home):
    add_contact(world.alice, TELEGRAM, ALICE_IN_TELEGRAM)
    with start_telegram() as telegram:
        settings = {"TOCSIN_TELEGRAM_TOKEN": telegram.token, "TOCSIN_TELEGRAM_URL": telegram.url}
        deliver.configure(load({**settings, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}))
        open_incident(world, now)
        deliver.send_due(TELEGRAM, now)
        move(Incident.get(), ACKNOWLEDGED, world.bob, now)
        deliver.send_due(TELEGRAM, now)
    deliver._runtimes.clear()

    (change,) = telegram.list_calls("editMessageText")
    assert "Acknowledged by Bob at 12:00" in change["text"]
    keyboard = change["reply_markup"]["inline_keyboard"]
    assert [button["text"] for row in keyboard for button in row] == ["Resolve", "Open the incident"]
