"""Limit the messages to a user's own e-mail address that is not verified: some a day, then one for the rest.

The address may belong to a stranger. It still gets messages, because the person may be on call.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

import peewee

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind, MessageStatus
from models.domain.identity import hash_message_id
from models.domain.reasons import Reason, make_reason
from models.store.base import store
from models.store.ids import make_uuid
from models.tables.accounts import User
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod

DAILY_LIMIT = 10
DAY = timedelta(days=1)


def count_recent_messages(user: int, message: int, now: datetime) -> int:
    """Count the other messages to the user's own address that were sent within a day or are in flight."""
    recent = (Message.state == MessageStatus.SENT) & (Message.done_at > now - DAY)
    # A message that waits for more pieces of a large body is claimed too, but nobody sends it yet.
    is_held = Message.held_until.is_null(False) & (Message.claimed_until == Message.held_until)
    in_flight = (Message.state == MessageStatus.PENDING) & (Message.claimed_until > now) & ~is_held
    count: int = _select_to_own_address(user).where(Message.id != message, recent | in_flight).count()
    return count


def _select_to_own_address(user: int) -> "peewee.ModelSelect[Message]":
    query = Message.select().join(User).switch(Message).join(ContactMethod, peewee.JOIN.LEFT_OUTER)
    own = ContactMethod.id.is_null() | (peewee.fn.LOWER(ContactMethod.value) == peewee.fn.LOWER(User.email))
    return query.where(Message.user == user, Message.channel == USER_EMAIL_CHANNEL, own)


def move_to_daily(message_row: int, notifications: Collection[int], now: datetime, why: Reason) -> None:
    """Move notifications of a message to the pending daily message of its user; create a missing one."""
    message = Message.get_by_id(message_row)
    # Two workers that move notifications must not create two daily messages.
    store().for_update(User.select(User.id).where(User.id == message.user_id)).get()
    is_daily = (Message.user == message.user_id) & (Message.kind == MessageKind.DAILY)
    # A daily message in flight was rendered already.
    is_open = (Message.state == MessageStatus.PENDING) & Message.claimed_until.is_null()
    # The lock keeps it from being claimed and rendered before the notifications are in it.
    found = store().for_update(Message.select().where(is_daily, is_open)).first()
    daily = found or Message.create(
        message_id=hash_message_id([make_uuid()]),
        account=message.account_id,
        user=message.user_id,
        channel=USER_EMAIL_CHANNEL,
        kind=MessageKind.DAILY,
        created_at=now,
        outcome=make_reason("not_sent_yet").add(why),
        next_attempt_at=_get_due_time(message.user_id, is_daily, now),
    )
    Notification.update(message=daily).where(Notification.id.in_(list(notifications))).execute()


def _get_due_time(user: int, is_daily: peewee.Expression, now: datetime) -> datetime:
    """Return a day after the last daily message or, without one today, after the first message of the day."""
    sent = _select_to_own_address(user).where(
        Message.state == MessageStatus.SENT, Message.done_at > now - DAY
    )
    last_daily = sent.where(is_daily).order_by(Message.done_at.desc()).first()
    first = last_daily or sent.order_by(Message.done_at).first()
    at: datetime = now if first is None else first.done_at
    return at + DAY
