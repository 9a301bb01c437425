"""The schema of the first release. It is frozen: it does not follow the models when they change."""

from peewee import (
    BlobField,
    BooleanField,
    CharField,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    Model,
    SmallIntegerField,
    TextField,
)

from models.store.base import JsonField, SequenceField, UtcField


class Account(Model):
    unique_id = CharField(max_length=36, unique=True)
    account_identifier = CharField(max_length=5, unique=True)
    name = CharField(max_length=255)
    creation_date = UtcField()
    last_incident_number = IntegerField()

    class Meta:
        table_name = "account"


class ConfigVersion(Model):
    account = ForeignKeyField(Account, on_delete="CASCADE", unique=True)
    version = IntegerField()

    class Meta:
        table_name = "config_version"


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


class User(Model):
    unique_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE")
    username = CharField(max_length=25, unique=True)
    first_name = CharField(max_length=255)
    last_name = CharField(max_length=255)
    email = CharField(max_length=254)
    time_zone = CharField(max_length=64)
    role = SmallIntegerField()
    custom_role = ForeignKeyField(CustomRole, null=True, on_delete="SET NULL")
    is_verified = BooleanField()
    joining_date = UtcField()
    calendar_key = CharField(max_length=36, null=True)
    removed_at = UtcField(null=True)

    class Meta:
        table_name = "user"
        indexes = ((("account", "joining_date"), False),)


class Token(Model):
    user = ForeignKeyField(User, on_delete="CASCADE")
    name = CharField(max_length=255)
    digest = CharField(max_length=64, unique=True)
    created_at = UtcField()
    expires_at = UtcField(null=True)
    revoked_at = UtcField(null=True)
    last_used_at = UtcField(null=True)

    class Meta:
        table_name = "token"


class Secret(Model):
    name = CharField(max_length=64, unique=True)
    value = CharField(max_length=255)

    class Meta:
        table_name = "secret"


class Liveness(Model):
    process = CharField(max_length=32, unique=True)
    at = UtcField()
    detail = JsonField()

    class Meta:
        table_name = "liveness"


class ContactMethod(Model):
    unique_id = CharField(max_length=36, unique=True)
    user = ForeignKeyField(User, on_delete="CASCADE")
    name = CharField(max_length=255)
    contact_type = SmallIntegerField()
    value = CharField(max_length=320)
    creation_date = UtcField()

    class Meta:
        table_name = "contact_method"


class NotificationRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    user = ForeignKeyField(User, on_delete="CASCADE")
    contact = ForeignKeyField(ContactMethod, on_delete="CASCADE")
    start_delay = IntegerField()
    urgency = SmallIntegerField()
    creation_date = UtcField()

    class Meta:
        table_name = "notification_rule"


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


class Team(Model):
    unique_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE")
    name = CharField(max_length=255)
    owner = ForeignKeyField(User)
    account_permissions = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "team"


