"""The rest of the interface: schedules, maintenance, postmortems, tasks, responders, custom roles."""

from typing import Any

from peewee import BooleanField, CharField, ForeignKeyField, IntegerField, Model, SmallIntegerField, TextField

from models.base import JsonField, UtcField


class Account(Model):
    class Meta:
        table_name = "account"


class User(Model):
    class Meta:
        table_name = "user"


class Team(Model):
    class Meta:
        table_name = "team"


class IncidentRole(Model):
    class Meta:
        table_name = "incident_role"


class EscalationPolicy(Model):
    class Meta:
        table_name = "escalation_policy"


class Service(Model):
    class Meta:
        table_name = "service"


class Integration(Model):
    class Meta:
        table_name = "integration"


class Incident(Model):
    class Meta:
        table_name = "incident"


class CustomRole(Model):
    unique_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    name = CharField(max_length=255)
    description = TextField()
    permissions = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "custom_role"
        indexes = ((("account", "name"), True),)


class ForwardingRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    user = ForeignKeyField(User, on_delete="CASCADE")
    to_user = ForeignKeyField(User, on_delete="CASCADE")
    created_by = ForeignKeyField(User, on_delete="CASCADE", index=False)
    from_date = UtcField()
    to_date = UtcField()
    time_zone = CharField(max_length=64)
    creation_date = UtcField()

    class Meta:
        table_name = "forwarding_rule"


