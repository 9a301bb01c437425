"""The schema. Until version 0.2.0, the first release, this file is changed; then it is frozen.

It does not follow the models when they change: tests/models/store/test_migrations.py compares the two.
"""

import re
from typing import Any

import peewee

from models.store.fields import JsonField, SequenceField, UtcField
from models.store.store import store

# The columns of each table: name, type or "-> table", options. A column is NOT NULL unless it is `null`.
# A reference has an index unless it is `unindexed`, another column only if it is `indexed`. `cascade` and
# `set_null` say what the deletion of the row does to which a reference refers.
TABLES = """
account: unique_id char(36) unique, account_identifier char(5) unique, name char(255),
    last_incident_number integer, creation_date time;
added_application: account -> account cascade unindexed, unique_id char(36), kind char(32),
    creation_date time, number integer;
config_version: account -> account cascade unique, version integer;
custom_role: unique_id char(36) unique, account -> account cascade unindexed, name char(255),
    description text, permissions json, creation_date time, number integer;
user: unique_id char(36) unique, account -> account cascade, username char(25) unique, first_name char(255),
    last_name char(255), email char(254), verified_email char(254) null, time_zone char(64), role smallint,
    custom_role -> custom_role null set_null, is_verified boolean, joining_date time,
    calendar_key char(36) null, recovery_mails boolean, removed_at time null, number integer;
token: user -> user cascade, name char(255), digest char(64) unique, created_at time, expires_at time null,
    revoked_at time null, last_used_at time null, number integer;
secret: name char(64) unique, value char(255);
liveness: process char(32) unique, at time, detail json;
failed_authentication: address char(64) unique, minute integer, count integer;
session: unique_id char(36) unique, user -> user cascade, digest char(64) unique, last_seen_at time,
    ends_at time, method char(16), user_agent char(120), rights char(40), proven_at time null,
    previous_digest char(64) null indexed, previous_until time null, form_token char(64) null,
    creation_date time;
password: user -> user cascade unique, hash char(255), changed_at time;
sign_in_link: unique_id char(36) unique, user -> user cascade, address char(64), ends_at time,
    creation_date time;
passkey: unique_id char(36) unique, user -> user cascade, name char(120), credential_id char(1400) unique,
    public_key text, sign_count bigint, last_used_at time null, creation_date time;
identity: user -> user cascade, issuer char(255), subject char(255), created_at time;
sign_in_step: digest char(64) unique, kind char(16), values json, ends_at time;
sign_in_rate: key char(64) unique, recent json, used_at time;
untrusted_proxy: address char(64) unique, seen_at time;
contact_method: unique_id char(36) unique, user -> user cascade, name char(255), contact_type smallint,
    value char(320), verified_value char(320) null, creation_date time, number integer;
contact_code: contact -> contact_method cascade unique, value char(320), code char(6), expires_at time,
    attempts integer;
contact_link: contact -> contact_method cascade unique, digest char(64) unique, expires_at time;
contact_secret: contact -> contact_method cascade unique, secret char(64), created_at time;
push_subscription: contact -> contact_method cascade unique, endpoint text, p256dh char(128), auth char(64),
    created_at time;
notification_rule: unique_id char(36) unique, user -> user cascade, contact -> contact_method cascade,
    start_delay integer, urgency smallint, creation_date time, number integer;
forwarding_rule: unique_id char(36) unique, user -> user cascade, to_user -> user cascade,
    created_by -> user cascade unindexed, from_date time, to_date time, time_zone char(64),
    creation_date time, number integer;
team: unique_id char(36) unique, account -> account cascade, name char(255), owner -> user,
    account_permissions json, creation_date time, number integer;
team_member: unique_id char(36) unique, team -> team cascade, user -> user cascade, role smallint,
    joining_date time, number integer;
change: id sequence, unique_id char(22) unique, account -> account cascade unindexed, at time,
    action char(32), kind char(32), object_id char(36), name char(255), number integer null,
    team -> team null set_null, user -> user null cascade, actor char(255), author -> user null cascade,
    token char(255), way char(16), client char(64), detail char(255), batch char(22), fields json null,
    removed text null, undoes char(22) null, undone_by char(22) null;
incident_role: unique_id char(36) unique, team -> team cascade, title char(255), description text,
    rank integer, creation_date time, number integer;
priority: unique_id char(36) unique, team -> team cascade, name char(255), description text, color char(64),
    creation_date time, number integer;
sla: unique_id char(36) unique, team -> team cascade, name char(255), description text, is_active boolean,
    acknowledge_time integer null, resolve_time integer null, escalations json, creation_date time,
    number integer;
tag: unique_id char(36) unique, team -> team cascade, name char(255), color char(64), creation_date time,
    number integer;
escalation_policy: unique_id char(36) unique, team -> team cascade, name char(255), summary text,
    description text, rules json, repeat_policy integer, move_to_next boolean, global_ep boolean,
    assignment_settings json, next_target integer, creation_date time, number integer;
task_template: unique_id char(36) unique, team -> team cascade, name char(255), summary text,
    due_immediately smallint, creation_date time, number integer;
template_task: unique_id char(36) unique, task_template -> task_template cascade, title char(255),
    description text, due_in integer, role -> incident_role null set_null, position integer,
    creation_date time, number integer;
post_incident_task: unique_id char(36) unique, team -> team cascade, title char(255), description text,
    status smallint, due_in_time time null, assigned_to -> user null, creation_date time, number integer;
schedule: unique_id char(36) unique, team -> team cascade, name char(255), summary text, description text,
    time_zone char(64), shift_time_in_dst boolean, layers json, double_shifts char(16),
    creation_date time, number integer;
schedule_override: unique_id char(36) unique, schedule -> schedule cascade unindexed, name char(255),
    user -> user cascade, start_time time, end_time time, creation_date time;
shift_swap: unique_id char(36) unique, schedule -> schedule cascade, asker -> user cascade, asked_start time,
    asked_end time, partner -> user cascade, returned_start time, returned_end time, state smallint,
    creation_date time;
service: unique_id char(36) unique, team -> team cascade, name char(255), summary text, description text,
    created_by -> user, status smallint, under_maintenance boolean,
    escalation_policy -> escalation_policy null, sla -> sla null set_null,
    team_priority -> priority null set_null, task_template -> task_template null set_null,
    auto_resolve_timeout integer, acknowledgement_timeout_enabled boolean, acknowledgement_timeout integer,
    collation smallint, collation_time integer, has_outbound boolean, creation_date time, number integer;
integration: unique_id char(36) unique, service -> service cascade, application char(36), kind char(32) null,
    name char(255), summary text, description text, integration_key char(36) unique, created_by -> user,
    is_enabled boolean, create_incidents_for smallint, integration_type smallint, default_urgency smallint,
    heartbeat_interval integer, heartbeat_grace integer, expected_at time null, last_ping_at time null,
    is_missing boolean, is_extended boolean, creation_date time, number integer;
source_setup: integration -> integration cascade unique, secret char(256) null, mapping json null,
    default_alert_type smallint null, topics json null, accepts_get boolean,
    has_alert_access boolean, updated_at time;
deleted_integration: unique_id char(36), team -> team cascade, service char(36), name char(255),
    summary text, creation_date time, integration_key char(36), is_enabled boolean,
    integration_type smallint;
alert_rule: unique_id char(36) unique, integration -> integration cascade, description text,
    rule_type smallint, stop boolean, position integer, is_enabled boolean, rule_json text, conditions json,
    actions json, creation_date time, number integer;
outgoing_rule: unique_id char(36) unique, integration -> integration cascade, is_enabled boolean,
    rule_json text, creation_date time, number integer;
outbound_target: integration -> integration cascade unique, url text, secret char(64), creation_date time,
    failures integer, retry_at time null, claimed_until time null, claimed_by integer null,
    served_at time null;
alert_grouping_policy: unique_id char(36) unique, service -> service cascade, match_mode smallint,
    match_fields json, time_window integer, is_active boolean, updated_at time, creation_date time,
    number integer;
global_router: unique_id char(36) unique, account -> account cascade, name char(255), description text,
    is_enabled boolean, integration_key char(36) unique, creation_date time, number integer;
router_rule: unique_id char(36) unique, router -> global_router cascade, name char(255), position integer,
    rule_json text, actions json, creation_date time, number integer;
maintenance: unique_id char(36) unique, team -> team cascade, name char(255), start_time time, end_time time,
    repeat_interval integer, repeat_until time null, time_zone char(64), creation_date time, number integer;
maintenance_service: unique_id char(36) unique, maintenance -> maintenance cascade unindexed,
    service -> service cascade;
incident: unique_id char(22) unique, account -> account cascade unindexed, incident_number integer,
    incident_key char(22), service -> service null set_null, team -> team cascade, title text, summary text,
    status smallint, urgency smallint, assigned_to -> user null,
    escalation_policy -> escalation_policy null set_null, sla -> sla null set_null,
    team_priority -> priority null set_null, creation_date time, acknowledged_date time null,
    resolved_date time null, context_window_start time null, context_window_end time null,
    collecting boolean, parent -> incident null set_null unindexed, snoozed_at time null,
    snoozed_till time null, escalating boolean, escalation_run integer, run_started_at time,
    next_step integer, paged_someone boolean, exhausted boolean, sla_started_at time null,
    sla_acknowledged_at time null, timeouts_started_at time null;
incident_group: id bigauto, incident -> incident cascade, digest char(64) indexed, created_at time;
incident_log: incident -> incident cascade, at time, what char(32), reason text, author_kind char(8),
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
drill: unique_id char(36) unique, account -> account cascade unindexed, incident -> incident cascade unique,
    policy char(255), ends_at time, done_at time null, outcome text null, creation_date time;
postmortem: unique_id char(36) unique, team -> team cascade, author -> user, status char(255),
    title char(255), postmortem_data text, download_status smallint, updated_at time, creation_date time,
    number integer;
postmortem_incident: unique_id char(36) unique, postmortem -> postmortem cascade unindexed,
    incident -> incident cascade;
receipt: id sequence, trace_id char(36) unique, account -> account cascade unindexed,
    integration -> integration null set_null unindexed, service -> service null set_null unindexed,
    router -> global_router null set_null unindexed, source char(32), body blob, alerts integer,
    received_at time, replayed_at time null, state smallint, error text null, headers json null;
receipt_progress: receipt -> receipt cascade unique, alerts_done integer, events_written integer;
event: unique_id char(22) unique, receipt -> receipt cascade, position integer,
    integration -> integration null set_null unindexed, service -> service null set_null unindexed,
    incident -> incident null set_null unindexed, incident_created boolean, message text, summary text,
    alert_type smallint, entity_id char(255), suppressed boolean, alert json, source_at time null,
    creation_date time, stage char(16), state smallint, reasons json, rules json, error text null,
    deleted_integration -> deleted_integration null set_null unindexed;
entity: integration -> integration cascade unindexed, entity_id char(255), firing boolean,
    incident -> incident null set_null unindexed, last_incident -> incident null set_null unindexed,
    resolved_source_at time null, resolved_at time null, deferred_alert char(22) null, expires_at time null,
    repeats_at time null;
timer: incident -> incident cascade unindexed, kind char(32), key char(64), due_at time, done_at time null,
    outcome text null, fired boolean;
message: message_id char(64) unique, account -> account cascade unindexed, user -> user cascade unindexed,
    contact -> contact_method null set_null, channel smallint, kind char(16) null, requested_by text null,
    requested_address char(320) null, created_at time, next_attempt_at time, claimed_until time null,
    claimed_by integer null,
    first_attempt_at time null, attempts integer, state smallint, outcome text null, done_at time null,
    instead_of -> message null set_null unindexed, pieces_of char(64) null, group_key char(64) null,
    held_until time null, is_extended boolean, failed_over_at time null, failed_over boolean null;
notification: key char(255) unique, incident -> incident cascade, user -> user cascade,
    contact -> contact_method null set_null unindexed, rule -> notification_rule null set_null unindexed,
    kind char(16), reason text, not_before time, state smallint, outcome text null, done_at time null,
    message -> message cascade;
attempt: message -> message cascade, at time, outcome char(16), detail text, milliseconds integer,
    provider char(32) null, provider_id char(128) null, provider_state char(32) null, reported_at time null;
message_update: message_row bigint unique, channel smallint, version integer, due_at time,
    claimed_by integer null, attempts integer;
stakeholder_address: unique_id char(36) unique, account -> account cascade unindexed, email char(254),
    name char(255), creation_date time, number integer;
stakeholder_mail: key char(64) unique, account -> account cascade unindexed, incident -> incident cascade,
    user -> user null set_null, address -> stakeholder_address null set_null, name char(255),
    subject char(200), body text, author char(255), time_zone char(64), created_at time,
    message -> message null cascade, outcome text null;
outbound_delivery: unique_id char(36) unique, target -> outbound_target cascade,
    incident -> incident cascade, event char(16), created_at time, next_attempt_at time, attempts integer,
    last_attempt_at time null, state smallint, outcome text null, done_at time null;
callback: key char(64) unique, at time indexed, until time null indexed;
early_report: key char(64) unique, state char(32), reason text null, at time indexed;
lease: name char(64) unique, holder char(64), until time;
claim_holder: number integer unique;
listener_position: name char(64) unique, number bigint;
wrong_reply: number char(64), at time indexed;
rate_limit: account -> account cascade unindexed, operation char(64), recent json, used_at time null;
"""

