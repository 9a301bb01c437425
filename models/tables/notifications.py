"""What somebody is owed word of (Notice), what carries it (Message), and each try to send it (Attempt)."""

import peewee

from models.store.base import Table, UtcField
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.users import ContactMethod, NotificationRule


class Message(Table):
    """One sending to one contact, carrying every notice that one transaction owed there.

    `message_id` is the hash of the notices' sorted keys (where one is owed again, with when). `contact` is
    null for the address of the account itself. `claimed_until` keeps two workers from sending at once; it
    outlives a killed one by seconds. A message that carries no notice is of a `kind` of its own (None: it
    only tries a contact), and `reason` says who asked.
    """

    message_id = peewee.CharField(max_length=64, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    contact = peewee.ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL")
    channel = peewee.SmallIntegerField()
    kind = peewee.CharField(max_length=16, null=True)
    reason = peewee.TextField(null=True)
    created_at = UtcField()
    next_attempt_at = UtcField()
    claimed_until = UtcField(null=True)
    first_attempt_at = UtcField(null=True)
    attempts = peewee.IntegerField(default=0)
    state = peewee.SmallIntegerField(default=0)
    outcome = peewee.TextField(null=True)
    done_at = UtcField(null=True)


Message.add_index(
    Message.index(Message.channel, Message.next_attempt_at, where=peewee.SQL("state = 0"), name="message_due")
)
# Of each channel the last one that was sent, and what could not be since: whether its mail goes out at all.
Message.add_index(
    Message.index(Message.channel, Message.done_at, where=peewee.SQL("state = 1"), name="message_sent")
)
Message.add_index(
    Message.index(Message.channel, Message.done_at, where=peewee.SQL("state = 3"), name="message_failed")
)


class Notification(Table):
    """One reason to tell one person by one contact; `key` makes it unique for ever (law 8)."""

    key = peewee.CharField(max_length=255, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    contact = peewee.ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL", index=False)
    rule = peewee.ForeignKeyField(NotificationRule, null=True, on_delete="SET NULL", index=False)
    kind = peewee.CharField(max_length=16)
    reason = peewee.TextField()
    not_before = UtcField()
    state = peewee.SmallIntegerField(default=0)
    outcome = peewee.TextField(null=True)
    done_at = UtcField(null=True)
    message = peewee.ForeignKeyField(Message, on_delete="CASCADE")


def get_reason_key(key: str) -> str:
    """What a notice is owed for, out of its key (schedules/escalation/notifications.py says what else is in
    it)."""
    return key.split(":", 2)[2].rsplit(":", 3)[0]


class Attempt(Table):
    """One try to send a message, and how it ended."""

    message = peewee.ForeignKeyField(Message, on_delete="CASCADE")
    at = UtcField()
    outcome = peewee.CharField(max_length=16)
    detail = peewee.TextField()
    milliseconds = peewee.IntegerField()
