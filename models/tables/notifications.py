"""Notifications, the outgoing messages that carry them, delivery attempts, and changes of sent messages."""

import peewee

from models.store.fields import ReasonField, Table, UtcField
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.users import ContactMethod, NotificationRule


class Message(Table):
    """An outgoing message to one contact, with the notifications of one transaction or receipt for it.

    - `message_id`: the hash of the sorted keys of the notifications in it when it was created. For a
      notification that is created again after it was cancelled, the hash includes its due time.
    - `contact`: None for the user's own e-mail address.
    - `claimed_until`: until then only one worker may send the message. A killed worker blocks the message for
      some seconds only. A message that is held is claimed too, see `held_until`. A record of an attempt sets
      it to None, so a past time means: the message may have been sent, and nobody recorded it.
    - `claimed_by`: the number of the process that claimed it last (models/processes/claim_holders.py). When
      it is known to be dead, its claims end at once. None: nobody knows, or nobody claimed it yet.
    - `kind`: a MessageKind; None for a test message, and for notifications without a special kind.
    - `pieces_of`: the work whose pieces may share the message: a receipt in a service; else None.
    - `group_key`: the hash of what all notifications of a shared message have in common; in a mail about a
      swap of shifts, the unique_id of the swap.
    - `held_until`: until then the message waits for more pieces, as long as `claimed_until` is the same. A
      claim by a worker that sends the message changes `claimed_until`: then no piece can join any more.
    - `is_extended`: each later piece moves `held_until`.
    - `requested_by`: for a message without notifications, the name of the person who requested it.
    - `requested_address`: for a test message, the address for which it was requested; else None.
    - `instead_of`: only for the user's own e-mail address. The message to a contact that could not be sent.
      The two are tried in turn until one of them is sent (schedules/timers/retries.py).
    - `failed_over_at`: when the message could not be sent and Tocsin looked for another contact of the
      person, once. `failed_over`: whether there was one.
    """

    message_id = peewee.CharField(max_length=64, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    user = peewee.ForeignKeyField(User, on_delete="CASCADE", index=False)
    contact = peewee.ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL")
    channel = peewee.SmallIntegerField()
    kind = peewee.CharField(max_length=16, null=True)
    requested_by = peewee.TextField(null=True)
    requested_address = peewee.CharField(max_length=320, null=True)
    created_at = UtcField()
    next_attempt_at = UtcField()
    claimed_until = UtcField(null=True)
    claimed_by = peewee.IntegerField(null=True)
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
    failed_over_at = UtcField(null=True)
    failed_over = peewee.BooleanField(null=True)


Message.declare_index("message_of_pieces", "pieces_of", where="pieces_of IS NOT NULL")
# To count the recent messages of a user, and to delete all of them.
Message.declare_index("message_of_user", "user", "channel", "state", "done_at")
# Accounts take turns, so the messages of each are found without reading those of the others.
Message.declare_index("message_due", "channel", "account", "next_attempt_at", where="state = 0")
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
    """Return the reason key in the key of a notification (schedules/escalation/person_notifications.py)."""
    return key.split(":", 2)[2].rsplit(":", 3)[0]


class Attempt(Table):
    """A delivery attempt of a message, with its outcome.

    - `provider`: who answered, for example "twilio"; None: the channel has one relay only.
    - `provider_id`: the provider's id of the message. With it, a callback finds the attempt.
    - `provider_state`: what the provider reported later, for example "delivered"; `reported_at`: when.
    """

    message = peewee.ForeignKeyField(Message, on_delete="CASCADE")
    at = UtcField()
    outcome = peewee.CharField(max_length=16)
    detail = ReasonField()
    milliseconds = peewee.IntegerField()
    provider = peewee.CharField(max_length=32, null=True)
    provider_id = peewee.CharField(max_length=128, null=True)
    provider_state = peewee.CharField(max_length=32, null=True)
    reported_at = UtcField(null=True)


Attempt.declare_index("attempt_provider", "provider_id", where="provider_id IS NOT NULL")


class MessageUpdate(Table):
    """A sent message (row number) that must be changed to show the current state of its incidents.

    - `version`: how often the state changed since the row was written. A change that was sent for an older
      version does not delete the row.
    - `due_at`: not before this time. While a worker sends the change, this is the end of its claim.
    - `claimed_by`: the number of the process that claimed it last, as of a message; None: nobody sends it.
    - `attempts`: how often the change failed.

    The message is no foreign key: a lock on the message, taken after those on its notifications, could
    deadlock with a delivery.
    """

    message_row = peewee.BigIntegerField(unique=True)
    channel = peewee.SmallIntegerField()
    version = peewee.IntegerField(default=1)
    due_at = UtcField()
    claimed_by = peewee.IntegerField(null=True)
    attempts = peewee.IntegerField(default=0)


MessageUpdate.declare_index("message_update_due", "channel", "due_at")
