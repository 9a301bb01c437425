"""Messages that carry no notification: invitations to an account, and test messages to a contact."""

from datetime import datetime

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind
from models.domain.identity import hash_message_id
from models.store.ids import make_uuid
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactMethod


def create_invitation(user: User, inviter: str, now: datetime) -> Message:
    """Store an invitation for this member, to the user's own address. `inviter` is a display name."""
    return create_message(user, inviter, now, channel=USER_EMAIL_CHANNEL, kind=MessageKind.INVITATION)


def create_test_message(
    contact: ContactMethod, requested_by: str, now: datetime, claimed_until: datetime | None = None
) -> Message:
    """Store a test message to this contact. `requested_by` names the person who requested it.

    A caller that sends the message itself sets `claimed_until`, so that no worker sends it too.
    """
    user = User.get_by_id(contact.user_id)
    channel = contact.contact_type
    return create_message(
        user,
        requested_by,
        now,
        channel=channel,
        contact=contact,
        requested_address=contact.value,
        claimed_until=claimed_until,
    )


def create_browser_message(user: User, browser: str, now: datetime) -> Message:
    """Store a mail that tells this member about a new browser that gets messages. `browser`: its name."""
    return create_message(user, browser, now, channel=USER_EMAIL_CHANNEL, kind=MessageKind.BROWSER)


def create_sign_in_message(user: User, link: str, now: datetime) -> Message:
    """Store a mail with a sign-in link for this member. `link`: its unique_id."""
    return create_message(user, link, now, channel=USER_EMAIL_CHANNEL, kind=MessageKind.SIGN_IN)


def create_message(user: User, requested_by: str, now: datetime, **columns: object) -> Message:
    """Store a message of a random id, due now."""
    return Message.create(
        message_id=hash_message_id([make_uuid()]),
        account=user.account_id,
        user=user,
        requested_by=requested_by,
        created_at=now,
        next_attempt_at=now,
        **columns,
    )


def find_last_code(contact: ContactMethod) -> datetime | None:
    """Return when the last code for this contact was sent; None: there was none."""
    query = Message.select(Message.created_at).where(
        Message.contact == contact, Message.kind == MessageKind.CODE
    )
    at: datetime | None = query.order_by(Message.id.desc()).scalar()
    return at


def find_last_invitation(user: User) -> datetime | None:
    """Return when the last invitation for this member was created; None: there was none."""
    query = Message.select(Message.created_at).where(
        Message.user == user, Message.kind == MessageKind.INVITATION
    )
    at: datetime | None = query.order_by(Message.id.desc()).scalar()
    return at
