"""Incidents, their log, and rows that belong to an incident."""

import peewee

from models.store.fields import ObjectTable, ReasonField, Table, UtcField
from models.tables.accounts import Account, User
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag, Team


class Incident(Table):
    unique_id = peewee.CharField(max_length=22, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    incident_number = peewee.IntegerField()
    incident_key = peewee.CharField(max_length=22)
    # None after the service was deleted (contract section 6); the team still owns the incident.
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
    # Whether time-based collation still adds alerts of other entities to this incident.
    collecting = peewee.BooleanField(default=False)
    # The incident that this one is merged into. A child notifies nobody and is resolved with its parent.
    parent = peewee.ForeignKeyField("self", null=True, on_delete="SET NULL", index=False)
    # The snooze: from when until when; both None if the incident is not snoozed.
    snoozed_at = UtcField(null=True)
    snoozed_till = UtcField(null=True)
    # `escalation_run` counts the starts of the policy. `next_step` counts the steps done in this run, over
    # all repetitions. `paged_someone`: whether a step notified anybody. `exhausted`: no step is left.
    escalating = peewee.BooleanField(default=True)
    escalation_run = peewee.IntegerField(default=1)
    run_started_at = UtcField()
    next_step = peewee.IntegerField(default=0)
    paged_someone = peewee.BooleanField(default=False)
    exhausted = peewee.BooleanField(default=False)
    # SLA targets: when they started (creation or reopening), and when the incident was first acknowledged.
    sla_started_at = UtcField(null=True)
    sla_acknowledged_at = UtcField(null=True)
    # The start of the timeouts: the last reopening, end of a snooze or unmerging.
    timeouts_started_at = UtcField(null=True)

    class Meta:
        indexes = ((("account", "incident_number"), True),)


# The columns that no decision changes after the creation of an incident. A deleted service leaves None.
FIXED = frozenset({
    "unique_id", "account", "incident_key", "service", "team", "creation_date",
    "context_window_start", "context_window_end",
})  # fmt: skip

# All columns that a list can filter by, in the order of the list (web/incidents/filters.py). Any combination
# of filters needs no table rows, and at most one scan of the account's part of the index. Most lists are of
# open incidents, which are few: they have an index of their own.
LISTED = (
    "account",
    "creation_date",
    "id",
    "status",
    "team",
    "service",
    "assigned_to",
    "escalation_policy",
    "sla",
    "team_priority",
)
Incident.declare_index("incident_listed", *LISTED)
# Not `status < 3`: PostgreSQL would read all of this index for other queries of open incidents, as long as
# its statistics say that there are none. It does not know that the two conditions are the same.
Incident.declare_index("incident_listed_open", *LISTED, where="status <= 2")
Incident.declare_index("incident_open_of_service", "service", where="status < 3")
Incident.declare_index("incident_merged", "parent", where="parent_id IS NOT NULL")
Incident.declare_index("incident_one_collecting", "service", where="status < 3 AND collecting", unique=True)


class IncidentGroup(Table):
    """The values of the alert that opened an incident, by a grouping policy of its service, as a digest.

    Later alerts with the same digest join the incident (models.domain.facts.GroupKey).
    """

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    digest = peewee.CharField(max_length=64, index=True)
    created_at = UtcField()


class IncidentLog(Table):
    """One change of an incident: time, kind, reason and author. Rows never change."""

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    at = UtcField()
    what = peewee.CharField(max_length=32)
    reason = ReasonField()
    author_kind = peewee.CharField(max_length=8)
    user = peewee.ForeignKeyField(User, null=True)
    # The unique_id of the alert that caused the change.
    alert = peewee.CharField(max_length=22, null=True)


class IncidentTag(ObjectTable):
    """A team's tag on an incident."""

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    team_tag = peewee.ForeignKeyField(Tag, on_delete="CASCADE")

    class Meta:
        indexes = ((("incident", "team_tag"), True),)


class IncidentNote(Table):
    """A note on an incident, by a user or by a rule (`user` is None)."""

    unique_id = peewee.CharField(max_length=22, unique=True)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, null=True)
    note = peewee.TextField()
    creation_date = UtcField()


class IncidentResponder(Table):
    """A user or a policy that was asked to help; `response_status` as in contract 3.8."""

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


class IncidentAssignment(ObjectTable):
    """The user who has a role of the team in an incident: one user for each role."""

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    role = peewee.ForeignKeyField(IncidentRole, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User)

    class Meta:
        indexes = ((("incident", "role"), True),)


class IncidentTask(ObjectTable):
    """A task of an incident; `status` is a models.domain.enums.TaskStatus."""

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    title = peewee.TextField()
    description = peewee.TextField(default="")
    status = peewee.SmallIntegerField(default=0)
    due_at = UtcField(null=True)
    assigned_to = peewee.ForeignKeyField(User, null=True)
    role = peewee.ForeignKeyField(IncidentRole, null=True, on_delete="SET NULL")


class Drill(ObjectTable):
    """A drill with its incident. `policy`: the name of its policy. `ends_at`: when it ends at the latest.

    `outcome`: why it ended, at `done_at`.
    """

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    incident = peewee.ForeignKeyField(Incident, unique=True, on_delete="CASCADE")
    policy = peewee.CharField(max_length=255)
    ends_at = UtcField()
    done_at = UtcField(null=True)
    outcome = ReasonField(null=True)


Drill.declare_index("drill_of_account", "account", "done_at")
