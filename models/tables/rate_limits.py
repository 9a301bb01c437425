"""Recent requests of accounts to operations with a rate limit."""

import peewee

from models.store.base import JsonField, Table
from models.tables.accounts import Account


class RateLimit(Table):
    """`recent`: the times of the last accepted requests, in epoch seconds, oldest first."""

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    operation = peewee.CharField(max_length=64)
    recent = JsonField(default=list)

    class Meta:
        indexes = ((("account", "operation"), True),)
