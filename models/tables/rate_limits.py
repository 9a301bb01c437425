"""Recent requests of accounts to operations with a rate limit, and invalid tokens of client addresses."""

import peewee

from models.store.base import JsonField, Table, UtcField
from models.tables.accounts import Account


class RateLimit(Table):
    """`recent`: the times of the last accepted requests, in epoch seconds, oldest first.

    `used_at` is the last of them. Retention deletes rows that were not used for longer than any limit lasts.
    """

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    operation = peewee.CharField(max_length=64)
    recent = JsonField(default=list)
    used_at = UtcField(null=True)

    class Meta:
        indexes = ((("account", "operation"), True),)


class FailedAuthentication(Table):
    """How many invalid tokens came from an address in a minute (since 1970). Older rows are deleted."""

    address = peewee.CharField(max_length=64, unique=True)
    minute = peewee.IntegerField()
    count = peewee.IntegerField()
