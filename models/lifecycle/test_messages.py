"""Test messages: they show whether a contact can be reached and carry no notification."""

from datetime import datetime

from models.store.ids import hash_message_id, new_uuid
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactMethod


def create_test_message(
    contact: ContactMethod, requested_by: str, now: datetime, claimed_until: datetime | None = None
) -> Message:
    """Store a test message to this contact, due now. `requested_by` names the person who requested it.

    A caller that sends the message itself sets `claimed_until`, so that no worker sends it too.
    """
    user = User.get_by_id(contact.user_id)
    return Message.create(
        message_id=hash_message_id([f"test:{new_uuid()}"]),
        account=user.account_id,
        user=user,
        contact=contact,
        channel=contact.contact_type,
        requested_by=requested_by,
        created_at=now,
        next_attempt_at=now,
        claimed_until=claimed_until,
    )
