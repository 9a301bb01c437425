"""Callbacks of Slack by HTTP: a signed press acts once, for the right person, who needs the right to it."""

import json
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from slack_sdk.signature import SignatureVerifier

from models.contacts.contact_links import create_link_code
from models.domain.enums import IncidentStatus
from models.store.store import store as get_store
from models.tables.accounts import User
from models.tables.callbacks import Callback
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.teams import TeamMember
from models.tables.users import ContactMethod
from runtime.settings import load
from tests.support.offenders import list_offenders
from tests.support.scenarios.chats import ALICE_IN_SLACK, SLACK, add_contact, move, open_incident
from web.callbacks import slack
from web.http import auth

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
HOOK = "https://hooks.slack.com/actions/T1/2/3"
SECOND = timedelta(seconds=1)


@pytest.fixture
def replies(enqueued):
    """What people read: the address, the user and the text of each reply."""
    return lambda: [tuple(args) for name, *args in enqueued if name == "replies.slack"]


@pytest.fixture
def send(app, now, enqueued, monkeypatch):
    """send(payload): send a payload as Slack does, signed by the verifier of slack_sdk."""
    app.config["SETTINGS"] = load(
        {"TOCSIN_SLACK_SIGNING_SECRET": SECRET, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}
    )
    monkeypatch.setattr(slack, "get_now", lambda: now)
    client = app.test_client()

    def send(payload, *, secret=SECRET, at=now, form="payload", body=None, **headers):
        if body is None:
            body = json.dumps(payload) if form is None else urlencode({"payload": json.dumps(payload)})
            body = urlencode(payload) if form == "command" else body
        kind = "application/json" if form is None else "application/x-www-form-urlencoded"
        stamp = str(int(at.timestamp()))
        signature = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=body)
        sent = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature, **headers}
        return client.post("/callbacks/slack/", data=body, content_type=kind, headers=sent)

    return send


@pytest.fixture
def notification(world, now):
    add_contact(world.alice, SLACK, ALICE_IN_SLACK)
    return open_incident(world, now)


def press(notification, action="acknowledge", user=ALICE_IN_SLACK, trigger="1.2.abc", **more):
    pressed = {"action_id": f"{action}:{notification.id}", "value": str(notification.id), "type": "button"}
    return {"type": "block_actions", "user": {"id": user}, "actions": [pressed], "trigger_id": trigger,
            "response_url": HOOK, **more}  # fmt: skip


def copy_for(user, notification):
    """Create the same notification for another user."""
    return Notification.create(
        key="of another user",
        incident=notification.incident,
        user=user,
        kind=notification.kind,
        reason=notification.reason,
        not_before=notification.not_before,
        message=notification.message,
    )


def write(text, user="U0BOB0001", event_id="Ev1", **event):
    message = {"type": "message", "channel_type": "im", "user": user, "text": text, **event}
    return {"type": "event_callback", "event_id": event_id, "event": message}


def test_a_press_acknowledges_for_the_person_and_says_so(send, notification, replies, world):
    answer = send(press(notification))

    incident = Incident.get()
    assert (answer.status_code, answer.data) == (200, b"")
    assert (incident.status, incident.assigned_to) == (IncidentStatus.ACKNOWLEDGED, world.alice)
    assert replies() == [(HOOK, ALICE_IN_SLACK, "Acknowledged: #1 Disk full on db1")]
    log = IncidentLog.get(IncidentLog.what == "acknowledged")
    assert "Alice" in str(log.reason)
    assert "Slack" in str(log.reason)


def test_a_press_that_comes_again_does_nothing(send, notification, replies, world, now):
    send(press(notification))
    move(Incident.get(), IncidentStatus.TRIGGERED, world.alice, now)
    again = send(press(notification))

    assert again.status_code == 200
    assert Incident.get().status == IncidentStatus.TRIGGERED
    assert len(replies()) == 1


