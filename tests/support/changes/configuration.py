"""The configuration in the database, to compare before and after a write or an undo.

Each table and column belongs to it that is not named here. So a new one does.
"""

from models.store.peewee_internals import get_fields, get_referred, get_table_name, list_references
from models.store.store import db
from tests.support.stores import TABLES

Rows = dict[str, dict[str, dict[str, object]]]

# Tables that are no configuration, by the reason.
OTHERS = {
    "what happens": (
        "receipt", "receipt_progress", "event", "entity", "deleted_integration", "incident", "incident_group",
        "incident_log", "timer", "drill", "outbound_delivery",
    ),
    "what people write about incidents": (
        "incident_tag", "incident_note", "incident_responder", "incident_assignment", "incident_task",
        "postmortem", "postmortem_incident", "post_incident_task",
    ),
    "requests of a person to another; what they change is configuration": ("shift_swap",),
    "messages": (
        "message", "notification", "attempt", "message_update", "stakeholder_mail", "callback",
        "early_report", "wrong_reply",
    ),
    "steps of a verification": ("contact_code", "contact_link"),
    "sign-ins": (
        "session", "password", "sign_in_link", "passkey", "identity", "sign_in_step", "sign_in_rate",
        "failed_authentication",
    ),
    "the installation": (
        "secret", "liveness", "untrusted_proxy", "lease", "claim_holder", "listener_position", "rate_limit",
        "config_version",
    ),
    "the history": ("change",),
}  # fmt: skip
# Columns that are no configuration, by table.
COLUMNS = {
    # Numbers of incidents.
    "account": ("last_incident_number",),
    # A verification. The address of the calendar is a link, which its person replaces.
    "user": ("is_verified", "verified_email", "calendar_key", "number"),
    "contact_method": ("verified_value",),
    "token": ("last_used_at",),
    # Workers write them.
    "integration": ("expected_at", "last_ping_at", "is_missing", "is_extended"),
    "outbound_target": ("failures", "retry_at", "claimed_until", "claimed_by", "served_at"),
    "escalation_policy": ("next_target",),
    # Whether one of the integrations has a target.
    "service": ("has_outbound",),
}
_OTHER_TABLES = {name for names in OTHERS.values() for name in names}
CONFIGURATION = tuple(table for table in TABLES if get_table_name(table) not in _OTHER_TABLES)


def read_configuration() -> Rows:
    """Return the rows of the configuration by table and id, without numbers of versions.

    References are the unique_ids of the rows to which they refer. A row without a unique_id has that of the
    row to which it belongs.
    """
    found: Rows = {}
    ids: dict[tuple[str, object], str] = {}
    for table in CONFIGURATION:
        name = get_table_name(table)
        fields = get_fields(table)
        rows = db.execute_sql(f'select {", ".join(_quote(each.column_name) for each in fields.values())}'
                              f" from {_quote(name)} order by id").fetchall()  # fmt: skip
        left = {"id", "number", *COLUMNS.get(name, ())}
        references = {each.name: get_table_name(get_referred(each)) for each in list_references(table)}
        found[name] = {}
        for row in rows:
            values: dict[str, object] = dict(zip(fields, row, strict=True))
            for column, referred in references.items():
                if values[column] is not None:
                    values[column] = ids.get((referred, values[column]), values[column])
            names = ("unique_id", "digest", next(iter(references), "id"))
            key = str(next(values[each] for each in names if each in values))
            ids[name, values["id"]] = key
            found[name][key] = {column: value for column, value in values.items() if column not in left}
    return found


def compare_rows(before: Rows, after: Rows) -> list[str]:
    """Return what differs, as texts: table, id and columns."""
    found = []
    for name in before:
        for key in dict.fromkeys((*before[name], *after[name])):
            was, now = before[name].get(key), after[name].get(key)
            if was is None or now is None:
                found.append(f"{name} {key}: {'new' if was is None else 'gone'}: {was or now}")
            elif was != now:
                changed = {column: (was[column], now[column]) for column in was if was[column] != now[column]}
                found.append(f"{name} {key}: {changed}")
    return found


def _quote(name: str) -> str:
    return f'"{name}"'
