"""Test messages, which show whether a contact can be reached (under /api/tocsin/)."""

import peewee
from marshmallow import fields

from models.contacts.contact_codes import is_verified
from models.contacts.messages import create_test_message
from models.domain.channels import CHANNELS
from models.domain.enums import MessageStatus
from models.store.store import store
from models.tables.accounts import get_display_name
from models.tables.notifications import Attempt, Message
from models.tables.users import ContactMethod
from web.account.message_limits import MIN_INTERVAL, count_message
from web.account.notification_preferences import CONTACTS
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import ApiError, reject
from web.http.fields import Moment, Schema, Text, explain
from web.http.permissions import OWN
from workers import queue

MAX_SHOWN = 10


class TooSoon(ApiError):
    status = 429
    detail = "A test message was sent to this contact a moment ago."
    headers = {"Retry-After": str(int(MIN_INTERVAL.total_seconds()))}


class AttemptSchema(Schema):
    at = Moment(metadata=explain("When the attempt began."))
    outcome = Text()
    detail = Text()
    milliseconds = fields.Integer()


class SendStartedSchema(Schema):
    message = Text(metadata=explain("A sentence for people."))
    message_id = Text(metadata=explain("Identifies the message; a part of the Message-ID of its mail."))


class TestMessageSchema(Schema):
    message_id = Text(metadata=explain("Identifies the message; a part of the Message-ID of its mail."))
    reason = Text(metadata=explain("Says who asked for the message."))
    created_at = Moment(metadata=explain("When somebody asked for the message."))
    state = Text(metadata=explain("`pending`, `sent`, `cancelled` or `failed`."))
    outcome = Text(
        allow_none=True,
        metadata=explain("Why the message has this state, as a sentence; null: nothing to say."),
    )
    done_at = Moment(
        allow_none=True, metadata=explain("When the message was sent or given up; null while it is pending.")
    )
    attempts = fields.List(
        fields.Nested(AttemptSchema()), metadata=explain("The delivery attempts, the first one first.")
    )


SEND_STARTED = SendStartedSchema()
TEST_MESSAGE = TestMessageSchema()


def start(**ids: str) -> dict[str, str]:
    """Send a test message to a contact. A GET of the same path returns the outcome."""
    return send_test(viewer(), **ids)


@operation(OWN)
def send_test(who: Viewer, **ids: str) -> dict[str, str]:
    """Send a test message to the contact that the path names."""
    user, contact = CONTACTS.find_row(**ids)
    CONTACTS.require_write(user)
    if contact.contact_type not in CHANNELS:
        reject("contact", "Nothing can be sent to contacts of this type yet.")
    if not is_verified(contact, user):
        reject("contact", "This contact is not verified: it gets only its code.")
    with store().write_transaction():
        if _select_messages(contact).where(Message.created_at > now() - MIN_INTERVAL).exists():
            raise TooSoon
        count_message(viewer().user, contact.contact_type, contact.value)
        message = create_test_message(contact, get_display_name(viewer().user), now())
    queue.enqueue_delivery(message.channel)
    return {"message": "Tocsin is sending a test message.", "message_id": message.message_id}


def index(**ids: str) -> list[dict[str, object]]:
    """List the last test messages to a contact, newest first. Each has its delivery attempts."""
    contact = CONTACTS.find_row(**ids)[1]
    messages = list(_select_messages(contact).order_by(Message.id.desc()).limit(MAX_SHOWN))
    attempts: dict[int, list[Attempt]] = {}
    for attempt in Attempt.select().where(Attempt.message.in_(messages)).order_by(Attempt.id):
        attempts.setdefault(attempt.message_id, []).append(attempt)
    return [_show(message, attempts.get(message.id, [])) for message in messages]


def _select_messages(contact: ContactMethod) -> "peewee.ModelSelect[Message]":
    return Message.select().where(
        Message.contact == contact, Message.requested_by.is_null(False), Message.kind.is_null()
    )


def _show(message: Message, attempts: list[Attempt]) -> dict[str, object]:
    return {
        "message_id": message.message_id,
        "reason": f"{message.requested_by} asked for a test message.",
        "created_at": message.created_at,
        "state": MessageStatus(message.state).name.lower(),
        "outcome": message.outcome,
        "done_at": message.done_at,
        "attempts": attempts,
    }
