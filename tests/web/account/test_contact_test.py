"""Test messages to a contact: requests, delivery by a worker, and the outcome."""

from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus
from models.tables.notifications import Message
from models.tables.users import ContactMethod
from runtime.settings import load
from tests.support.contract.described import described
from tests.support.relays import relay
from workers.delivery import deliver

__all__ = ["described"]


def get_path(user):
    contact = ContactMethod.get(ContactMethod.user == user)
    return f"/api/tocsin/users/{user.username}/contacts/{contact.unique_id}/test/"


def test_a_test_message_is_sent_and_its_outcome_is_shown(ask, world):
    started = ask("POST", get_path(world.bob), who="bob")
    assert started.status_code == 200
    with relay() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        deliver.send_due(1)

    assert started.json["message"] == "Tocsin is sending a test message."
    ((to, mail),) = box.mails
    assert (to, mail["Subject"]) == ("bob@example.org", "[Tocsin] Test message")
    assert "Bob asked for a test message." in mail.get_content()
    (shown,) = ask("GET", get_path(world.bob), who="bob").json
    assert shown["message_id"] == started.json["message_id"]
    assert (shown["state"], shown["outcome"]) == ("sent", "Accepted by the relay (250).")
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["sent"]


def test_a_pending_test_message_is_as_described(ask, world, described):
    """It has no `done_at` yet."""
    ask("POST", get_path(world.bob), who="bob")

    (shown,) = ask("GET", get_path(world.bob), who="bob").json

    assert (shown["state"], shown["done_at"]) == ("pending", None)
    schema = {"$ref": "#/components/schemas/TestMessage"}
    assert described.find_mismatches(schema, shown) == []


def test_a_failed_test_message_notifies_nobody_else(ask, world):
    contacts = ContactMethod.update(value="old@example.org", verified_value="old@example.org")
    contacts.where(ContactMethod.user == world.bob).execute()
    ask("POST", get_path(world.bob), who="bob")
    with relay({"RCPT old@example.org": "550 unknown"}) as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        deliver.send_due(1)

    (shown,) = ask("GET", get_path(world.bob), who="bob").json
    assert (shown["state"], box.mails) == ("failed", [])
    assert Message.select().count() == 1


@pytest.mark.parametrize("change", ["value", "delete"])
def test_a_test_message_goes_to_no_other_address_than_it_was_requested_for(ask, world, change):
    """Also if the new address is verified."""
    ContactMethod.update(value="old@example.org", verified_value="old@example.org").where(
        ContactMethod.user == world.bob
    ).execute()
    path = get_path(world.bob)
    assert ask("POST", path, who="bob").status_code == 200
    if change == "delete":
        ContactMethod.delete().where(ContactMethod.user == world.bob).execute()
    else:
        ContactMethod.update(value="new@example.org", verified_value="new@example.org").execute()
    with relay() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        deliver.send_due(1)

    message = Message.get()
    assert (box.mails, Message.select().count()) == ([], 1)
    assert (message.state, str(message.outcome)) == (
        MessageStatus.CANCELLED,
        "The contact was changed or deleted after the test message was requested. Nothing was sent:"
        " request another one.",
    )


def test_test_messages_to_a_contact_have_a_minimum_interval(ask, world, store):
    assert ask("POST", get_path(world.bob), who="bob").status_code == 200
    again = ask("POST", get_path(world.bob), who="bob")
    Message.update(created_at=store.now() - timedelta(seconds=31)).execute()
    later = ask("POST", get_path(world.bob), who="bob")

    assert (again.status_code, again.headers["Retry-After"], later.status_code) == (429, "30", 200)


def test_only_the_user_and_admins_may_send_test_messages(ask, world):
    assert ask("POST", get_path(world.bob), who="charlie").status_code == 403
    assert ask("POST", get_path(world.bob), who="alice").status_code == 200
