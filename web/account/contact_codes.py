"""Verify a contact with a code that Tocsin sends to it (under /api/tocsin/)."""

from marshmallow import fields

from models.contacts import contact_codes
from models.contacts.contact_codes import MAX_ATTEMPTS
from models.contacts.messages import find_last_code
from models.domain.channels import CHANNELS
from models.domain.enums import Verification
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.users import ContactMethod
from web.account.contact_test import TooSoon
from web.account.message_limits import MIN_INTERVAL, count_code
from web.account.notification_preferences import CONTACTS
from web.http import serialization
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import reject
from web.http.fields import Boolean, Moment, Schema, Text, explain
from web.http.permissions import OWN
from workers import queue


class CodeSchema(Schema):
    code = Text(required=True, limit=20, metadata=explain("The six digits that Tocsin sent to the contact."))


class VerificationSchema(Schema):
    """Whether a contact is verified, and its valid code, if there is one."""

    is_verified = Boolean(metadata=explain("false: the contact gets only its code."))
    expires_at = Moment(allow_none=True, metadata=explain("When the code ends; null: no code is valid."))
    attempts_left = fields.Integer(
        metadata=explain("How often a code can still be entered; 0: no code is valid.")
    )


CODE = CodeSchema()
VERIFICATION = VerificationSchema()


def send(**ids: str) -> dict[str, str]:
    """Send a new code to a contact. The code before it is no longer valid."""
    return send_code(viewer(), **ids)


@operation(OWN)
def send_code(who: Viewer, **ids: str) -> dict[str, str]:
    """Send a code to the contact that the path names."""
    user, contact = CONTACTS.find_row(**ids)
    CONTACTS.require_write(user)
    channel = CHANNELS.get(contact.contact_type)
    if channel is None:
        reject("contact", "Nothing can be sent to contacts of this type yet.")
    if channel.verification is not Verification.CODE:
        reject("contact", "A contact of this type is not verified by a code that Tocsin sends.")
    with store().write_transaction():
        if contact_codes.is_verified(contact, user):
            reject("contact", "This contact is verified.")
        last = find_last_code(contact)
        if last is not None and last > now() - MIN_INTERVAL:
            raise TooSoon(detail="A code was sent to this contact a moment ago.")
        count_code(viewer().user, contact.contact_type, contact.value)
        message = contact_codes.send_code(contact, get_display_name(viewer().user), now())
    queue.enqueue_delivery(message.channel)
    return {"message": "Tocsin is sending a code.", "message_id": message.message_id}


def show(**ids: str) -> dict[str, object]:
    """Get whether a contact is verified. The answer also has the attempts that its code has left."""
    user, contact = CONTACTS.find_row(**ids)
    return _show(contact, user)


def verify(**ids: str) -> dict[str, object]:
    """Verify a contact with its code."""
    return enter_code(viewer(), serialization.REQUEST_BODY, **ids)


@operation(OWN)
def enter_code(who: Viewer, body: object, **ids: str) -> dict[str, object]:
    """Verify the contact that the path names with the code of a body."""
    user, contact = CONTACTS.find_row(**ids)
    CONTACTS.require_write(user)
    code = serialization.load(CODE, body)["code"]
    # The attempt is committed before the error is raised.
    with store().write_transaction():
        is_right = contact_codes.enter_code(contact, code.strip(), now())
    if not is_right:
        why = "Not the code of this contact, or no longer valid. It is valid for 10 minutes and 5 attempts."
        reject("code", why)
    return _show(ContactMethod.get_by_id(contact.id), User.get_by_id(user.id))


def _show(contact: ContactMethod, user: User) -> dict[str, object]:
    code = contact_codes.find_code(contact, now())
    return {
        "is_verified": contact_codes.is_verified(contact, user),
        "expires_at": None if code is None else code.expires_at,
        "attempts_left": 0 if code is None else MAX_ATTEMPTS - code.attempts,
    }
