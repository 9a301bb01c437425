"""Notifications, the outgoing messages that carry them, and the delivery attempts."""

import peewee

from models.store.base import ReasonField, Table, UtcField
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.users import ContactMethod, NotificationRule


class Message(Table):
    """An outgoing message to one contact, with the notifications of one transaction or receipt for it.

    - `message_id`: the hash of the sorted keys of the notifications in it when it was created. For a
      notification that is created again after it was cancelled, the hash includes its due time.
    - `contact`: None for the user's own e-mail address.
    - `claimed_until`: until then only one worker may send the message. A killed worker blocks the message for
      some seconds only. A message that is held is claimed too, see `held_until`.
    - `kind`: a MessageKind; None for a test message, and for notifications without a special kind.
    - `pieces_of`: the work whose pieces may share the message: a receipt in a service; else None.
    - `group_key`: the hash of what all notifications of a shared message have in common.
    - `held_until`: until then the message waits for more pieces, as long as `claimed_until` is the same. A
      claim by a worker that sends the message changes `claimed_until`: then no piece can join any more.
    - `is_extended`: each later piece moves `held_until`.
    - `requested_by`: for a message without notifications, the name of the person who requested it.
    - `requested_address`: for a test message, the address for which it was requested; else None.
    - `instead_of`: only for the user's own e-mail address. The message to a contact that could not be sent.
      The two are tried in turn until one of them is sent (schedules/timers/retries.py).
    """

    message_id = peewee.CharField(max_length=64, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    contact = peewee.ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL")
    channel = peewee.SmallIntegerField()
    kind = peewee.CharField(max_length=16, null=True)
    requested_by = peewee.TextField(null=True, column_name="reason")
    requested_address = peewee.CharField(max_length=320, null=True)
    created_at = UtcField()
    next_attempt_at = UtcField()
    claimed_until = UtcField(null=True)
    first_attempt_at = UtcField(null=True)
    attempts = peewee.IntegerField(default=0)
    state = peewee.SmallIntegerField(default=0)
    outcome = ReasonField(null=True)
    done_at = UtcField(null=True)
    instead_of = peewee.ForeignKeyField("self", null=True, on_delete="SET NULL", index=False)
    pieces_of = peewee.CharField(max_length=64, null=True)
    group_key = peewee.CharField(max_length=64, null=True)
    held_until = UtcField(null=True)
    is_extended = peewee.BooleanField(default=False)


Message.declare_index("message_of_pieces", "pieces_of", where="pieces_of IS NOT NULL")
Message.declare_index("message_due", "channel", "next_attempt_at", where="state = 0")
# For each channel: the last sent message and the failed ones since then, to see whether the channel works.
Message.declare_index("message_sent", "channel", "done_at", where="state = 1")
Message.declare_index("message_failed", "channel", "done_at", where="state = 3")
Message.declare_index("message_instead_of", "instead_of", where="instead_of_id IS NOT NULL")


class Notification(Table):
    """One reason to notify one person through one contact.

    `key` is unique, so that nobody is notified twice for one reason (invariant 8, design, section 2).
    """

    key = peewee.CharField(max_length=255, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    contact = peewee.ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL", index=False)
    rule = peewee.ForeignKeyField(NotificationRule, null=True, on_delete="SET NULL", index=False)
    kind = peewee.CharField(max_length=16)
    reason = ReasonField()
    not_before = UtcField()
    state = peewee.SmallIntegerField(default=0)
    outcome = ReasonField(null=True)
    done_at = UtcField(null=True)
    message = peewee.ForeignKeyField(Message, on_delete="CASCADE")


def get_reason_key(key: str) -> str:
    """Return the reason key in the key of a notification (see schedules/escalation/notifications.py)."""
    return key.split(":", 2)[2].rsplit(":", 3)[0]


class Attempt(Table):
    """A delivery attempt of a message, with its outcome."""

    message = peewee.ForeignKeyField(Message, on_delete="CASCADE")
    at = UtcField()
    outcome = peewee.CharField(max_length=16)
    detail = ReasonField()
    milliseconds = peewee.IntegerField()
