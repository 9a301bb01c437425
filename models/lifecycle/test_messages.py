"""Test messages: they show whether a contact can be reached and carry no notification."""

from datetime import datetime

from models.domain.identity import hash_message_id
from models.store.ids import new_uuid
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactMethod


def create_test_message(
    contact: ContactMethod, reason: str, now: datetime, claimed_until: datetime | None = None
) -> Message:
    """Store a test message to this contact, due now. `reason` names the person who requested it.

    A caller that sends the message itself sets `claimed_until`, so that no worker sends it too.
    """
    user = User.get_by_id(contact.user_id)
    return Message.create(
        message_id=hash_message_id([f"test:{new_uuid()}"]),
        account=user.account_id,
        user=user,
        contact=contact,
        channel=contact.contact_type,
        reason=reason,
        created_at=now,
        next_attempt_at=now,
        claimed_until=claimed_until,
    )
