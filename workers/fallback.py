"""A contact that refuses for good leaves nobody untold: the account's address is told instead (law 9)."""

from datetime import datetime

import peewee

from models.accounts import User
from models.enums import ContactType, NoticeState
from models.ids import message_id
from models.notices import Message, Notice
from models.users import ContactMethod

# How the key of a notice to the account's address ends (schedules/escalation.py).
INSTEAD = ":account:-"


def tell_account(message_row: int, now: datetime) -> bool:
    """Owe the pending notices of a message to the account's address, now; whether that was of any use.

    Not when it is that address that refused, when it is told of the same already, or for a test.
    """
    message = _message(message_row)
    contact, user = message.contact, message.user
    if contact is None or contact.value.lower() == user.email.lower() or message.reason is not None:
        return False
    pending = list(Notice.select().where(Notice.message == message.id, Notice.state == NoticeState.PENDING))
    known = _told_already(user, [notice.incident_id for notice in pending], now)
    owed = {_occasion(n.key): n for n in pending if _occasion(n.key) not in known}
    if owed:
        _owe(message, owed, now)
    return bool(owed)


def _message(row: int) -> Message:
    query = Message.select(Message, User, ContactMethod).join(User).switch(Message)
    found: Message = query.join(ContactMethod, peewee.JOIN.LEFT_OUTER).where(Message.id == row).get()
    return found


def _occasion(key: str) -> str:
    """A notice's key without contact and rule: who is told, of what, why (schedules/escalation.py)."""
    return key.rsplit(":", 2)[0]


def _told_already(user: User, incidents: list[int], now: datetime) -> set[str]:
    """What has been sent to the account's address or is about to be, and what was tried there instead."""
    query = (
        Notice.select(Notice.key, Notice.state, Notice.not_before)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .where(
            Notice.user == user,
            Notice.incident.in_(incidents),
            Notice.contact.is_null() | (peewee.fn.LOWER(ContactMethod.value) == user.email.lower()),
        )
    )
    return {
        _occasion(notice.key)
        for notice in query
        if notice.key.endswith(INSTEAD)
        or notice.state == NoticeState.SENT
        or (notice.state == NoticeState.PENDING and notice.not_before <= now)
    }


def _owe(refused: Message, owed: dict[str, Notice], now: datetime) -> None:
    name = refused.contact.name if refused.contact else "the contact"
    keys = {occasion: f"{occasion}{INSTEAD}" for occasion in owed}
    message = Message.create(
        message_id=message_id(list(keys.values())),
        account=refused.account_id,
        user=refused.user_id,
        channel=ContactType.EMAIL,
        created_at=now,
        next_at=now,
    )
    for occasion, notice in owed.items():
        Notice.create(
            key=keys[occasion],
            incident=notice.incident_id,
            user=notice.user_id,
            kind=notice.kind,
            reason=f"{notice.reason}; {name} refuses messages, so the account's address",
            not_before=now,
            message=message,
        )
