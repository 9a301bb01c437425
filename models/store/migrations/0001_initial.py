"""The schema of the first release. It is frozen: it does not follow the models when they change."""

from typing import Any

import peewee

from models.store.base import JsonField, SequenceField, UtcField

# The columns of each table: name, type or "-> table", options. A column is NOT NULL unless it is `null`.
# A reference has an index unless it is `unindexed`; `cascade` and `set_null` say what a deletion does.
TABLES = """
account: unique_id char(36) unique, account_identifier char(5) unique, name char(255), creation_date time,
    last_incident_number integer;
config_version: account -> account cascade unique, version integer;
custom_role: unique_id char(36) unique, account -> account cascade unindexed, name char(255),
    description text, permissions json, creation_date time;
user: unique_id char(36) unique, account -> account cascade, username char(25) unique, first_name char(255),
    last_name char(255), email char(254), time_zone char(64), role smallint,
    custom_role -> custom_role null set_null, is_verified boolean, joining_date time,
    calendar_key char(36) null, removed_at time null;
token: user -> user cascade, name char(255), digest char(64) unique, created_at time, expires_at time null,
    revoked_at time null, last_used_at time null;
secret: name char(64) unique, value char(255);
liveness: process char(32) unique, at time, detail json;
contact_method: unique_id char(36) unique, user -> user cascade, name char(255), contact_type smallint,
    value char(320), creation_date time;
notification_rule: unique_id char(36) unique, user -> user cascade, contact -> contact_method cascade,
    start_delay integer, urgency smallint, creation_date time;
forwarding_rule: unique_id char(36) unique, user -> user cascade, to_user -> user cascade,
    created_by -> user cascade unindexed, from_date time, to_date time, time_zone char(64),
    creation_date time;
team: unique_id char(36) unique, account -> account cascade, name char(255), owner -> user,
    account_permissions json, creation_date time;
team_member: unique_id char(36) unique, team -> team cascade, user -> user cascade, role smallint,
    joining_date time;
incident_role: unique_id char(36) unique, team -> team cascade, title char(255), description text,
    rank integer, creation_date time;
priority: unique_id char(36) unique, team -> team cascade, name char(255), description text, color char(64),
    creation_date time;
sla: unique_id char(36) unique, team -> team cascade, name char(255), description text, is_active boolean,
    acknowledge_time integer null, resolve_time integer null, escalations json, creation_date time;
tag: unique_id char(36) unique, team -> team cascade, name char(255), color char(64), creation_date time;
escalation_policy: unique_id char(36) unique, team -> team cascade, name char(255), summary text,
    description text, rules json, repeat_policy integer, move_to_next boolean, global_ep boolean,
    assignment_settings json, next_target integer, creation_date time;
task_template: unique_id char(36) unique, team -> team cascade, name char(255), summary text,
    due_immediately smallint, creation_date time;
template_task: unique_id char(36) unique, task_template -> task_template cascade, title char(255),
    description text, due_in integer, role -> incident_role null set_null, position integer,
    creation_date time;
post_incident_task: unique_id char(36) unique, team -> team cascade, title char(255), description text,
    status smallint, due_in_time time null, assigned_to -> user null, creation_date time;
schedule: unique_id char(36) unique, team -> team cascade, name char(255), summary text, description text,
    time_zone char(64), shift_time_in_dst boolean, layers json, creation_date time;
schedule_override: unique_id char(36) unique, schedule -> schedule cascade unindexed, name char(255),
    user -> user cascade, start_time time, end_time time, creation_date time;
service: unique_id char(36) unique, team -> team cascade, name char(255), summary text, description text,
    created_by -> user, creation_date time, status smallint, under_maintenance boolean,
    escalation_policy -> escalation_policy null, sla -> sla null set_null,
    team_priority -> priority null set_null, task_template -> task_template null set_null,
    auto_resolve_timeout integer, acknowledgement_timeout_enabled boolean, acknowledgement_timeout integer,
    collation smallint, collation_time integer;
integration: unique_id char(36) unique, service -> service cascade, application char(36), name char(255),
    summary text, description text, integration_key char(36) unique, created_by -> user, creation_date time,
    is_enabled boolean, create_incidents_for smallint, integration_type smallint, default_urgency smallint,
    heartbeat_interval integer, heartbeat_grace integer, expected_at time null, last_ping_at time null,
    is_missing boolean, is_extended boolean;
alert_rule: unique_id char(36) unique, integration -> integration cascade, description text,
    rule_type smallint, stop boolean, position integer, is_enabled boolean, rule_json text, conditions json,
    actions json, creation_date time;
outgoing_rule: unique_id char(36) unique, integration -> integration cascade, is_enabled boolean,
    rule_json text, creation_date time;
alert_grouping_policy: unique_id char(36) unique, service -> service cascade, match_mode smallint,
    match_fields json, time_window integer, is_active boolean, creation_date time, updated_at time;
global_router: unique_id char(36) unique, account -> account cascade, name char(255), description text,
    is_enabled boolean, integration_key char(36) unique, creation_date time;
router_rule: unique_id char(36) unique, router -> global_router cascade, name char(255), position integer,
    rule_json text, actions json, creation_date time;
maintenance: unique_id char(36) unique, team -> team cascade, name char(255), start_time time, end_time time,
    repeat_interval integer, repeat_until time null, time_zone char(64), creation_date time;
maintenance_service: unique_id char(36) unique, maintenance -> maintenance cascade unindexed,
    service -> service cascade;
incident: unique_id char(22) unique, account -> account cascade unindexed, incident_number integer,
    incident_key char(22), service -> service null set_null, team -> team cascade, title text, summary text,
    status smallint, urgency smallint, assigned_to -> user null,
    escalation_policy -> escalation_policy null set_null, sla -> sla null set_null,
    team_priority -> priority null set_null, creation_date time, acknowledged_date time null,
    resolved_date time null, context_window_start time null, context_window_end time null, collecting boolean,
    parent -> incident null set_null unindexed, snoozed_at time null, snoozed_till time null,
    escalating boolean, escalation_run integer, run_started_at time, next_step integer, paged_someone boolean,
    exhausted boolean, sla_started_at time null, sla_acknowledged_at time null, timeouts_started_at time null;
incident_log: incident -> incident cascade, at time, what char(32), reason text, actor_kind char(8),
    user -> user null, alert char(22) null;
incident_tag: unique_id char(36) unique, incident -> incident cascade unindexed, team_tag -> tag cascade,
    creation_date time;
incident_note: unique_id char(22) unique, incident -> incident cascade, user -> user null, note text,
    creation_date time;
incident_responder: unique_id char(22) unique, incident -> incident cascade unindexed, user -> user null,
    escalation_policy -> escalation_policy null set_null, subject text null, message text null,
    response_status smallint, creation_date time;
incident_assignment: unique_id char(36) unique, incident -> incident cascade unindexed,
    role -> incident_role cascade, user -> user, creation_date time;
incident_task: unique_id char(36) unique, incident -> incident cascade, title text, description text,
    status smallint, due_at time null, assigned_to -> user null, role -> incident_role null set_null,
    creation_date time;
postmortem: unique_id char(36) unique, team -> team cascade, author -> user, status char(255),
    title char(255), postmortem_data text, download_status smallint, creation_date time, updated_at time;
postmortem_incident: unique_id char(36) unique, postmortem -> postmortem cascade unindexed,
    incident -> incident cascade;
receipt: id sequence, trace_id char(36) unique, account -> account cascade unindexed,
    integration -> integration null set_null, service -> service null set_null unindexed,
    router -> global_router null set_null unindexed, source char(32), body blob, alerts integer,
    received_at time, replayed_at time null, state smallint, error text null;
event: unique_id char(22) unique, receipt -> receipt cascade, position integer,
    integration -> integration null set_null unindexed, service -> service null set_null unindexed,
    incident -> incident null set_null unindexed, incident_created boolean, message text, summary text,
    alert_type smallint, entity_id char(255), suppressed boolean, alert json, source_at time null,
    creation_date time, stage char(16), state smallint, reasons json, rules json, error text null;
entity: integration -> integration cascade unindexed, entity_id char(255), firing boolean,
    incident -> incident null set_null unindexed, last_incident -> incident null set_null unindexed,
    resolved_source_at time null, resolved_at time null, deferred_alert char(22) null;
timer: incident -> incident cascade unindexed, kind char(32), key char(64), due_at time, done_at time null,
    outcome text null;
message: message_id char(64) unique, account -> account cascade unindexed, user -> user cascade,
    contact -> contact_method null set_null, channel smallint, kind char(16) null, reason text null,
    created_at time, next_attempt_at time, claimed_until time null, first_attempt_at time null,
    attempts integer, state smallint, outcome text null, done_at time null;
notification: key char(255) unique, incident -> incident cascade, user -> user cascade,
    contact -> contact_method null set_null unindexed, rule -> notification_rule null set_null unindexed,
    kind char(16), reason text, not_before time, state smallint, outcome text null, done_at time null,
    message -> message cascade;
attempt: message -> message cascade, at time, outcome char(16), detail text, milliseconds integer;
sample: name char(80), labels char(255), value double;
rate_limit: account -> account cascade unindexed, operation char(64), recent json;
"""

