"""Messages that invite a user to an account. They carry no notification and go to the user's own address."""

from datetime import datetime

from models.domain.channels import ACCOUNT_CHANNEL
from models.domain.enums import MessageKind
from models.domain.identity import hash_message_id
from models.store.ids import new_uuid
from models.tables.accounts import User
from models.tables.notifications import Message


def create_invitation(user: User, inviter: str, now: datetime) -> Message:
    """Store an invitation for this member, due now. `inviter` is a display name."""
    return Message.create(
        message_id=hash_message_id([f"invitation:{new_uuid()}"]),
        account=user.account_id,
        user=user,
        channel=ACCOUNT_CHANNEL,
        kind=MessageKind.INVITATION,
        reason=inviter,
        created_at=now,
        next_attempt_at=now,
    )


def find_last_invitation(user: User) -> datetime | None:
    """Return when the last invitation for this member was created; None: there was none."""
    query = Message.select(Message.created_at).where(
        Message.user == user, Message.kind == MessageKind.INVITATION
    )
    at: datetime | None = query.order_by(Message.id.desc()).scalar()
    return at