class TaskTemplate(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    summary = TextField()
    due_immediately = SmallIntegerField()
    creation_date = UtcField()

    class Meta:
        table_name = "task_template"


class TemplateTask(Model):
    unique_id = CharField(max_length=36, unique=True)
    task_template = ForeignKeyField(TaskTemplate, on_delete="CASCADE")
    title = CharField(max_length=255)
    description = TextField()
    due_in = IntegerField()
    role = ForeignKeyField(IncidentRole, null=True, on_delete="SET NULL")
    position = IntegerField()
    creation_date = UtcField()

    class Meta:
        table_name = "template_task"


class PostIncidentTask(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    title = CharField(max_length=255)
    description = TextField()
    status = SmallIntegerField()
    due_in_time = UtcField(null=True)
    assigned_to = ForeignKeyField(User, null=True)
    creation_date = UtcField()

    class Meta:
        table_name = "post_incident_task"


class Schedule(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    summary = TextField()
    description = TextField()
    time_zone = CharField(max_length=64)
    shift_time_in_dst = BooleanField()
    layers = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "schedule"


class ScheduleOverride(Model):
    unique_id = CharField(max_length=36, unique=True)
    schedule = ForeignKeyField(Schedule, on_delete="CASCADE", index=False)
    name = CharField(max_length=255)
    user = ForeignKeyField(User, on_delete="CASCADE")
    start_time = UtcField()
    end_time = UtcField()
    creation_date = UtcField()

    class Meta:
        table_name = "schedule_override"
        indexes = ((("schedule", "end_time"), False),)


class OutgoingRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    integration = ForeignKeyField(Integration, on_delete="CASCADE")
    is_enabled = BooleanField()
    rule_json = TextField()
    creation_date = UtcField()

    class Meta:
        table_name = "outgoing_rule"


class AlertGroupingPolicy(Model):
    unique_id = CharField(max_length=36, unique=True)
    service = ForeignKeyField(Service, on_delete="CASCADE")
    match_mode = SmallIntegerField()
    match_fields = JsonField()
    time_window = IntegerField()
    is_active = BooleanField()
    creation_date = UtcField()
    updated_at = UtcField()

    class Meta:
        table_name = "alert_grouping_policy"


class Maintenance(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    start_time = UtcField()
    end_time = UtcField()
    repeat_interval = IntegerField()
    repeat_until = UtcField(null=True)
    time_zone = CharField(max_length=64)
    creation_date = UtcField()

    class Meta:
        table_name = "maintenance"


class MaintenanceService(Model):
    unique_id = CharField(max_length=36, unique=True)
    maintenance = ForeignKeyField(Maintenance, on_delete="CASCADE", index=False)
    service = ForeignKeyField(Service, on_delete="CASCADE")

    class Meta:
        table_name = "maintenance_service"
        indexes = ((("maintenance", "service"), True),)


class IncidentResponder(Model):
    unique_id = CharField(max_length=22, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    user = ForeignKeyField(User, null=True)
    escalation_policy = ForeignKeyField(EscalationPolicy, null=True, on_delete="SET NULL")
    subject = TextField(null=True)
    message = TextField(null=True)
    response_status = SmallIntegerField()
    creation_date = UtcField()

    class Meta:
        table_name = "incident_responder"
        indexes = ((("incident", "user"), True), (("incident", "escalation_policy"), True))


class IncidentAssignment(Model):
    unique_id = CharField(max_length=36, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    role = ForeignKeyField(IncidentRole, on_delete="CASCADE")
    user = ForeignKeyField(User)
    creation_date = UtcField()

    class Meta:
        table_name = "incident_assignment"
        indexes = ((("incident", "role"), True),)


class IncidentTask(Model):
    unique_id = CharField(max_length=36, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE")
    title = TextField()
    description = TextField()
    status = SmallIntegerField()
    due_at = UtcField(null=True)
    assigned_to = ForeignKeyField(User, null=True)
    role = ForeignKeyField(IncidentRole, null=True, on_delete="SET NULL")
    creation_date = UtcField()

    class Meta:
        table_name = "incident_task"


class Postmortem(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    author = ForeignKeyField(User)
    status = CharField(max_length=255)
    title = CharField(max_length=255)
    postmortem_data = TextField()
    download_status = SmallIntegerField()
    creation_date = UtcField()
    updated_at = UtcField()

    class Meta:
        table_name = "postmortem"


class PostmortemIncident(Model):
    unique_id = CharField(max_length=36, unique=True)
    postmortem = ForeignKeyField(Postmortem, on_delete="CASCADE", index=False)
    incident = ForeignKeyField(Incident, on_delete="CASCADE")

    class Meta:
        table_name = "postmortem_incident"
        indexes = ((("postmortem", "incident"), True),)


class RateLimit(Model):
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    operation = CharField(max_length=64)
    recent = JsonField()

    class Meta:
        table_name = "rate_limit"
        indexes = ((("account", "operation"), True),)


KNOWN = (Account, User, Team, IncidentRole, EscalationPolicy, Service, Integration, Incident)
NEW = (
    CustomRole, ForwardingRule, TaskTemplate, TemplateTask, PostIncidentTask, Schedule, ScheduleOverride,
    OutgoingRule, AlertGroupingPolicy, Maintenance, MaintenanceService, IncidentResponder, IncidentAssignment,
    IncidentTask, Postmortem, PostmortemIncident, RateLimit,
)  # fmt: skip


def reference_to(table: Any, *, index: bool) -> Any:
    return ForeignKeyField(table, field=table.id, null=True, on_delete="SET NULL", index=index)


def up(migrator, db):
    with db.bind_ctx((*KNOWN, *NEW), bind_refs=False, bind_backrefs=False):
        db.create_tables(NEW)
        migrator.migrate(
            migrator.add_column("user", "custom_role_id", reference_to(CustomRole, index=True)),
            migrator.add_column("incident", "parent_id", reference_to(Incident, index=False)),
            migrator.add_column("incident", "snoozed_at", UtcField(null=True)),
            migrator.add_column("incident", "snoozed_till", UtcField(null=True)),
            migrator.add_column("integration", "description", TextField(default="")),
            migrator.add_column("message", "kind", CharField(max_length=16, null=True)),
            # Ids of templates that there could not be yet.
            migrator.drop_column("service", "task_template"),
            migrator.add_column("service", "task_template_id", reference_to(TaskTemplate, index=True)),
        )
    for replaced in ("account_id", "account_id_status_creation_date", "account_id_creation_date"):
        db.execute_sql(f'DROP INDEX "incident_{replaced}"')
    listed = (
        "account_id", "creation_date", "id", "status", "team_id", "service_id", "assigned_to_id",
        "escalation_policy_id", "sla_id", "team_priority_id",
    )  # fmt: skip
    columns = ", ".join(f'"{name}"' for name in listed)
    db.execute_sql(f'CREATE INDEX "incident_listed" ON "incident" ({columns})')
    for owner in ("incident", "integration"):
        db.execute_sql(f'DROP INDEX "event_{owner}_id"')
        db.execute_sql(f'CREATE INDEX "event_of_{owner}" ON "event" ("{owner}_id", "id")')
    db.execute_sql('CREATE INDEX "incident_merged" ON "incident" ("parent_id") WHERE parent_id IS NOT NULL')
