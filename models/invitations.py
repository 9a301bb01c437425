"""Messages that invite somebody to an account: they carry no notice, and go to the account's address."""

from datetime import datetime

from models.accounts import User
from models.enums import ContactType, MessageKind
from models.ids import message_id, new_uuid
from models.notices import Message


def new_invitation(user: User, inviter: str, now: datetime) -> Message:
    """An invitation for this member, due now; `inviter` is who says so, by name."""
    return Message.create(
        message_id=message_id([f"invitation:{new_uuid()}"]),
        account=user.account_id,
        user=user,
        channel=ContactType.EMAIL,
        kind=MessageKind.INVITATION,
        reason=inviter,
        created_at=now,
        next_at=now,
    )


def last_invitation(user: User) -> datetime | None:
    """When this member was last invited by a message."""
    invited = Message.select(Message.created_at).where(
        Message.user == user, Message.kind == MessageKind.INVITATION
    )
    at: datetime | None = invited.order_by(Message.id.desc()).scalar()
    return at