def test_who_is_too_late_reads_who_was_faster(send, notification, replies, world, now):
    User.update(first_name="Alice").where(User.id == world.alice.id).execute()
    add_contact(world.bob, SLACK, "U0BOB0001", only=False)
    of_bob = copy_for(world.bob, notification)
    move(Incident.get(), IncidentStatus.ACKNOWLEDGED, world.alice, now.replace(hour=4, minute=11))
    send(press(of_bob, user="U0BOB0001"))

    assert replies() == [(HOOK, "U0BOB0001", "You are too late, Alice has #1 since 04:11.")]


@pytest.mark.parametrize(
    "forged",
    [
        {"secret": "another"},
        {"X-Slack-Signature": "v0=0"},
        {"X-Slack-Signature": "v0=é"},
        {"X-Slack-Signature": ""},
        {"X-Slack-Request-Timestamp": ""},
        {"X-Slack-Request-Timestamp": "soon"},
        {"body": b"payload=\xff"},
    ],
)
def test_a_forged_callback_is_refused(send, notification, forged):
    if "body" in forged:
        answer = send(None, body="payload=x", **{"X-Slack-Signature": "v0=00"})
    else:
        answer = send(press(notification), **forged)

    assert (answer.status_code, answer.json) == (403, {"detail": "the signature is not valid"})
    assert Incident.get().status == IncidentStatus.TRIGGERED


@pytest.mark.parametrize(("age_s", "status"), [(290, 200), (310, 403), (-310, 403)])
def test_a_late_callback_is_refused(send, notification, now, age_s, status):
    answer = send(press(notification), at=now - age_s * SECOND)

    assert answer.status_code == status


def test_a_body_of_bytes_that_are_no_text_is_refused(send, notification, app, now):
    headers = {"X-Slack-Request-Timestamp": str(int(now.timestamp())), "X-Slack-Signature": "v0=00"}
    answer = app.test_client().post("/callbacks/slack/", data=b"payload=\xff\xfe", headers=headers)

    assert answer.status_code == 403


def test_without_a_signing_secret_callbacks_are_refused(send, notification, app):
    app.config["SETTINGS"] = load({})

    assert send(press(notification)).status_code == 404


def test_a_large_body_is_refused(send, notification):
    answer = send(None, body="payload=" + "x" * 70_000)

    assert answer.status_code == 413


@pytest.mark.parametrize("body", ["payload={", "payload=[1]", "payload=" + "[" * 20_000])
def test_a_body_that_is_no_payload_is_refused(send, notification, body):
    assert send(None, body=body).status_code == 400


STRANGE = [
    {},
    {"type": "view_submission"},
    {"type": ["block_actions"]},
    {"type": "block_actions", "trigger_id": 5},
    {"type": "block_actions", "trigger_id": "t", "actions": {}, "user": []},
    {"type": "block_actions", "trigger_id": "t",
     "actions": [{"action_id": "acknowledge:1", "value": "1" * 30}], "user": {"id": ALICE_IN_SLACK}},
    {"type": "block_actions", "trigger_id": "t", "actions": [{"action_id": "delete:1", "value": "1"}],
     "user": {"id": ALICE_IN_SLACK}},
    {"type": "event_callback", "event_id": "e", "event": "x"},
]  # fmt: skip


def test_other_payloads_are_ignored(send, notification, replies):
    def check(strange):
        assert send(strange).status_code == 200
        assert replies() == []
        assert Incident.get().status == IncidentStatus.TRIGGERED

    assert list_offenders(check, STRANGE) == []


