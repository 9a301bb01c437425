"""The schema of the first release, frozen: it does not follow the models when they change."""

from peewee import (
    BlobField,
    BooleanField,
    CharField,
    ForeignKeyField,
    IntegerField,
    Model,
    SmallIntegerField,
    TextField,
)

from models.base import JsonField, SequenceField, UtcField


class Account(Model):
    unique_id = CharField(max_length=36, unique=True)
    account_identifier = CharField(max_length=5, unique=True)
    name = CharField(max_length=255)
    creation_date = UtcField()
    last_incident_number = IntegerField()

    class Meta:
        table_name = "account"


class Configuration(Model):
    account = ForeignKeyField(Account, unique=True, on_delete="CASCADE")
    version = IntegerField()

    class Meta:
        table_name = "configuration"


class User(Model):
    unique_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE")
    username = CharField(max_length=25, unique=True)
    first_name = CharField(max_length=255)
    last_name = CharField(max_length=255)
    email = CharField(max_length=254)
    time_zone = CharField(max_length=64)
    role = SmallIntegerField()
    is_verified = BooleanField()
    joining_date = UtcField()
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


class Heartbeat(Model):
    process = CharField(max_length=32, unique=True)
    at = UtcField()
    detail = JsonField()

    class Meta:
        table_name = "heartbeat"


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
    creation_date = UtcField()

    class Meta:
        table_name = "escalation_policy"


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
    sla = ForeignKeyField(Sla, on_delete="SET NULL", null=True)
    team_priority = ForeignKeyField(Priority, on_delete="SET NULL", null=True)
    task_template = CharField(max_length=36, null=True)
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
    integration_key = CharField(max_length=36, unique=True)
    created_by = ForeignKeyField(User)
    creation_date = UtcField()
    is_enabled = BooleanField()
    create_incidents_for = SmallIntegerField()
    integration_type = SmallIntegerField()
    default_urgency = SmallIntegerField()

    class Meta:
        table_name = "integration"


class Incident(Model):
    unique_id = CharField(max_length=22, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE")
    incident_number = IntegerField()
    incident_key = CharField(max_length=22)
    service = ForeignKeyField(Service, on_delete="SET NULL", null=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    title = TextField()
    summary = TextField()
    status = SmallIntegerField()
    urgency = SmallIntegerField()
    assigned_to = ForeignKeyField(User, null=True)
    escalation_policy = ForeignKeyField(EscalationPolicy, on_delete="SET NULL", null=True)
    sla = ForeignKeyField(Sla, on_delete="SET NULL", null=True)
    team_priority = ForeignKeyField(Priority, on_delete="SET NULL", null=True)
    creation_date = UtcField()
    acknowledged_date = UtcField(null=True)
    resolved_date = UtcField(null=True)
    context_window_start = UtcField(null=True)
    context_window_end = UtcField(null=True)
    collecting = BooleanField()
    escalating = BooleanField()
    chain = IntegerField()
    chain_started_at = UtcField()
    next_step = IntegerField()

    class Meta:
        table_name = "incident"
        indexes = (
            (("account", "incident_number"), True),
            (("account", "status", "creation_date"), False),
            (("account", "creation_date"), False),
        )


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


class Receipt(Model):
    id = SequenceField()
    trace_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
    integration = ForeignKeyField(Integration, on_delete="SET NULL", null=True)
    service = ForeignKeyField(Service, on_delete="SET NULL", index=False, null=True)
    source = CharField(max_length=32)
    body = BlobField()
    alerts = IntegerField()
    received_at = UtcField()
    state = SmallIntegerField()
    error = TextField(null=True)

    class Meta:
        table_name = "receipt"


class Event(Model):
    unique_id = CharField(max_length=22, unique=True)
    receipt = ForeignKeyField(Receipt, on_delete="CASCADE")
    position = IntegerField()
    integration = ForeignKeyField(Integration, on_delete="SET NULL", null=True)
    service = ForeignKeyField(Service, on_delete="SET NULL", index=False, null=True)
    incident = ForeignKeyField(Incident, on_delete="SET NULL", null=True)
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
    error = TextField(null=True)

    class Meta:
        table_name = "event"


class Entity(Model):
    integration = ForeignKeyField(Integration, on_delete="CASCADE", index=False)
    entity_id = CharField(max_length=255)
    firing = BooleanField()
    incident = ForeignKeyField(Incident, on_delete="SET NULL", index=False, null=True)
    resolved_source_at = UtcField(null=True)
    resolved_at = UtcField(null=True)

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
    contact = ForeignKeyField(ContactMethod, on_delete="SET NULL", null=True)
    channel = SmallIntegerField()
    reason = TextField(null=True)
    created_at = UtcField()
    next_at = UtcField()
    claimed_until = UtcField(null=True)
    first_tried_at = UtcField(null=True)
    tries = IntegerField()
    state = SmallIntegerField()
    outcome = TextField(null=True)
    done_at = UtcField(null=True)

    class Meta:
        table_name = "message"


class Notice(Model):
    key = CharField(max_length=255, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE")
    user = ForeignKeyField(User, on_delete="CASCADE")
    contact = ForeignKeyField(ContactMethod, on_delete="SET NULL", index=False, null=True)
    rule = ForeignKeyField(NotificationRule, on_delete="SET NULL", index=False, null=True)
    kind = CharField(max_length=16)
    reason = TextField()
    not_before = UtcField()
    state = SmallIntegerField()
    outcome = TextField(null=True)
    done_at = UtcField(null=True)
    message = ForeignKeyField(Message, on_delete="CASCADE")

    class Meta:
        table_name = "notice"


class Attempt(Model):
    message = ForeignKeyField(Message, on_delete="CASCADE")
    at = UtcField()
    outcome = CharField(max_length=16)
    detail = TextField()
    milliseconds = IntegerField()

    class Meta:
        table_name = "attempt"


TABLES = (
    Account,
    Configuration,
    User,
    Token,
    Secret,
    Heartbeat,
    ContactMethod,
    NotificationRule,
    Team,
    TeamMember,
    IncidentRole,
    Priority,
    Sla,
    EscalationPolicy,
    Service,
    Integration,
    Incident,
    IncidentLog,
    Receipt,
    Event,
    Entity,
    Timer,
    Message,
    Notice,
    Attempt,
)

# name, table, columns, unique, only rows where
PARTIAL_INDEXES = (
    ("incident_open_of_service", "incident", ["service_id"], False, "status < 3"),
    ("incident_one_collecting", "incident", ["service_id"], True, "status < 3 AND collecting"),
    ("receipt_waiting", "receipt", ["service_id", "id"], False, "state = 0"),
    ("receipt_aside", "receipt", ["id"], False, "state = 2"),
    ("event_waiting", "event", ["service_id", "receipt_id"], False, "state = 0"),
    ("event_aside", "event", ["id"], False, "state = 2"),
    ("entity_held", "entity", ["incident_id"], False, "incident_id IS NOT NULL"),
    ("timer_due", "timer", ["due_at"], False, "done_at IS NULL"),
    ("timer_pending", "timer", ["incident_id", "key"], True, "done_at IS NULL"),
    ("message_due", "message", ["channel", "next_at"], False, "state = 0"),
)


def up(migrator, db):
    with db.bind_ctx(TABLES):
        db.create_tables(TABLES)
    for name, table, columns, unique, where in PARTIAL_INDEXES:
        kind = "UNIQUE INDEX" if unique else "INDEX"
        names = ", ".join(f'"{column}"' for column in columns)
        db.execute_sql(f'CREATE {kind} "{name}" ON "{table}" ({names}) WHERE {where}')
