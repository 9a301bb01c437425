"""Contacts, notification rules and forwarding rules of users."""

import peewee

from models.store.fields import NumberedObject, Table, UtcField
from models.tables.accounts import User


class ContactMethod(NumberedObject):
    """A contact. `verified_value`: the value that was verified last; another `value` is not verified."""

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    contact_type = peewee.SmallIntegerField()
    value = peewee.CharField(max_length=320)
    verified_value = peewee.CharField(max_length=320, null=True)


class ContactCode(Table):
    """The code that was sent to `value` and verifies the contact. `attempts`: how many codes were entered."""

    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    value = peewee.CharField(max_length=320)
    code = peewee.CharField(max_length=6)
    expires_at = UtcField()
    attempts = peewee.IntegerField(default=0)


class ContactLink(Table):
    """A code that its owner sends from the provider: it links the contact with the address there."""

    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    digest = peewee.CharField(max_length=64, unique=True)
    expires_at = UtcField()


class ContactSecret(Table):
    """The secret with which webhooks to a contact are signed."""

    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    secret = peewee.CharField(max_length=64)
    created_at = UtcField()


class PushSubscription(Table):
    """Where and with which keys the browser of a contact receives messages (models/contacts/browsers.py)."""

    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    endpoint = peewee.TextField()
    p256dh = peewee.CharField(max_length=128)
    auth = peewee.CharField(max_length=64)
    created_at = UtcField()


class NotificationRule(NumberedObject):
    """Notify `user` through `contact`, `start_delay` minutes after an escalation names the user.

    The rule applies to incidents of one urgency.
    """

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    contact = peewee.ForeignKeyField(ContactMethod, on_delete="CASCADE")
    start_delay = peewee.IntegerField(default=0)
    urgency = peewee.SmallIntegerField()


class ForwardingRule(NumberedObject):
    """From `from_date` to `to_date` notify `to_user` instead of `user` (contract section 4.4)."""

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    to_user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    created_by = peewee.ForeignKeyField(User, on_delete="CASCADE", index=False)
    from_date = UtcField()
    to_date = UtcField()
    time_zone = peewee.CharField(max_length=64, default="UTC")
