"""Bundle the notifications that exceed the limit of a contact into one later message.

The limits are in models/domain/message_limits.py. The user's own address that is not verified has a limit for
each day, and its bundle is the message of the day.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

import peewee

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind, MessageStatus, NotificationStatus
from models.domain.identity import hash_message_id
from models.domain.message_limits import MESSAGE_LIMITS, UNVERIFIED_LIMIT, MessageLimit, get_limit
from models.domain.reasons import Reason, make_reason
from models.store.ids import make_uuid
from models.store.prepared import Prepared, bind
from models.store.store import store
from models.tables.accounts import User
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod
from runtime.settings import Settings

# The messages that are moved into a bundle in one transaction.
MAX_MOVED = 500
_ALTERNATE = Message.alias()
# When a bundle is due if other workers send so much now that its limit has room only by the records.
SHORT_DELAY = timedelta(seconds=10)


def count_recent_messages(
    user: int, channel: int, contact: int | None, message: int, since: datetime, now: datetime
) -> int:
    """Count the other messages to an address that were sent since a moment, or are in flight.

    `contact` None: the user's own e-mail address, also as the value of a contact.
    """
    names = {"user": user, "channel": channel, "message": message, "contact": contact}
    queries = (_SENT, _IN_FLIGHT) if contact is not None else (_SENT_TO_OWN, _IN_FLIGHT_TO_OWN)
    counts = [query.first(**names, since=since, now=now) for query in queries]
    return sum(found[0] for found in counts if found is not None)


def _select_to_contact(*columns: peewee.Node) -> peewee.ModelSelect:
    return Message.select(*columns).where(
        Message.user == bind("user"), Message.channel == bind("channel"), Message.contact == bind("contact")
    )


def _select_to_own(*columns: peewee.Node) -> peewee.ModelSelect:
    query = Message.select(*columns).join(User).switch(Message).join(ContactMethod, peewee.JOIN.LEFT_OUTER)
    own = ContactMethod.id.is_null() | (peewee.fn.LOWER(ContactMethod.value) == peewee.fn.LOWER(User.email))
    return query.where(Message.user == bind("user"), Message.channel == bind("channel"), own)


def _is_sent() -> peewee.Expression:
    is_other = Message.id != bind("message")
    return is_other & (Message.state == MessageStatus.SENT) & (Message.done_at > bind("since"))


def _is_in_flight() -> peewee.Expression:
    # A message that waits for more pieces of a large body is claimed too, but nobody sends it yet.
    is_held = Message.held_until.is_null(False) & (Message.claimed_until == Message.held_until)
    is_claimed = (Message.state == MessageStatus.PENDING) & (Message.claimed_until > bind("now")) & ~is_held
    return is_claimed & (Message.id != bind("message"))


_COUNT = peewee.fn.COUNT(Message.id)
_SENT = Prepared(lambda: _select_to_contact(_COUNT).where(_is_sent()))
_IN_FLIGHT = Prepared(lambda: _select_to_contact(_COUNT).where(_is_in_flight()))
_SENT_TO_OWN = Prepared(lambda: _select_to_own(_COUNT).where(_is_sent()))
_IN_FLIGHT_TO_OWN = Prepared(lambda: _select_to_own(_COUNT).where(_is_in_flight()))


def list_bundled_with(message: int, now: datetime) -> list[int]:
    """Lock and return the other messages that were due to the same contact, as many as one bundle takes.

    Messages that were tried already keep their place.
    """
    first = Message.get_by_id(message)
    others = Message.select(Message.id).where(
        Message.user == first.user_id,
        Message.channel == first.channel,
        Message.state == MessageStatus.PENDING,
        _has_contact(first.contact_id),
        Message.id != message,
        Message.kind.is_null(),
        Message.requested_by.is_null(),
        Message.instead_of.is_null(),
        Message.failed_over_at.is_null(),
        Message.attempts == 0,
        Message.claimed_until.is_null(),
        Message.next_attempt_at <= now,
    )
    locked = store().for_update(others.order_by(Message.id).limit(MAX_MOVED), skip_locked=True)
    return [row.id for row in locked]


def _has_contact(contact: int | None) -> peewee.Expression:
    condition: peewee.Expression = (
        Message.contact.is_null() if contact is None else Message.contact == contact
    )
    return condition


def move_to_bundle(
    message_row: int, notifications: Collection[int], others: Collection[int], now: datetime, why: Reason
) -> None:
    """Move notifications into the pending bundle of their contact; create a missing one.

    `notifications` are those of the message, `others` are more messages whose notifications are moved.
    """
    _move(message_row, notifications, others, now, why, MessageKind.BUNDLE)


def move_to_daily(message_row: int, notifications: Collection[int], now: datetime, why: Reason) -> None:
    """Move notifications into the message of the day of a user whose own address is not verified."""
    _move(message_row, notifications, (), now, why, MessageKind.DAILY)


def _move(
    message_row: int,
    notifications: Collection[int],
    others: Collection[int],
    now: datetime,
    why: Reason,
    kind: MessageKind,
) -> None:
    message = Message.get_by_id(message_row)
    contact = message.contact_id if kind is MessageKind.BUNDLE else None
    # Two workers that move notifications must not create two bundles.
    store().for_update(User.select(User.id).where(User.id == message.user_id)).get()
    # The lock keeps it from being claimed and rendered before the notifications are in it.
    bundle = store().for_update(_select_open(message, contact, kind)).first() or Message.create(
        message_id=hash_message_id([make_uuid()]),
        account=message.account_id,
        user=message.user_id,
        contact=contact,
        channel=message.channel,
        kind=kind,
        created_at=now,
        outcome=make_reason("not_sent_yet").add(why),
        next_attempt_at=_get_due_time(message, contact, kind, now),
    )
    # What joins after the fail-over to another contact fails over, too, at the next pass.
    if bundle.failed_over_at is not None:
        Message.update(failed_over_at=None, failed_over=None).where(Message.id == bundle.id).execute()
    Notification.update(message=bundle).where(Notification.id.in_(list(notifications))).execute()
    if others:
        Notification.update(message=bundle).where(
            Notification.message.in_(list(others)), Notification.state == NotificationStatus.PENDING
        ).execute()
        moved = why.add(make_reason("moved_to_bundle"))
        cancelled = {"state": MessageStatus.CANCELLED, "outcome": moved, "done_at": now}
        Message.update(cancelled).where(Message.id.in_(list(others))).execute()


def _select_open(message: Message, contact: int | None, kind: MessageKind) -> peewee.ModelSelect:
    """Select the pending bundle. One in flight was rendered already."""
    return Message.select().where(
        Message.user == message.user_id,
        Message.channel == message.channel,
        Message.state == MessageStatus.PENDING,
        Message.kind == kind,
        _has_contact(contact),
        Message.claimed_until.is_null(),
        # What joins a bundle that was tried could be lost with it.
        Message.attempts == 0,
        # A mail in place of it has the notifications of that time only.
        ~peewee.fn.EXISTS(_ALTERNATE.select(peewee.SQL("1")).where(_ALTERNATE.instead_of == Message.id)),
    )


def _get_due_time(message: Message, contact: int | None, kind: MessageKind, now: datetime) -> datetime:
    """Return when the window of the limit has room again.

    The message of the day is due a day after the last one or, without one, after the first message.
    """
    limit = UNVERIFIED_LIMIT if kind is MessageKind.DAILY else _get_limit(message.channel)
    sent = _list_sent(message, contact, now - limit.window)
    if kind is MessageKind.DAILY:
        last = [at for at, other in sent if other == kind][:1] or [at for at, _ in sent][-1:] or [now]
        return last[0] + limit.window
    return get_room_at([at for at, _ in sent], limit, now)


def get_room_at(sent: Collection[datetime], limit: MessageLimit, now: datetime) -> datetime:
    """Return when fewer messages than the limit are in its window. `sent`: the times of the sent ones."""
    times = sorted(sent, reverse=True)
    return times[limit.most - 1] + limit.window if len(times) >= limit.most else now + SHORT_DELAY


def _list_sent(message: Message, contact: int | None, since: datetime) -> list[tuple[datetime, str | None]]:
    """Return times and kinds of the messages that were sent to this address, the last one first."""
    query = Message.select(Message.done_at, Message.kind).join(User).switch(Message)
    query = query.join(ContactMethod, peewee.JOIN.LEFT_OUTER)
    if contact is not None:
        same = Message.contact == contact
    else:
        is_own = peewee.fn.LOWER(ContactMethod.value) == peewee.fn.LOWER(User.email)
        same = ContactMethod.id.is_null() | is_own
    sent = query.where(
        Message.user == message.user_id,
        Message.channel == message.channel,
        Message.state == MessageStatus.SENT,
        Message.done_at > since,
        same,
    )
    return list(sent.order_by(Message.done_at.desc()).tuples())


_mail_limit = MESSAGE_LIMITS[USER_EMAIL_CHANNEL].most


def configure(settings: Settings) -> None:
    """Use these settings; once, when a process starts."""
    global _mail_limit
    _mail_limit = settings.mail_limit


def _get_limit(channel: int) -> MessageLimit:
    limit = get_limit(channel)
    return limit._replace(most=_mail_limit) if channel == USER_EMAIL_CHANNEL else limit


def find_limit(
    user: int, channel: int, contact: int | None, message: int, now: datetime, *, is_urgent: bool = True
) -> MessageLimit | None:
    """Return the limit of a contact if it is reached; half of it for a message that is not urgent."""
    limit = _get_limit(channel)
    if not is_urgent:
        limit = limit._replace(most=max(1, limit.most // 2))
    count = count_recent_messages(user, channel, contact, message, now - limit.window, now)
    return limit if count >= limit.most else None


def is_over_daily_limit(user: int, message: int, now: datetime) -> bool:
    """Return whether the user's own address got as many messages today as an unverified one may get."""
    since = now - UNVERIFIED_LIMIT.window
    count = count_recent_messages(user, USER_EMAIL_CHANNEL, None, message, since, now)
    return count >= UNVERIFIED_LIMIT.most
