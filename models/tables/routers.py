"""Account-wide entrances: a router's rules send alerts on to integrations (contract section 4.7)."""

import peewee

from models.store.base import JsonField, Table, UtcField
from models.tables.accounts import Account


class GlobalRouter(Table):
    """The unit of ordering for what comes in by its key: one lane, like a service's."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    is_enabled = peewee.BooleanField(default=True)
    integration_key = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()


class RouterRule(Table):
    """`actions` in order, each {unique_id, action_type, integration}: replaced and read as a whole.

    `integration` is the unique_id of the target, None for an action that has none (contract 3.10).
    """

    unique_id = peewee.CharField(max_length=36, unique=True)
    router = peewee.ForeignKeyField(GlobalRouter, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    position = peewee.IntegerField()
    rule_json = peewee.TextField(default="")
    actions = JsonField(default=list)
    creation_date = UtcField()
