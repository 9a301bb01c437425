"""Routers of an account: their rules send alerts to integrations (contract section 4.7)."""

import peewee

from models.store.fields import JsonField, NumberedObject
from models.tables.accounts import Account


class GlobalRouter(NumberedObject):
    """A router. The alerts that arrive with its key form one lane, as for a service."""

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    is_enabled = peewee.BooleanField(default=True)
    integration_key = peewee.CharField(max_length=36, unique=True)


class RouterRule(NumberedObject):
    """A rule of a router. `actions` in order, each {unique_id, action_type, integration}.

    The actions are always read and replaced as a whole. `integration` is the unique_id of the target; None
    for an action without a target (contract 3.10).
    """

    router = peewee.ForeignKeyField(GlobalRouter, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    position = peewee.IntegerField()
    rule_json = peewee.TextField(default="")
    actions = JsonField(default=list)