class TeamMember(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    user = ForeignKeyField(User, on_delete="CASCADE")
    role = SmallIntegerField()
    joining_date = UtcField()

    class Meta:
        table_name = "team_member"
        indexes = ((("team", "user"), True),)


class IncidentRole(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    title = CharField(max_length=255)
    description = TextField()
    rank = IntegerField()
    creation_date = UtcField()

    class Meta:
        table_name = "incident_role"


class Priority(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    description = TextField()
    color = CharField(max_length=64)
    creation_date = UtcField()

    class Meta:
        table_name = "priority"


class Sla(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    description = TextField()
    is_active = BooleanField()
    acknowledge_time = IntegerField(null=True)
    resolve_time = IntegerField(null=True)
    escalations = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "sla"


class Tag(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    color = CharField(max_length=64)
    creation_date = UtcField()

    class Meta:
        table_name = "tag"


class EscalationPolicy(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    summary = TextField()
    description = TextField()
    rules = JsonField()
    repeat_policy = IntegerField()
    move_to_next = BooleanField()
    global_ep = BooleanField()
    assignment_settings = JsonField()
    next_target = IntegerField()
    creation_date = UtcField()

    class Meta:
        table_name = "escalation_policy"


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


class Service(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    summary = TextField()
    description = TextField()
    created_by = ForeignKeyField(User)
    creation_date = UtcField()
    status = SmallIntegerField()
    under_maintenance = BooleanField()
    escalation_policy = ForeignKeyField(EscalationPolicy, null=True)
    sla = ForeignKeyField(Sla, null=True, on_delete="SET NULL")
    team_priority = ForeignKeyField(Priority, null=True, on_delete="SET NULL")
    task_template = ForeignKeyField(TaskTemplate, null=True, on_delete="SET NULL")
    auto_resolve_timeout = IntegerField()
    acknowledgement_timeout_enabled = BooleanField()
    acknowledgement_timeout = IntegerField()
    collation = SmallIntegerField()
    collation_time = IntegerField()

    class Meta:
        table_name = "service"


class Integration(Model):
    unique_id = CharField(max_length=36, unique=True)
    service = ForeignKeyField(Service, on_delete="CASCADE")
    application = CharField(max_length=36)
    name = CharField(max_length=255)
    summary = TextField()
    description = TextField()
    integration_key = CharField(max_length=36, unique=True)
    created_by = ForeignKeyField(User)
    creation_date = UtcField()
    is_enabled = BooleanField()
    create_incidents_for = SmallIntegerField()
    integration_type = SmallIntegerField()
    default_urgency = SmallIntegerField()
    heartbeat_interval = IntegerField()
    heartbeat_grace = IntegerField()
    expected_at = UtcField(null=True)
    last_ping_at = UtcField(null=True)
    is_missing = BooleanField()
    is_extended = BooleanField()

    class Meta:
        table_name = "integration"


class AlertRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    integration = ForeignKeyField(Integration, on_delete="CASCADE")
    description = TextField()
    rule_type = SmallIntegerField()
    stop = BooleanField()
    position = IntegerField()
    is_enabled = BooleanField()
    rule_json = TextField()
    conditions = JsonField()
    actions = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "alert_rule"


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


class GlobalRouter(Model):
    unique_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE")
    name = CharField(max_length=255)
    description = TextField()
    is_enabled = BooleanField()
    integration_key = CharField(max_length=36, unique=True)
    creation_date = UtcField()

    class Meta:
        table_name = "global_router"


class RouterRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    router = ForeignKeyField(GlobalRouter, on_delete="CASCADE")
    name = CharField(max_length=255)
    position = IntegerField()
    rule_json = TextField()
    actions = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "router_rule"


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


class Incident(Model):
    unique_id = CharField(max_length=22, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    incident_number = IntegerField()
    incident_key = CharField(max_length=22)
    service = ForeignKeyField(Service, null=True, on_delete="SET NULL")
    team = ForeignKeyField(Team, on_delete="CASCADE")
    title = TextField()
    summary = TextField()
    status = SmallIntegerField()
    urgency = SmallIntegerField()
    assigned_to = ForeignKeyField(User, null=True)
    escalation_policy = ForeignKeyField(EscalationPolicy, null=True, on_delete="SET NULL")
    sla = ForeignKeyField(Sla, null=True, on_delete="SET NULL")
    team_priority = ForeignKeyField(Priority, null=True, on_delete="SET NULL")
    creation_date = UtcField()
    acknowledged_date = UtcField(null=True)
    resolved_date = UtcField(null=True)
    context_window_start = UtcField(null=True)
    context_window_end = UtcField(null=True)
    collecting = BooleanField()
    parent = ForeignKeyField("self", null=True, on_delete="SET NULL", index=False)
    snoozed_at = UtcField(null=True)
    snoozed_till = UtcField(null=True)
    escalating = BooleanField()
    escalation_run = IntegerField()
    run_started_at = UtcField()
    next_step = IntegerField()
    paged_someone = BooleanField()
    exhausted = BooleanField()
    sla_started_at = UtcField(null=True)
    sla_acknowledged_at = UtcField(null=True)
    timeouts_started_at = UtcField(null=True)

    class Meta:
        table_name = "incident"
        indexes = ((("account", "incident_number"), True),)


class IncidentLog(Model):
    incident = ForeignKeyField(Incident, on_delete="CASCADE")
    at = UtcField()
    what = CharField(max_length=32)
    reason = TextField()
    actor_kind = CharField(max_length=8)
    user = ForeignKeyField(User, null=True)
    alert = CharField(max_length=22, null=True)

    class Meta:
        table_name = "incident_log"


class IncidentTag(Model):
    unique_id = CharField(max_length=36, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    team_tag = ForeignKeyField(Tag, on_delete="CASCADE")
    creation_date = UtcField()

    class Meta:
        table_name = "incident_tag"
        indexes = ((("incident", "team_tag"), True),)


class IncidentNote(Model):
    unique_id = CharField(max_length=22, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE")
    user = ForeignKeyField(User, null=True)
    note = TextField()
    creation_date = UtcField()

    class Meta:
        table_name = "incident_note"


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
        indexes = (
            (("incident", "user"), True),
            (("incident", "escalation_policy"), True),
        )


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


class Receipt(Model):
    id = SequenceField()
    trace_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    integration = ForeignKeyField(Integration, null=True, on_delete="SET NULL")
    service = ForeignKeyField(Service, null=True, on_delete="SET NULL", index=False)
    router = ForeignKeyField(GlobalRouter, null=True, on_delete="SET NULL", index=False)
    source = CharField(max_length=32)
    body = BlobField()
    alerts = IntegerField()
    received_at = UtcField()
    replayed_at = UtcField(null=True)
    state = SmallIntegerField()
    error = TextField(null=True)

    class Meta:
        table_name = "receipt"


class Event(Model):
    unique_id = CharField(max_length=22, unique=True)
    receipt = ForeignKeyField(Receipt, on_delete="CASCADE")
    position = IntegerField()
    integration = ForeignKeyField(Integration, null=True, on_delete="SET NULL", index=False)
    service = ForeignKeyField(Service, null=True, on_delete="SET NULL", index=False)
    incident = ForeignKeyField(Incident, null=True, on_delete="SET NULL", index=False)
    incident_created = BooleanField()
    message = TextField()
    summary = TextField()
    alert_type = SmallIntegerField()
    entity_id = CharField(max_length=255)
    suppressed = BooleanField()
    alert = JsonField()
    source_at = UtcField(null=True)
    creation_date = UtcField()
    stage = CharField(max_length=16)
    state = SmallIntegerField()
    reasons = JsonField()
    rules = JsonField()
    error = TextField(null=True)

    class Meta:
        table_name = "event"


class Entity(Model):
    integration = ForeignKeyField(Integration, on_delete="CASCADE", index=False)
    entity_id = CharField(max_length=255)
    firing = BooleanField()
    incident = ForeignKeyField(Incident, null=True, on_delete="SET NULL", index=False)
    last_incident = ForeignKeyField(Incident, null=True, on_delete="SET NULL", index=False)
    resolved_source_at = UtcField(null=True)
    resolved_at = UtcField(null=True)
    deferred_alert = CharField(max_length=22, null=True)

    class Meta:
        table_name = "entity"
        indexes = ((("integration", "entity_id"), True),)


class Timer(Model):
    incident = ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    kind = CharField(max_length=32)
    key = CharField(max_length=64)
    due_at = UtcField()
    done_at = UtcField(null=True)
    outcome = TextField(null=True)

    class Meta:
        table_name = "timer"
        indexes = ((("incident", "key"), False),)


class Message(Model):
    message_id = CharField(max_length=64, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    user = ForeignKeyField(User, on_delete="CASCADE")
    contact = ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL")
    channel = SmallIntegerField()
    kind = CharField(max_length=16, null=True)
    reason = TextField(null=True)
    created_at = UtcField()
    next_attempt_at = UtcField()
    claimed_until = UtcField(null=True)
    first_attempt_at = UtcField(null=True)
    attempts = IntegerField()
    state = SmallIntegerField()
    outcome = TextField(null=True)
    done_at = UtcField(null=True)

    class Meta:
        table_name = "message"


class Notification(Model):
    key = CharField(max_length=255, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE")
    user = ForeignKeyField(User, on_delete="CASCADE")
    contact = ForeignKeyField(ContactMethod, null=True, on_delete="SET NULL", index=False)
    rule = ForeignKeyField(NotificationRule, null=True, on_delete="SET NULL", index=False)
    kind = CharField(max_length=16)
    reason = TextField()
    not_before = UtcField()
    state = SmallIntegerField()
    outcome = TextField(null=True)
    done_at = UtcField(null=True)
    message = ForeignKeyField(Message, on_delete="CASCADE")

    class Meta:
        table_name = "notification"


class Attempt(Model):
    message = ForeignKeyField(Message, on_delete="CASCADE")
    at = UtcField()
    outcome = CharField(max_length=16)
    detail = TextField()
    milliseconds = IntegerField()

    class Meta:
        table_name = "attempt"


class Sample(Model):
    name = CharField(max_length=80)
    labels = CharField(max_length=255)
    value = DoubleField()

    class Meta:
        table_name = "sample"
        indexes = ((("name", "labels"), True),)


class RateLimit(Model):
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    operation = CharField(max_length=64)
    recent = JsonField()

    class Meta:
        table_name = "rate_limit"
        indexes = ((("account", "operation"), True),)


TABLES = (
    Account,
    ConfigVersion,
    CustomRole,
    User,
    Token,
    Secret,
    Liveness,
    ContactMethod,
    NotificationRule,
    ForwardingRule,
    Team,
    TeamMember,
    IncidentRole,
    Priority,
    Sla,
    Tag,
    EscalationPolicy,
    TaskTemplate,
    TemplateTask,
    PostIncidentTask,
    Schedule,
    ScheduleOverride,
    Service,
    Integration,
    AlertRule,
    OutgoingRule,
    AlertGroupingPolicy,
    GlobalRouter,
    RouterRule,
    Maintenance,
    MaintenanceService,
    Incident,
    IncidentLog,
    IncidentTag,
    IncidentNote,
    IncidentResponder,
    IncidentAssignment,
    IncidentTask,
    Postmortem,
    PostmortemIncident,
    Receipt,
    Event,
    Entity,
    Timer,
    Message,
    Notification,
    Attempt,
    Sample,
    RateLimit,
)

# Name, table, columns, whether it is unique, and the condition of the rows that it holds.
INDEXES = (
    (
        "entity_deferred",
        "entity",
        ["integration_id"],
        False,
        "deferred_alert IS NOT NULL",
    ),
    (
        "entity_held",
        "entity",
        ["incident_id"],
        False,
        "incident_id IS NOT NULL",
    ),
    (
        "entity_held_last",
        "entity",
        ["last_incident_id"],
        False,
        "last_incident_id IS NOT NULL",
    ),
    (
        "event_dead_letter",
        "event",
        ["id"],
        False,
        "state = 2",
    ),
    (
        "event_of_incident",
        "event",
        ["incident_id", "id"],
        False,
        None,
    ),
    (
        "event_of_integration",
        "event",
        ["integration_id", "id"],
        False,
        None,
    ),
    (
        "event_pending",
        "event",
        ["service_id", "receipt_id", "position", "id"],
        False,
        "state = 0",
    ),
    (
        "incident_listed",
        "incident",
        [
            "account_id",
            "creation_date",
            "id",
            "status",
            "team_id",
            "service_id",
            "assigned_to_id",
            "escalation_policy_id",
            "sla_id",
            "team_priority_id",
        ],
        False,
        None,
    ),
    (
        "incident_merged",
        "incident",
        ["parent_id"],
        False,
        "parent_id IS NOT NULL",
    ),
    (
        "incident_one_collecting",
        "incident",
        ["service_id"],
        True,
        "status < 3 AND collecting",
    ),
    (
        "incident_open_of_service",
        "incident",
        ["service_id"],
        False,
        "status < 3",
    ),
    (
        "integration_expected",
        "integration",
        ["expected_at"],
        False,
        "expected_at IS NOT NULL",
    ),
    (
        "message_due",
        "message",
        ["channel", "next_attempt_at"],
        False,
        "state = 0",
    ),
    (
        "message_failed",
        "message",
        ["channel", "done_at"],
        False,
        "state = 3",
    ),
    (
        "message_sent",
        "message",
        ["channel", "done_at"],
        False,
        "state = 1",
    ),
    (
        "receipt_dead_letter",
        "receipt",
        ["id"],
        False,
        "state = 2",
    ),
    (
        "receipt_pending",
        "receipt",
        ["service_id", "id"],
        False,
        "state = 0",
    ),
    (
        "receipt_to_route",
        "receipt",
        ["router_id", "id"],
        False,
        "state = 0 AND router_id IS NOT NULL",
    ),
    (
        "timer_due",
        "timer",
        ["due_at"],
        False,
        "done_at IS NULL",
    ),
    (
        "timer_pending",
        "timer",
        ["incident_id", "key"],
        True,
        "done_at IS NULL",
    ),
)


def up(migrator, db):
    with db.bind_ctx(TABLES):
        db.create_tables(TABLES)
    for name, table, columns, is_unique, condition in INDEXES:
        kind = "UNIQUE INDEX" if is_unique else "INDEX"
        names = ", ".join(f'"{column}"' for column in columns)
        where = f" WHERE {condition}" if condition else ""
        db.execute_sql(f'CREATE {kind} "{name}" ON "{table}" ({names}){where}')