INDEXES = """
UNIQUE INDEX customrole_account_id_name ON "custom_role" (account_id, name);
INDEX user_account_id_joining_date ON "user" (account_id, joining_date);
UNIQUE INDEX teammember_team_id_user_id ON "team_member" (team_id, user_id);
INDEX scheduleoverride_schedule_id_end_time ON "schedule_override" (schedule_id, end_time);
UNIQUE INDEX maintenanceservice_maintenance_id_service_id ON "maintenance_service" (maintenance_id,
    service_id);
UNIQUE INDEX incident_account_id_incident_number ON "incident" (account_id, incident_number);
UNIQUE INDEX incidenttag_incident_id_team_tag_id ON "incident_tag" (incident_id, team_tag_id);
UNIQUE INDEX incidentresponder_incident_id_user_id ON "incident_responder" (incident_id, user_id);
UNIQUE INDEX incidentresponder_incident_id_escalation_policy_id ON "incident_responder" (incident_id,
    escalation_policy_id);
UNIQUE INDEX incidentassignment_incident_id_role_id ON "incident_assignment" (incident_id, role_id);
UNIQUE INDEX postmortemincident_postmortem_id_incident_id ON "postmortem_incident" (postmortem_id,
    incident_id);
UNIQUE INDEX entity_integration_id_entity_id ON "entity" (integration_id, entity_id);
INDEX timer_incident_id_key ON "timer" (incident_id, key);
UNIQUE INDEX sample_name_labels ON "sample" (name, labels);
UNIQUE INDEX ratelimit_account_id_operation ON "rate_limit" (account_id, operation);
INDEX entity_deferred ON "entity" (integration_id) WHERE deferred_alert IS NOT NULL;
INDEX entity_held ON "entity" (incident_id) WHERE incident_id IS NOT NULL;
INDEX entity_held_last ON "entity" (last_incident_id) WHERE last_incident_id IS NOT NULL;
INDEX event_dead_letter ON "event" (id) WHERE state = 2;
INDEX event_of_incident ON "event" (incident_id, id);
INDEX event_of_integration ON "event" (integration_id, id);
INDEX event_pending ON "event" (service_id, receipt_id, position, id) WHERE state = 0;
INDEX incident_listed ON "incident" (account_id, creation_date, id, status, team_id, service_id,
    assigned_to_id, escalation_policy_id, sla_id, team_priority_id);
INDEX incident_merged ON "incident" (parent_id) WHERE parent_id IS NOT NULL;
UNIQUE INDEX incident_one_collecting ON "incident" (service_id) WHERE status < 3 AND collecting;
INDEX incident_open_of_service ON "incident" (service_id) WHERE status < 3;
INDEX integration_expected ON "integration" (expected_at) WHERE expected_at IS NOT NULL;
INDEX message_due ON "message" (channel, next_attempt_at) WHERE state = 0;
INDEX message_failed ON "message" (channel, done_at) WHERE state = 3;
INDEX message_sent ON "message" (channel, done_at) WHERE state = 1;
INDEX receipt_dead_letter ON "receipt" (id) WHERE state = 2;
INDEX receipt_pending ON "receipt" (service_id, id) WHERE state = 0;
INDEX receipt_to_route ON "receipt" (router_id, id) WHERE state = 0 AND router_id IS NOT NULL;
INDEX timer_due ON "timer" (due_at) WHERE done_at IS NULL;
UNIQUE INDEX timer_pending ON "timer" (incident_id, key) WHERE done_at IS NULL;
"""

