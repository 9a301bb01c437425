"""Codes with which people reply to an SMS, and the wrong codes of a number.

A code of four characters is made from the id of its message and the signing key of links. So it is not
stored, and `tocsin rotate-link-key` makes all codes invalid. Four characters can be guessed in some hundred
thousand replies: a number may send few wrong ones.
"""

import hmac
from collections.abc import Collection
from datetime import datetime, timedelta

from models.domain.enums import ContactType, IncidentStatus, MessageStatus
from models.links import signed_links
from models.store.ids import digest
from models.store.store import store
from models.tables.callbacks import WrongReply
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod

# Characters that nobody mistakes for one another.
_CHARACTERS = "ACDEFGHJKMNPQRTVWXY34679"
LENGTH = 4
LIFE = timedelta(days=1)
# The newest messages of a number that a code is compared with.
MAX_MESSAGES = 200

MAX_WRONG = 5
WRONG_WITHIN = timedelta(minutes=10)


def make_reply_code(message_id: str) -> str:
    """Return the code of a message. Needs a connection."""
    return _make_code(signed_links.get_signer(), message_id)


def _make_code(signer: signed_links.Signer, message_id: str) -> str:
    number = int.from_bytes(signer.sign_reply(message_id)[:16], "big")
    found = []
    for _ in range(LENGTH):
        number, place = divmod(number, len(_CHARACTERS))
        found.append(_CHARACTERS[place])
    return "".join(found)


def find_message(contacts: Collection[ContactMethod], code: str, now: datetime) -> Message | None:
    """Return the newest SMS to one of these contacts with this code; None: the code is not valid."""
    try:
        signer = signed_links.get_reader()
    except signed_links.BadLink:
        return None
    query = Message.select(Message, ContactMethod).join(ContactMethod)
    sent = query.where(
        Message.contact.in_([contact.id for contact in contacts]),
        Message.channel == ContactType.SMS,
        Message.state == MessageStatus.SENT,
        Message.done_at > now - LIFE,
    )
    expected = code.upper().encode()
    for message in sent.order_by(Message.id.desc()).limit(MAX_MESSAGES):
        if hmac.compare_digest(_make_code(signer, message.message_id).encode(), expected):
            found: Message = message
            return found
    return None


def list_open(contacts: Collection[ContactMethod], now: datetime) -> list[tuple[int, Message]]:
    """Return the open incidents (row numbers) of the SMS to these contacts whose codes live, at most two.

    Each has its newest SMS.
    """
    query = (
        Message.select(Message, ContactMethod, Notification.incident.alias("incident_row"))
        .join(ContactMethod)
        .switch(Message)
        .join(Notification, on=Notification.message == Message.id)
        .join(Incident)
        .where(
            Message.contact.in_([contact.id for contact in contacts]),
            Message.channel == ContactType.SMS,
            Message.state == MessageStatus.SENT,
            Message.done_at > now - LIFE,
            Incident.status != IncidentStatus.RESOLVED,
        )
        .order_by(Message.id.desc())
        .limit(MAX_MESSAGES)
    )
    found: dict[int, Message] = {}
    for message in query.objects():
        found.setdefault(message.incident_row, message)
    return list(found.items())[:2]


def has_too_many_wrong(number: str, now: datetime) -> bool:
    """Return whether replies of this number are ignored now."""
    recent = WrongReply.select().where(
        WrongReply.number == digest(number), WrongReply.at > now - WRONG_WITHIN
    )
    return bool(recent.count() >= MAX_WRONG)


def record_wrong(number: str, now: datetime) -> None:
    """Count a wrong reply of this number, and delete those that count no more."""
    with store().write_transaction():
        WrongReply.delete().where(WrongReply.at <= now - WRONG_WITHIN).execute()
        WrongReply.create(number=digest(number), at=now)
