"""Create and verify contacts of all types (under /api/tocsin/).

The operation of the interface specification creates only e-mail contacts.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NotRequired, TypedDict, cast

from flask import current_app
from marshmallow import fields

from models.changes.record import CREATED
from models.contacts import contact_codes, contact_links
from models.domain.channels import (
    CHANNELS,
    CONTACT_TYPES,
    USER_EMAIL_CHANNEL,
    ChannelSpec,
    get_channel_name,
)
from models.domain.enums import Verification
from models.store.store import store
from models.tables.accounts import User
from models.tables.users import ContactMethod
from runtime.settings import find_unset
from web.account.notification_preferences import CONTACTS, check_address
from web.http import serialization
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import reject
from web.http.fields import Boolean, Choice, Date, Moment, Schema, Text, explain
from web.http.permissions import OWN
from web.http.resource import config_transaction, lock_row
from web.http.writing import NumberedAnswer
from workers import queue


class _NewContactTypes(Mapping[int, str]):
    """The contact types that this operation creates, with their names. A browser creates its own contact."""

    def __getitem__(self, number: int) -> str:
        channel = CHANNELS.get(number)
        if channel is None or channel.verification is Verification.BROWSER:
            raise KeyError(number)
        return CONTACT_TYPES[number]

    def __iter__(self) -> Iterator[int]:
        return (number for number in CONTACT_TYPES if number in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class NewContact(TypedDict):
    """What the schema reads from a request."""

    name: str
    contact_type: int
    value: NotRequired[str]


class NewContactSchema(Schema):
    name = Text(required=True)
    contact_type = Choice(
        names=_NewContactTypes(),
        required=True,
        metadata=explain("The channel of the contact. The operator must have configured it."),
    )
    value = Text(
        limit=320,
        metadata=explain(
            "The address, in the form of the channel: for 1 an e-mail address, for 2 and 3 a phone number,"
            " for example `+46701234567`. Empty for a contact that is linked."
        ),
    )


class VerifiedContactSchema(Schema):
    """A contact, and what its owner must do so that it gets messages."""

    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)
    creation_date = Date(dump_only=True, metadata=explain("The day on which the object was created, in UTC."))
    contact_type = fields.Integer(dump_only=True, metadata=explain("The number of the channel."))
    channel = Text(dump_only=True, metadata=explain("The name of the channel, for example `email`."))
    value = Text(dump_only=True, metadata=explain("The address; empty while a contact is not linked."))
    is_verified = Boolean(dump_only=True, metadata=explain("false: the contact gets only its code."))
    verification = Text(
        dump_only=True,
        metadata=explain(
            "How a contact of this type is verified. `code`: Tocsin sends a code, which you enter. `link`:"
            " you send a code to Tocsin at the provider. `browser`: a browser creates the contact."
        ),
    )
    expires_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When the code ends; null: no code is valid.")
    )
    link_code = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The code to send at the provider. Only the answer that creates it shows it."),
    )
    next_step = Text(dump_only=True, metadata=explain("What to do next, as a sentence; empty: nothing."))


NEW_CONTACT = NewContactSchema()
CONTACT = VerifiedContactSchema()


def index(username: str) -> list[dict[str, object]]:
    """List the contact methods of a person. The answer says which of them are verified."""
    return list_contacts(viewer(), username)


@operation(OWN)
def list_contacts(who: Viewer, username: str) -> list[dict[str, object]]:
    """Return the contacts of a person, each with what to do next."""
    user = CONTACTS.get_parent(username=username)
    rows = CONTACTS.select_rows(user).order_by(ContactMethod.creation_date, ContactMethod.id)
    return [_show(contact, user) for contact in rows]


def create(username: str) -> dict[str, object]:
    """Create a contact method of any type. The answer says what to do so that it is verified."""
    return create_contact(viewer(), username, serialization.REQUEST_BODY)


@operation(OWN)
def create_contact(who: Viewer, username: str, body: object) -> dict[str, object]:
    """Create a contact of a person with the values of a body."""
    user = CONTACTS.get_parent(username=username)
    return add(user, cast(NewContact, serialization.load(NEW_CONTACT, body)))


def add(user: User, values: NewContact) -> dict[str, object]:
    """Create a contact of this person, and return it with what to do next."""
    CONTACTS.require_write(user)
    channel = _find_channel(values["contact_type"])
    address = values.get("value", "")
    if channel.verification is Verification.CODE:
        check_address(user, channel.contact_type, address)
    elif address:
        reject("value", "Leave it out: the contact gets its address when it is linked.")
    link_code = None
    with config_transaction():
        contact = CONTACTS.insert(user, {**values, "value": address})
        CONTACTS.record(CREATED, user, contact, {}, CONTACTS.describe(contact))
        if channel.verification is Verification.LINK:
            link_code, _ = contact_links.create_link_code(contact, now())
    queue.enqueue_delivery(channel.contact_type)
    return _show(ContactMethod.get_by_id(contact.id), User.get_by_id(user.id), link_code)


def link(**ids: str) -> dict[str, object]:
    """Create a new code that links a contact method. The code before it is no longer valid."""
    return create_link(viewer(), **ids)


@operation(OWN)
def create_link(who: Viewer, **ids: str) -> dict[str, object]:
    """Create a new code for the contact that the path names."""
    user, contact = CONTACTS.find_row(**ids)
    CONTACTS.require_write(user)
    channel = _find_channel(contact.contact_type)
    if channel.verification is not Verification.LINK:
        reject("contact", "A contact of this type is not linked.")
    with store().write_transaction():
        link_code, _ = contact_links.create_link_code(lock_row(contact), now())
    return _show(contact, user, link_code)


def _find_channel(contact_type: int) -> ChannelSpec:
    """Return the channel of this contact type, if contacts of it can be created here."""
    channel = CHANNELS[contact_type]
    missing = find_missing_setting(contact_type)
    if missing is not None:
        reject("contact_type", f"The operator has not configured this channel: {missing} is not set.")
    return channel


def find_missing_setting(contact_type: int) -> str | None:
    """Return the setting without which contacts of this channel cannot be created; None: there is none."""
    # E-mail contacts exist before a relay is set, since each person has one.
    if contact_type == USER_EMAIL_CHANNEL:
        return None
    return find_unset(current_app.config["SETTINGS"], CHANNELS[contact_type].name)


def _show(contact: ContactMethod, user: User, link_code: str | None = None) -> dict[str, object]:
    channel = CHANNELS.get(contact.contact_type)
    verification = channel.verification if channel is not None else Verification.CODE
    is_verified = contact_codes.is_verified(contact, user)
    ends = _find_end(contact, verification)
    next_step = "" if is_verified and link_code is None else _write_next_step(contact, user, ends, link_code)
    values = {
        "unique_id": contact.unique_id,
        "name": contact.name,
        "creation_date": contact.creation_date,
        "contact_type": contact.contact_type,
        "channel": get_channel_name(contact.contact_type),
        "value": contact.value,
        "is_verified": is_verified,
        "verification": verification.value,
        "expires_at": ends,
        "link_code": link_code,
        "next_step": next_step,
    }
    return NumberedAnswer(contact.number, values)


def _find_end(contact: ContactMethod, verification: Verification) -> datetime | None:
    if verification is Verification.LINK:
        return contact_links.find_link_end(contact, now())
    code = contact_codes.find_code(contact, now())
    return None if code is None else code.expires_at


def _write_next_step(contact: ContactMethod, user: User, ends: datetime | None, link_code: str | None) -> str:
    """Return what the person must do so that a contact is verified."""
    channel = CHANNELS.get(contact.contact_type)
    if channel is None:
        return "Nothing can be sent to contacts of this type yet."
    own = f"/api/tocsin/users/{user.username}/contacts/{contact.unique_id}"
    match channel.verification:
        case Verification.LINK if link_code is not None:
            return f"Within 10 minutes, send {link_code} to Tocsin in {channel.title}."
        case Verification.LINK:
            return f"Ask for a code with POST {own}/link/, and send it to Tocsin in {channel.title}."
        case Verification.BROWSER:
            return "Allow notifications again in the browser of this contact."
    if ends is None:
        return f"Ask for a code with POST {own}/code/."
    return f"Within 10 minutes, enter the code that Tocsin sends to this contact: POST {own}/verify/."
