"""Fill the tables of alerts with rows whose work is done, as after a quiet week. Only on PostgreSQL."""

import peewee

from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus, WorkState
from models.store.fields import JsonField, Table, UtcField
from models.store.peewee_internals import get_table_name, list_fields
from models.store.store import db
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentGroup, IncidentLog, IncidentNote, IncidentResponder
from models.tables.notifications import Attempt, Message, Notification
from models.tables.timers import Timer

ROWS = 3_000
# Each table follows those that it refers to.
TABLES: tuple[type[Table], ...] = (
    Incident, IncidentGroup, IncidentLog, IncidentNote, IncidentResponder, Receipt, Event,
    Entity, Timer, Message, Notification, Attempt,
)  # fmt: skip
# The columns that say that no work is left.
DONE: dict[str, dict[str, str]] = {
    "incident": {"status": str(int(IncidentStatus.RESOLVED)), "resolved_date": "now()"},
    "receipt": {"state": str(int(WorkState.DONE))},
    "event": {"state": str(int(WorkState.DONE))},
    "timer": {"done_at": "now()"},
    "message": {"state": str(int(MessageStatus.SENT)), "done_at": "now()"},
    "notification": {"state": str(int(NotificationStatus.SENT)), "done_at": "now()"},
}


def fill_with_done_rows(rows: int = ROWS) -> None:
    """Insert this many rows into each table, and let PostgreSQL count them.

    Row n of a table refers to row n of the others, and to the first row of the tables of the configuration.
    """
    for table in TABLES:
        fixed = DONE.get(get_table_name(table), {})
        values = {
            field.column_name: fixed.get(field.column_name) or _build_value(field)
            for field in list_fields(table)
        }
        columns = ", ".join(f'"{name}"' for name in values)
        db.execute_sql(
            f'INSERT INTO "{get_table_name(table)}" ({columns})'
            f" SELECT {', '.join(values.values())} FROM generate_series(1, {rows}) AS n"
        )
    db.execute_sql("ANALYZE")


def _build_value(field: peewee.Field) -> str:
    if isinstance(field, peewee.ForeignKeyField):
        if field.rel_model in TABLES and field.rel_model is not field.model:
            return "n"
        if field.null:
            return "NULL"
        return f'(SELECT MIN(id) FROM "{get_table_name(field.rel_model)}")'
    if field.primary_key:
        return "n"
    if field.null:
        return "NULL"
    if isinstance(field, UtcField):
        return "now() - make_interval(secs => n)"
    if isinstance(field, JsonField):
        return "'{}'"
    if isinstance(field, peewee.BooleanField):
        return "FALSE"
    if isinstance(field, peewee.BlobField):
        return "''::bytea"
    if isinstance(field, peewee.IntegerField):
        return "n"
    return f"LEFT(MD5(n::text), {getattr(field, 'max_length', 32)})"