INDEXES = """
UNIQUE INDEX addedapplication_account_id_unique_id ON "added_application" (account_id, unique_id);
UNIQUE INDEX customrole_account_id_name ON "custom_role" (account_id, name);
INDEX user_account_id_joining_date ON "user" (account_id, joining_date);
INDEX user_address ON "user" (LOWER(email));
UNIQUE INDEX identity_issuer_subject_user_id ON "identity" (issuer, subject, user_id);
INDEX change_account_id_at_id ON "change" (account_id, at, id);
INDEX change_account_id_batch ON "change" (account_id, batch);
INDEX change_removed ON "change" (at) WHERE removed IS NOT NULL;
INDEX change_of_object ON "change" (object_id, id) WHERE object_id <> '';
UNIQUE INDEX teammember_team_id_user_id ON "team_member" (team_id, user_id);
INDEX scheduleoverride_schedule_id_end_time ON "schedule_override" (schedule_id, end_time);
INDEX integration_expected ON "integration" (expected_at) WHERE expected_at IS NOT NULL;
UNIQUE INDEX maintenanceservice_maintenance_id_service_id ON "maintenance_service" (maintenance_id,
    service_id);
UNIQUE INDEX incident_account_id_incident_number ON "incident" (account_id, incident_number);
INDEX incident_listed ON "incident" (account_id, creation_date, id, status, team_id, service_id,
    assigned_to_id, escalation_policy_id, sla_id, team_priority_id);
INDEX incident_listed_open ON "incident" (account_id, creation_date, id, status, team_id, service_id,
    assigned_to_id, escalation_policy_id, sla_id, team_priority_id) WHERE status <= 2;
INDEX incident_merged ON "incident" (parent_id) WHERE parent_id IS NOT NULL;
UNIQUE INDEX incident_one_collecting ON "incident" (service_id) WHERE status < 3 AND collecting;
INDEX incident_open_of_service ON "incident" (service_id) WHERE status < 3;
UNIQUE INDEX incidenttag_incident_id_team_tag_id ON "incident_tag" (incident_id, team_tag_id);
UNIQUE INDEX incidentresponder_incident_id_user_id ON "incident_responder" (incident_id, user_id);
UNIQUE INDEX incidentresponder_incident_id_escalation_policy_id ON "incident_responder" (incident_id,
    escalation_policy_id);
UNIQUE INDEX incidentassignment_incident_id_role_id ON "incident_assignment" (incident_id, role_id);
INDEX drill_of_account ON "drill" (account_id, done_at);
UNIQUE INDEX postmortemincident_postmortem_id_incident_id ON "postmortem_incident" (postmortem_id,
    incident_id);
INDEX receipt_dead_letter ON "receipt" (id) WHERE state = 2;
INDEX receipt_dead_letter_of ON "receipt" (integration_id, id) WHERE state = 2;
INDEX receipt_of_integration ON "receipt" (integration_id, received_at);
INDEX receipt_pending ON "receipt" (service_id, id) WHERE state = 0;
INDEX receipt_to_route ON "receipt" (router_id, id) WHERE state = 0 AND router_id IS NOT NULL;
INDEX event_dead_letter ON "event" (id) WHERE state = 2;
INDEX event_dead_letter_of ON "event" (integration_id, id) WHERE state = 2;
INDEX event_of_deleted_integration ON "event" (deleted_integration_id)
    WHERE deleted_integration_id IS NOT NULL;
INDEX event_of_incident ON "event" (incident_id, id);
INDEX event_of_integration ON "event" (integration_id, id);
INDEX event_opener ON "event" (incident_id) WHERE incident_created;
INDEX event_pending ON "event" (service_id, receipt_id, position, id) WHERE state = 0;
UNIQUE INDEX entity_integration_id_entity_id ON "entity" (integration_id, entity_id);
INDEX entity_deferred ON "entity" (integration_id) WHERE deferred_alert IS NOT NULL;
INDEX entity_expiring ON "entity" (expires_at) WHERE expires_at IS NOT NULL;
INDEX entity_held ON "entity" (incident_id) WHERE incident_id IS NOT NULL;
INDEX entity_held_last ON "entity" (last_incident_id) WHERE last_incident_id IS NOT NULL;
INDEX timer_incident_id_key ON "timer" (incident_id, key);
INDEX timer_due ON "timer" (due_at) WHERE done_at IS NULL;
UNIQUE INDEX timer_pending ON "timer" (incident_id, key) WHERE done_at IS NULL;
INDEX message_due ON "message" (channel, account_id, next_attempt_at) WHERE state = 0;
INDEX message_failed ON "message" (channel, done_at) WHERE state = 3;
INDEX message_instead_of ON "message" (instead_of_id) WHERE instead_of_id IS NOT NULL;
INDEX message_of_pieces ON "message" (pieces_of) WHERE pieces_of IS NOT NULL;
INDEX message_of_user ON "message" (user_id, channel, state, done_at);
INDEX message_sent ON "message" (channel, done_at) WHERE state = 1;
INDEX attempt_provider ON "attempt" (provider_id) WHERE provider_id IS NOT NULL;
INDEX message_update_due ON "message_update" (channel, due_at);
UNIQUE INDEX stakeholderaddress_account_id_email ON "stakeholder_address" (account_id, email);
INDEX stakeholder_mail_sent ON "stakeholder_mail" (account_id, created_at) WHERE message_id IS NOT NULL;
INDEX outbound_delivery_due ON "outbound_delivery" (target_id, next_attempt_at) WHERE state = 0;
INDEX wrongreply_number_at ON "wrong_reply" (number, at);
UNIQUE INDEX ratelimit_account_id_operation ON "rate_limit" (account_id, operation);
"""

