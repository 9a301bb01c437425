"""Check the references of the rows that alerts create once for each statement, not once for each row.

On PostgreSQL, triggers replace foreign keys of the tables with the most rows (decision 0094). SQLite keeps
them. Processes of the previous version need no change.
"""

import re

import peewee

# A column, the table that it refers to, and what happens when the row there is deleted.
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


def up(migrator, db):
    if not isinstance(db, peewee.PostgresqlDatabase):
        return
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