TYPES = {
    "blob": peewee.BlobField,
    "boolean": peewee.BooleanField,
    "double": peewee.DoubleField,
    "integer": peewee.IntegerField,
    "json": JsonField,
    "sequence": SequenceField,
    "smallint": peewee.SmallIntegerField,
    "text": peewee.TextField,
    "time": UtcField,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "cascade": {"on_delete": "CASCADE"},
    "null": {"null": True},
    "set_null": {"on_delete": "SET NULL"},
    "unindexed": {"index": False},
    "unique": {"unique": True},
}


def up(migrator, db):
    tables: dict[str, Any] = {}
    for declaration in TABLES.split(";")[:-1]:
        name, _, columns = declaration.strip().partition(": ")
        tables[name] = build_table(name, columns, tables)
    with db.bind_ctx(tables.values()):
        db.create_tables(tables.values())
    for index in INDEXES.split(";")[:-1]:
        db.execute_sql(f"CREATE {index}")


def build_table(name, declaration, tables):
    """Build the class of a table. `tables` has the classes to which its columns refer."""
    columns: dict[str, Any] = {"Meta": type("Meta", (), {"table_name": name})}
    for column in declaration.split(","):
        column_name, kind, *words = column.split()
        target = words.pop(0) if kind == "->" else None
        options = {key: value for word in words for key, value in OPTIONS[word].items()}
        if target is not None:
            columns[column_name] = peewee.ForeignKeyField(
                "self" if target == name else tables[target], **options
            )
        elif kind.startswith("char("):
            columns[column_name] = peewee.CharField(max_length=int(kind[5:-1]), **options)
        else:
            columns[column_name] = TYPES[kind](**options)
    # The names of unnamed indexes come from the name of the class.
    return type(name.title().replace("_", ""), (peewee.Model,), columns)
