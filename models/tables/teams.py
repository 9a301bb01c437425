"""Teams, their members, and the labels and promises a team keeps for its incidents."""

import peewee

from models.store.base import JsonField, Table, UtcField
from models.tables.accounts import Account, User


class Team(Table):
    unique_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    owner = peewee.ForeignKeyField(User)
    # What account members outside the team may do (contract 3.15).
    account_permissions = JsonField(default=list)
    creation_date = UtcField()


class TeamMember(Table):
    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    role = peewee.SmallIntegerField()
    joining_date = UtcField()

    class Meta:
        indexes = ((("team", "user"), True),)


class IncidentRole(Table):
    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    title = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    rank = peewee.IntegerField(default=1)
    creation_date = UtcField()


class Priority(Table):
    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    color = peewee.CharField(max_length=64, default="")
    creation_date = UtcField()


class Tag(Table):
    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    color = peewee.CharField(max_length=64, default="")
    creation_date = UtcField()


class Sla(Table):
    """Times in seconds; `escalations` as contract 3.11 gives them (type, time, responders)."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    is_active = peewee.BooleanField(default=True)
    acknowledge_time = peewee.IntegerField(null=True)
    resolve_time = peewee.IntegerField(null=True)
    escalations = JsonField(default=list)
    creation_date = UtcField()


class EscalationPolicy(Table):
    """`rules` are the steps in order, each {unique_id, delay, position, targets}: contract 3.5.

    They are replaced as a whole and read as a whole, so they live in one column; `delay` is in
    minutes after the chain began.
    """

    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    description = peewee.TextField(default="")
    rules = JsonField(default=list)
    repeat_policy = peewee.IntegerField(default=0)
    move_to_next = peewee.BooleanField(default=True)
    global_ep = peewee.BooleanField(default=False)
    assignment_settings = JsonField(default=dict)
    # Round robin: the place of the target of the first step to whom the next incident goes.
    next_target = peewee.IntegerField(default=0)
    creation_date = UtcField()