TYPES = {
    "bigauto": peewee.BigAutoField,
    "bigint": peewee.BigIntegerField,
    "blob": peewee.BlobField,
    "boolean": peewee.BooleanField,
    "integer": peewee.IntegerField,
    "json": JsonField,
    "sequence": SequenceField,
    "smallint": peewee.SmallIntegerField,
    "text": peewee.TextField,
    "time": UtcField,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "cascade": {"on_delete": "CASCADE"},
    "indexed": {"index": True},
    "null": {"null": True},
    "set_null": {"on_delete": "SET NULL"},
    "unindexed": {"index": False},
    "unique": {"unique": True},
}

# On PostgreSQL, triggers check these references of the tables with the most rows once for each statement, as
# foreign keys would do once for each row (decision 0094). A column, the table that it refers to, and what
# happens when the row there is deleted.
REFERENCES = """
receipt.account_id -> account: cascade
receipt.integration_id -> integration: set null
receipt.service_id -> service: set null
receipt.router_id -> global_router: set null
event.receipt_id -> receipt: cascade
event.integration_id -> integration: set null
event.service_id -> service: set null
event.incident_id -> incident: set null
event.deleted_integration_id -> deleted_integration: set null
entity.integration_id -> integration: cascade
entity.incident_id -> incident: set null
entity.last_incident_id -> incident: set null
incident.account_id -> account: cascade
incident.service_id -> service: set null
incident.team_id -> team: cascade
incident.escalation_policy_id -> escalation_policy: set null
incident.sla_id -> sla: set null
incident.team_priority_id -> priority: set null
incident.parent_id -> incident: set null
incident_log.incident_id -> incident: cascade
notification.incident_id -> incident: cascade
notification.user_id -> user: cascade
notification.contact_id -> contact_method: set null
notification.rule_id -> notification_rule: set null
notification.message_id -> message: cascade
"""