def test_a_stranger_only_gets_a_link_to_join(send, notification, replies):
    send(press(notification, user="U0STRANGE"))

    ((_, user, text),) = replies()
    assert user == "U0STRANGE"
    assert text.startswith(
        "This Slack account is not linked to Tocsin. Add it as a contact at https://tocsin.example.org"
    )
    assert "Disk" not in text
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_the_notification_of_somebody_else_is_not_found(send, notification, replies, world):
    add_contact(world.mallory, SLACK, "U0MALLORY")
    send(press(notification, user="U0MALLORY"))

    ((_, _, text),) = replies()
    assert text == "This message is too old, or you have no right to its incident any more."
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_a_member_whose_right_was_removed_is_refused(send, world, now, replies):
    add_contact(world.bob, SLACK, "U0BOB0001")
    notification = open_incident(world, now)
    of_bob = copy_for(world.bob, notification)
    TeamMember.delete().where(TeamMember.user == world.bob).execute()
    send(press(of_bob, user="U0BOB0001"))

    ((_, _, text),) = replies()
    assert text == "This message is too old, or you have no right to its incident any more."
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_an_answer_only_goes_to_slack(send, notification, replies):
    send(press(notification, response_url="https://169.254.169.254/latest/"))

    ((url, user, _),) = replies()
    assert (url, user) == ("", ALICE_IN_SLACK)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        (HOOK, True),
        ("http://hooks.slack.com/x", False),
        ("https://hooks.slack.com:444/x", False),
        ("https://hooks.slack.com.evil.example/x", False),
        ("https://hooks.slack.com@evil.example/x", False),
        ("https://[", False),
        ("https://slack.example.org:8443/x", True),
        ("", False),
    ],
)
def test_only_addresses_of_slack_get_a_reply(url, allowed):
    assert slack.may_answer_at(url, "https://slack.example.org:8443/api") is allowed


def test_slack_verifies_the_address_with_a_challenge(send):
    answer = send({"type": "url_verification", "challenge": "abc"}, form=None)

    assert answer.json == {"challenge": "abc"}


@pytest.fixture
def code(world, now):
    """A code for Bob's contact in Slack."""
    with get_store().write_transaction():
        contact = add_contact(world.bob, SLACK, "")
        ContactMethod.update(verified_value=None).where(ContactMethod.id == contact.id).execute()
        code, _ = create_link_code(contact, now)
    return code


@pytest.mark.parametrize("text", ["{}", " link {} ", "LINK {}"])
def test_a_direct_message_with_the_code_links_the_user(send, code, replies, world, text):
    send(write(text.format(code.lower())), form=None)

    contact = ContactMethod.get(ContactMethod.contact_type == SLACK)
    assert (contact.user, contact.value, contact.verified_value) == (world.bob, "U0BOB0001", "U0BOB0001")
    assert replies() == [("", "U0BOB0001", "Done: Tocsin now notifies you here in Slack.")]


def test_the_command_links_the_user_too(send, code):
    command = {"command": "/tocsin", "text": code, "user_id": "U0BOB0001", "trigger_id": "7.8.x"}
    answer = send(command, form="command")

    assert answer.json == {
        "response_type": "ephemeral",
        "text": "Done: Tocsin now notifies you here in Slack.",
    }


def test_a_code_is_valid_once_and_for_ten_minutes(send, code, replies, world, now, monkeypatch):
    monkeypatch.setattr(slack, "get_now", lambda: now + timedelta(minutes=11))
    send(write(code), form=None, at=now + timedelta(minutes=11))

    assert ContactMethod.get(ContactMethod.contact_type == SLACK).verified_value is None
    assert replies()[0][2].startswith("This Slack account is not linked to Tocsin.")


@pytest.mark.parametrize(
    "event",
    [
        {"bot_id": "B1"},
        {"subtype": "message_changed"},
        {"channel_type": "channel"},
        {"type": "reaction_added"},
    ],
)
def test_only_direct_messages_of_people_are_read(send, code, replies, event):
    send(write(code, **event), form=None)

    assert replies() == []
    assert ContactMethod.get(ContactMethod.contact_type == SLACK).verified_value is None


def test_the_request_uses_the_clock_of_the_store(app, world):
    with app.test_request_context():
        assert abs(slack.get_now() - get_store().now()) < 5 * SECOND
    assert slack.get_now is auth.now
    assert Callback.select().count() == 0
