"""How often accounts lately asked for what may not be asked for often."""

import peewee

from models.store.base import JsonField, Table
from models.tables.accounts import Account


class RateLimit(Table):
    """`recent` are the moments of the latest requests that were served, in epoch seconds, oldest first."""

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    operation = peewee.CharField(max_length=64)
    recent = JsonField(default=list)

    class Meta:
        indexes = ((("account", "operation"), True),)