# Each query compares a column with a value or a list, and has no join: its plan, which a connection keeps,
# finds rows by their index also when the tables have grown (decision 0093).
FUNCTION = """
CREATE FUNCTION "{name}"() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$ {body} $$
"""

RAISE = """
RAISE foreign_key_violation USING
  MESSAGE = '{table}.{column} refers to a row that does not exist', TABLE = '{table}', COLUMN = '{column}';
"""
CHECK_ADDED = """
DECLARE
  ids record;
  wanted bigint[];
  count_of_found integer;
BEGIN
  SELECT {bounds} INTO ids FROM added;
  {checks}
  RETURN NULL;
END
"""
BOUNDS = 'min("{column}") AS first_{column}, max("{column}") AS last_{column}'
# Mostly, all rows refer to the same one. The lock makes a transaction that deletes this one wait, and waits
# for one that has deleted it.
CHECK_COLUMN = """
IF ids.first_{column} = ids.last_{column} THEN
  PERFORM FROM {schema}."{target}" WHERE id = ids.first_{column} FOR KEY SHARE;
  IF NOT FOUND THEN {error} END IF;
ELSIF ids.first_{column} < ids.last_{column} THEN
  wanted := ARRAY(SELECT DISTINCT "{column}" FROM added WHERE "{column}" IS NOT NULL);
  PERFORM FROM {schema}."{target}" WHERE id = ANY(wanted) FOR KEY SHARE;
  GET DIAGNOSTICS count_of_found = ROW_COUNT;
  IF count_of_found < cardinality(wanted) THEN {error} END IF;
END IF;
"""
CHECK_CHANGED = """
IF NEW."{column}" IS DISTINCT FROM OLD."{column}" AND NEW."{column}" IS NOT NULL THEN
  PERFORM FROM {schema}."{target}" WHERE id = NEW."{column}" FOR KEY SHARE;
  IF NOT FOUND THEN {error} END IF;
END IF;
"""
FOREIGN_KEY = """
SELECT k.conname
FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
WHERE k.contype = 'f' AND k.conrelid = quote_ident(%s)::regclass AND a.attname = %s
"""
FOLLOW_DELETION = """
DECLARE ids bigint[] := ARRAY(SELECT id FROM gone);
BEGIN
  {actions}
  RETURN NULL;
END
"""
# The last condition lets PostgreSQL use an index of the rows that have a value.
ON_DELETE = {
    "cascade": """
DELETE FROM {schema}."{table}" WHERE "{column}" = ANY(ids) AND "{column}" IS NOT NULL;
""",
    "set null": """
UPDATE {schema}."{table}" SET "{column}" = NULL WHERE "{column}" = ANY(ids) AND "{column}" IS NOT NULL;
""",
}


