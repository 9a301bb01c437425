"""Notify a person at their own e-mail address when a message to a contact cannot be sent.

So nobody is left without a notification: invariant 9 (design, section 2). The message to the contact may be
retried. Then the two are tried in turn: only one of them is due, so that only one of them is sent.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

import peewee

from models.domain.channels import USER_EMAIL_CHANNEL, get_channel_name
from models.domain.enums import MessageStatus, NotificationStatus
from models.domain.identity import hash_message_id
from models.domain.reasons import Parameter, Reason, make_reason
from models.store.prepared import Prepared, in_bound
from models.store.store import store
from models.tables.accounts import User
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod
from runtime import metrics

# The end of the key of a notification to this address (schedules/escalation/person_notifications.py).
USER_EMAIL_SUFFIX = ":account:-"


class Cause(Enum):
    """Why the user's own e-mail address is notified instead of a contact."""

    REFUSED = "refused"
    FAILED = "failed"
    UNVERIFIED = "unverified"


def _explain(cause: Cause, contact: Parameter) -> Reason:
    match cause:
        case Cause.REFUSED:
            return make_reason("refused_elsewhere", contact=contact)
        case Cause.UNVERIFIED:
            return make_reason("unverified_elsewhere", contact=contact)
    return make_reason("failed_elsewhere", contact=contact)


class Alternate(NamedTuple):
    """The message that is tried in turn with another one. `outcome`: why it is not sent yet."""

    row: int
    is_pending: bool
    attempts: int
    outcome: Reason | None


def lock_alternate(message: int, instead_of: int | None) -> Alternate | None:
    """Lock a message and its alternate, not their notifications; return the alternate, None without one."""
    pair = Message.id.in_([message, instead_of]) if instead_of else _is_in_pair_of(message)
    found = list(store().for_update(Message.select().where(pair).order_by(Message.id)))
    others = [row for row in found if row.id != message]
    if not others:
        return None
    other = others[-1]
    return Alternate(other.id, other.state == MessageStatus.PENDING, other.attempts, other.outcome)


def _is_in_pair_of(message: int) -> peewee.Expression:
    return (Message.id == message) | (Message.instead_of == message)


def lock_notifications(messages: Iterable[int]) -> None:
    """Lock in the same order as models/write/notifications.py; otherwise the two can deadlock."""
    _NOTIFICATION_LOCKS.rows(messages=list(messages))


_NOTIFICATION_LOCKS = Prepared(
    lambda: store().for_update(
        Notification.select(Notification.id)
        .where(in_bound(Notification.message, "messages"))
        .order_by(Notification.id)
    )
)


def take_turns(alternate: Alternate, at: datetime, delay: timedelta) -> datetime:
    """Make the alternate due after the delay, or now if it was never tried. Return when."""
    due_at = at + delay if alternate.attempts else at
    pending = (Message.id == alternate.row) & (Message.state == MessageStatus.PENDING)
    Message.update(next_attempt_at=due_at).where(pending).execute()
    return due_at


def notify_user_email(
    message_row: int,
    now: datetime,
    cause: Cause,
    *,
    relay_set: bool = True,
    without: Collection[int] = (),
) -> Alternate | None:
    """Create the pending notifications of a message for the user's own e-mail address, due now.

    Return their message; None if none was created. `relay_set`: the relay of the channel is set. `without`:
    notifications that need none.

    Create none for a test message or an invitation, or if the message was for that address. Create none if
    no mail relay is set, or if that address has the same notification already.
    """
    message = load_message(message_row)
    contact, user = message.contact, message.user
    if message.requested_by is not None:
        return None
    if message.channel == USER_EMAIL_CHANNEL and (
        contact is None or not relay_set or contact.value.lower() == user.email.lower()
    ):
        return None
    name = contact.name if contact is not None else make_reason("deleted_contact")
    pending = list(
        Notification.select().where(
            Notification.message == message.id,
            Notification.state == NotificationStatus.PENDING,
            Notification.id.not_in(list(without)),
        )
    )
    known = _find_notified(user, [notification.incident_id for notification in pending], now)
    missing = {get_base_key(n.key): n for n in pending if get_base_key(n.key) not in known}
    return _create_notifications(message, missing, _explain(cause, name), now) if missing else None


def load_message(row: int) -> Message:
    """Load a message with its user and its contact."""
    query = Message.select(Message, User, ContactMethod).join(User).switch(Message)
    found: Message = query.join(ContactMethod, peewee.JOIN.LEFT_OUTER).where(Message.id == row).get()
    return found


def get_base_key(key: str) -> str:
    """Return a notification's key without contact and rule: incident, kind, reason key and person.

    The format is from schedules/escalation/person_notifications.py.
    """
    return key.rsplit(":", 2)[0]


def _find_notified(user: User, incidents: list[int], now: datetime) -> set[str]:
    """Return the base keys of what the user's own e-mail address has received or will receive soon.

    Include all notifications that this module has created for the address before, except those that were
    cancelled because the contact had accepted its message.
    """
    query = (
        Notification.select(Notification.key, Notification.state, Notification.not_before)
        .join(Message)
        .switch(Notification)
        .join(ContactMethod, peewee.JOIN.LEFT_OUTER)
        .where(
            Notification.user == user,
            Notification.incident.in_(incidents),
            Message.channel == USER_EMAIL_CHANNEL,
            Notification.contact.is_null() | (peewee.fn.LOWER(ContactMethod.value) == user.email.lower()),
        )
    )
    return {
        get_base_key(notification.key)
        for notification in query
        if (
            notification.key.endswith(USER_EMAIL_SUFFIX)
            and notification.state != NotificationStatus.CANCELLED
        )
        or notification.state == NotificationStatus.SENT
        or (notification.state == NotificationStatus.PENDING and notification.not_before <= now)
    }


def _name_message(keys: list[str], now: datetime) -> str:
    """Return the id of the message with these keys; another one if there was one before."""
    name = hash_message_id(keys)
    is_used = Message.select().where(Message.message_id == name).exists()
    return hash_message_id([*keys, now.isoformat()]) if is_used else name


def _create_notifications(
    failed: Message, missing: dict[str, Notification], cause: Reason, now: datetime
) -> Alternate:
    keys = {base_key: f"{base_key}{USER_EMAIL_SUFFIX}" for base_key in missing}
    message = Message.create(
        message_id=_name_message(list(keys.values()), now),
        account=failed.account_id,
        user=failed.user_id,
        channel=USER_EMAIL_CHANNEL,
        created_at=now,
        next_attempt_at=now,
        instead_of=failed.id,
    )
    cancelled = {
        row.key: row.id for row in Notification.select().where(Notification.key.in_(list(keys.values())))
    }
    for base_key, notification in missing.items():
        columns = {
            "key": keys[base_key],
            "incident": notification.incident_id,
            "user": notification.user_id,
            "kind": notification.kind,
            "reason": notification.reason.add(cause),
            "not_before": now,
            "message": message,
        }
        if keys[base_key] in cancelled:
            again = {**columns, "state": NotificationStatus.PENDING, "outcome": None, "done_at": None}
            Notification.update(again).where(Notification.id == cancelled[keys[base_key]]).execute()
        else:
            Notification.create(**columns)
    metrics.count_created([get_channel_name(USER_EMAIL_CHANNEL)] * len(missing))
    return Alternate(message.id, is_pending=True, attempts=0, outcome=None)
