"""Incidents and the log of everything that moved them."""

import peewee

from models.store.base import Table, UtcField
from models.tables.accounts import Account, User
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team


class Incident(Table):
    unique_id = peewee.CharField(max_length=22, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    incident_number = peewee.IntegerField()
    incident_key = peewee.CharField(max_length=22)
    # A deleted service keeps its incidents (contract section 6); its team still owns them.
    service = peewee.ForeignKeyField(Service, null=True, on_delete="SET NULL")
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    title = peewee.TextField()
    summary = peewee.TextField(default="")
    status = peewee.SmallIntegerField()
    urgency = peewee.SmallIntegerField()
    assigned_to = peewee.ForeignKeyField(User, null=True)
    escalation_policy = peewee.ForeignKeyField(EscalationPolicy, null=True, on_delete="SET NULL")
    sla = peewee.ForeignKeyField(Sla, null=True, on_delete="SET NULL")
    team_priority = peewee.ForeignKeyField(Priority, null=True, on_delete="SET NULL")
    creation_date = UtcField()
    acknowledged_date = UtcField(null=True)
    resolved_date = UtcField(null=True)
    context_window_start = UtcField(null=True)
    context_window_end = UtcField(null=True)
    # Opened while time-based collation was on: gathers alerts of other entities for a while.
    collecting = peewee.BooleanField(default=False)
    # Merged into another incident: this one is its child, silent, and ends with it.
    parent = peewee.ForeignKeyField("self", null=True, on_delete="SET NULL", index=False)
    # Asleep, from when until when; both None when awake.
    snoozed_at = UtcField(null=True)
    snoozed_till = UtcField(null=True)
    # Escalation: `chain` counts (re)starts; `next_step` counts the steps already taken, all passes together;
    # `reached` is whether any of them named anybody, `chain_over` whether the last of them was taken.
    escalating = peewee.BooleanField(default=True)
    escalation_run = peewee.IntegerField(default=1)
    run_started_at = UtcField()
    next_step = peewee.IntegerField(default=0)
    paged_someone = peewee.BooleanField(default=False)
    exhausted = peewee.BooleanField(default=False)
    # SLA: since when its promises run (creation, or its reopening), and when somebody first answered.
    sla_started_at = UtcField(null=True)
    sla_acknowledged_at = UtcField(null=True)
    # Since when its time-outs count: its reopening, waking or unmerging, the last of them.
    timeouts_started_at = UtcField(null=True)

    class Meta:
        indexes = ((("account", "incident_number"), True),)


# All that a list may be limited by, in its order (web/incidents/filters.py): whatever is asked for, in
# whatever combination, is found here without reading rows, in at most one walk over the account's part.
Incident.add_index(
    Incident.index(
        Incident.account,
        Incident.creation_date,
        Incident.id,
        Incident.status,
        Incident.team,
        Incident.service,
        Incident.assigned_to,
        Incident.escalation_policy,
        Incident.sla,
        Incident.team_priority,
        name="incident_listed",
    )
)
Incident.add_index(
    Incident.index(Incident.service, where=peewee.SQL("status < 3"), name="incident_open_of_service")
)
Incident.add_index(
    Incident.index(Incident.parent, where=peewee.SQL("parent_id IS NOT NULL"), name="incident_merged")
)
Incident.add_index(
    Incident.index(
        Incident.service,
        unique=True,
        where=peewee.SQL("status < 3 AND collecting"),
        name="incident_one_collecting",
    )
)


class IncidentLog(Table):
    """What happened to an incident, when, by whom, why: one row a happening, never changed."""

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    at = UtcField()
    what = peewee.CharField(max_length=32)
    reason = peewee.TextField()
    actor_kind = peewee.CharField(max_length=8)
    user = peewee.ForeignKeyField(User, null=True)
    # The alert behind it, by its unique_id.
    alert = peewee.CharField(max_length=22, null=True)


class IncidentTag(Table):
    """A team's tag on an incident, once."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    team_tag = peewee.ForeignKeyField(Tag, on_delete="CASCADE")
    creation_date = UtcField()

    class Meta:
        indexes = ((("incident", "team_tag"), True),)


class IncidentNote(Table):
    """What somebody, or a rule (`user` is None), has to say about an incident."""

    unique_id = peewee.CharField(max_length=22, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, null=True)
    note = peewee.TextField()
    creation_date = UtcField()


class IncidentResponder(Table):
    """Somebody, or whom a policy names, who was asked to help, once; `response_status` as in contract 3.8."""

    unique_id = peewee.CharField(max_length=22, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    user = peewee.ForeignKeyField(User, null=True)
    escalation_policy = peewee.ForeignKeyField(EscalationPolicy, null=True, on_delete="SET NULL")
    subject = peewee.TextField(null=True)
    message = peewee.TextField(null=True)
    response_status = peewee.SmallIntegerField(default=3)
    creation_date = UtcField()

    class Meta:
        indexes = ((("incident", "user"), True), (("incident", "escalation_policy"), True))


class IncidentAssignment(Table):
    """Who has a role of the team's in an incident: one person for each role."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    role = peewee.ForeignKeyField(IncidentRole, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User)
    creation_date = UtcField()

    class Meta:
        indexes = ((("incident", "role"), True),)


class IncidentTask(Table):
    """Something to do about an incident; `status` as models.enums.TaskStatus."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    title = peewee.TextField()
    description = peewee.TextField(default="")
    status = peewee.SmallIntegerField(default=0)
    due_at = UtcField(null=True)
    assigned_to = peewee.ForeignKeyField(User, null=True)
    role = peewee.ForeignKeyField(IncidentRole, null=True, on_delete="SET NULL")
    creation_date = UtcField()