def list_columns():
    """Return the table, the name and whether a value is required, of each column but `id`."""
    return {
        (name, f"{column}_id" if kind == "->" else column, "null" not in words)
        for declaration in TABLES.split(";")[:-1]
        for name, _, columns in [declaration.strip().partition(": ")]
        for column, kind, *words in map(str.split, columns.split(","))
        if column != "id"
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
    if store().has_reference_triggers:
        replace_foreign_keys(db)


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


def replace_foreign_keys(db):
    # With the schema, the functions do not depend on the search path of a session.
    ((schema,),) = db.execute_sql("SELECT quote_ident(current_schema())").fetchall()
    references = [read_reference(line, schema) for line in REFERENCES.strip().splitlines()]
    for reference in references:
        drop_foreign_key(db, reference)
    for table, own in group_by("table", references).items():
        check_added(db, table, own)
        check_changed(db, table, own)
    for target, own in group_by("target", references).items():
        follow_deletion(db, target, own)


def read_reference(line, schema):
    table, column, target, on_delete = re.split(r"\.| -> |: ", line)
    return {"table": table, "column": column, "target": target, "on_delete": on_delete, "schema": schema}


def group_by(key, references):
    found: dict[str, list[dict[str, str]]] = {}
    for reference in references:
        found.setdefault(reference[key], []).append(reference)
    return found


def fill_in(template, references):
    return [template.format(**reference, error=RAISE.format(**reference)) for reference in references]


def drop_foreign_key(db, reference):
    ((name,),) = db.execute_sql(FOREIGN_KEY, (reference["table"], reference["column"])).fetchall()
    db.execute_sql(f'ALTER TABLE "{reference["table"]}" DROP CONSTRAINT "{name}"')


def check_added(db, table, references):
    bounds = ", ".join(fill_in(BOUNDS, references))
    body = CHECK_ADDED.format(bounds=bounds, checks="".join(fill_in(CHECK_COLUMN, references)))
    create_trigger(
        db,
        f"check_references_of_{table}",
        body,
        f'AFTER INSERT ON "{table}" REFERENCING NEW TABLE AS added FOR EACH STATEMENT',
        # The function does not use them: a backup reads there which tables come first.
        ", ".join(f"'{target}'" for target in group_by("target", references)),
    )


def check_changed(db, table, references):
    checks = "".join(fill_in(CHECK_CHANGED, references))
    columns = [f'"{reference["column"]}"' for reference in references]
    changed = " OR ".join(f"NEW.{column} IS DISTINCT FROM OLD.{column}" for column in columns)
    create_trigger(
        db,
        f"check_changed_references_of_{table}",
        f"BEGIN {checks} RETURN NULL; END",
        f'AFTER UPDATE OF {", ".join(columns)} ON "{table}" FOR EACH ROW WHEN ({changed})',
    )


def follow_deletion(db, target, references):
    actions = "".join(ON_DELETE[reference["on_delete"]].format(**reference) for reference in references)
    create_trigger(
        db,
        f"clear_references_to_{target}",
        FOLLOW_DELETION.format(actions=actions),
        f'AFTER DELETE ON "{target}" REFERENCING OLD TABLE AS gone FOR EACH STATEMENT',
    )


def create_trigger(db, name, body, when, arguments=""):
    db.execute_sql(FUNCTION.format(name=name, body=body))
    db.execute_sql(f'CREATE TRIGGER "{name}" {when} EXECUTE FUNCTION "{name}"({arguments})')
