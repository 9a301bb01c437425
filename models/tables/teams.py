"""Teams, their members, roles, priorities, tags, SLAs and escalation policies."""

from typing import TypedDict

import peewee

from models.store.fields import JsonField, NumberedObject, NumberedTable, UtcField
from models.tables.accounts import Account, User


class Team(NumberedObject):
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    owner = peewee.ForeignKeyField(User)
    # Permissions of account members outside the team (contract 3.15).
    account_permissions = JsonField(default=list)


class TeamMember(NumberedTable):
    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    role = peewee.SmallIntegerField()
    joining_date = UtcField()

    class Meta:
        indexes = ((("team", "user"), True),)


class IncidentRole(NumberedObject):
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    title = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    rank = peewee.IntegerField(default=1)


class Priority(NumberedObject):
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    color = peewee.CharField(max_length=64, default="")


class Tag(NumberedObject):
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    color = peewee.CharField(max_length=64, default="")


class StoredResponder(TypedDict):
    user: str
    unique_id: str


class StoredSlaEscalation(TypedDict):
    """An escalation of an SLA, as in contract 3.11."""

    unique_id: str
    time: int
    type: int
    responders: list[StoredResponder]


class Sla(NumberedObject):
    """An SLA. Times in seconds; `escalations` is a list of StoredSlaEscalation."""

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    is_active = peewee.BooleanField(default=True)
    acknowledge_time = peewee.IntegerField(null=True)
    resolve_time = peewee.IntegerField(null=True)
    escalations = JsonField(default=list)


class StoredTarget(TypedDict):
    target_type: int
    target_id: str
    position: int


class StoredStep(TypedDict):
    """A step of a policy (contract 3.5). `delay` is in minutes after the start of the escalation run."""

    unique_id: str
    delay: int
    position: int
    targets: list[StoredTarget]


class EscalationPolicy(NumberedObject):
    """An escalation policy. `rules` is a list of StoredStep in order.

    The steps are one column because they are always read and replaced as a whole.
    """

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    description = peewee.TextField(default="")
    rules = JsonField(default=list)
    repeat_policy = peewee.IntegerField(default=0)
    move_to_next = peewee.BooleanField(default=True)
    global_ep = peewee.BooleanField(default=False)
    assignment_settings = JsonField(default=dict)
    # Round robin: the position of the target of the first step that gets the next incident.
    next_target = peewee.IntegerField(default=0)
