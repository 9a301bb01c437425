"""Verify contacts: a code is sent to the address, and the person enters it.

A person who enters the code has read a message to the address. Without that, the address may belong to a
stranger.
"""

import hmac
import secrets
from datetime import datetime, timedelta

from models.contacts.messages import create_message
from models.domain import addresses
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind
from models.people.provisioning import create_default_rules
from models.store.store import store
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactCode, ContactMethod

LIFE = timedelta(minutes=10)
MAX_ATTEMPTS = 5
DIGITS = 6


def is_verified(contact: ContactMethod, user: User) -> bool:
    """Return whether messages are sent to this contact without a limit."""
    if contact.verified_value == contact.value:
        return True
    is_own = is_own_address(contact.contact_type, contact.value, user.email)
    return is_own and is_same_address(user.verified_email, user.email)


def is_same_address(verified: str | None, address: str) -> bool:
    """Return whether this address was verified. Case does not count."""
    return addresses.is_same_address(verified, address)


def is_own_address(channel: int, address: str, email: str) -> bool:
    """Return whether an address of this channel is the user's own e-mail address `email`."""
    return channel == USER_EMAIL_CHANNEL and is_same_address(address, email)


def send_code(contact: ContactMethod, requested_by: str, now: datetime) -> Message:
    """Store a new code for this contact and a message with it. The code before it is no longer valid."""
    code = f"{secrets.randbelow(10**DIGITS):0{DIGITS}}"
    ContactCode.delete().where(ContactCode.contact == contact).execute()
    ContactCode.create(contact=contact, value=contact.value, code=code, expires_at=now + LIFE)
    user = User.get_by_id(contact.user_id)
    return create_message(
        user, requested_by, now, channel=contact.contact_type, contact=contact, kind=MessageKind.CODE
    )


def find_code(contact: ContactMethod, now: datetime) -> ContactCode | None:
    """Return the valid code of the contact; None: there is none."""
    found: ContactCode | None = ContactCode.get_or_none(
        ContactCode.contact == contact,
        ContactCode.value == contact.value,
        ContactCode.expires_at > now,
        ContactCode.attempts < MAX_ATTEMPTS,
    )
    return found


def find_valid_code(message_row: int, now: datetime) -> str | None:
    """Return the code for a message; None: the code, or the address, is no longer valid."""
    query = ContactMethod.select().join(Message, on=(Message.contact == ContactMethod.id))
    contact = query.where(Message.id == message_row).first()
    found = find_code(contact, now) if contact is not None else None
    return None if found is None else str(found.code)


def enter_code(contact: ContactMethod, code: str, now: datetime) -> bool:
    """Verify the contact if this is its code; count the attempt otherwise. Needs a write transaction.

    A contact that was never verified before gets its notification rules.
    """
    locked = store().for_update(ContactMethod.select().where(ContactMethod.id == contact.id)).first()
    found = find_code(locked, now) if locked is not None else None
    if found is None:
        return False
    if not hmac.compare_digest(found.code.encode(), code.encode()):
        counted = ContactCode.update(attempts=ContactCode.attempts + 1)
        counted.where(ContactCode.id == found.id).execute()
        return False
    ContactCode.delete().where(ContactCode.id == found.id).execute()
    ContactMethod.update(verified_value=found.value).where(ContactMethod.id == contact.id).execute()
    _verify_own_address(locked)
    # Later, the person may have deleted the rules of the contact.
    if locked.verified_value is None:
        create_default_rules(locked, now)
    return True


def _verify_own_address(contact: ContactMethod) -> None:
    user = User.get_by_id(contact.user_id)
    if is_own_address(contact.contact_type, contact.value, user.email):
        User.update(verified_email=user.email).where(User.id == user.id, User.email == user.email).execute()
        verify_contacts(user.id, user.email)


def verify_contacts(user: int, address: str) -> None:
    """Mark the e-mail contacts of a user with this verified address as verified. Case does not count.

    They stay verified when the user's own address changes.
    """
    for contact in find_own_contacts(user, address):
        ContactMethod.update(verified_value=contact.value).where(
            ContactMethod.id == contact.id, ContactMethod.value == contact.value
        ).execute()


def find_own_contacts(user: int, address: str) -> list[ContactMethod]:
    """Return the e-mail contacts of a user that have this address. A user has few contacts."""
    contacts = ContactMethod.select().where(
        ContactMethod.user == user, ContactMethod.contact_type == USER_EMAIL_CHANNEL
    )
    return [each for each in contacts.order_by(ContactMethod.id) if is_same_address(each.value, address)]
