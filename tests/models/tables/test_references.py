"""A row refers only to rows that exist, and follows the deletion of such a row as its model declares.

PostgreSQL checks the tables that alerts fill with triggers instead of foreign keys (decision 0094).
"""

from contextlib import contextmanager
from datetime import UTC, datetime

import peewee
import psycopg
import pytest

from models.domain.reasons import Reason
from models.store import bulk
from models.store.peewee_internals import get_table_name, list_references
from models.store.store import db
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from tests.support import upgrades
from tests.support.offenders import list_offenders
from tests.support.stores import SERVER, TABLES, get_url

LARGE = {
    get_table_name(table): table for table in (Receipt, Event, Entity, Incident, IncidentLog, Notification)
}
FIELDS = [field for table in LARGE.values() for field in list_references(table)]
NO_ROW = 999

needs_server = pytest.mark.skipif(not SERVER, reason="an embedded store has one writer and foreign keys")


@pytest.fixture
def filled(store):
    """Three rows in every table; each refers to the rows with its own number."""
    names = {get_table_name(model) for model in TABLES}
    upgrades.fill({name: each for name, each in upgrades.list_tables().items() if name in names}, first=1)


def insert(table, number, **changed):
    """Insert a row whose values come from the number. It refers to the rows 1, except `changed`."""
    columns = [column for column in db.get_columns(table) if not column.primary_key]
    targets = {field.column_name for field in list_references(get_model(table))}
    row = {
        column.name: 1 if column.name in targets else upgrades.make_value(column, number)
        for column in columns
    }
    row |= changed
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join([db.param] * len(row))
    sql = f'insert into "{table}" ({names}) values ({marks}) returning id'
    return db.execute_sql(sql, list(row.values())).fetchone()[0]


def get_model(table):
    return next(model for model in TABLES if get_table_name(model) == table)


def read(field, row):
    """Return the value of a column in a list; an empty list if there is no such row."""
    sql = f'select "{field.column_name}" from "{get_table_name(field.model)}" where id = {db.param}'
    return [value for (value,) in db.execute_sql(sql, (row,)).fetchall()]


def delete(table, row):
    db.execute_sql(f'delete from "{table}" where id = {db.param}', (row,))


def update(field, row, value):
    table = get_table_name(field.model)
    db.execute_sql(
        f'update "{table}" set "{field.column_name}" = {db.param} where id = {db.param}', (value, row)
    )


def list_fields_where(check):
    """Return the columns that a check of a row that nothing refers to refuses. What it does is undone."""

    def undo(field):
        with db.atomic() as transaction:
            check(field, insert(get_table_name(field.rel_model), 20))
            transaction.rollback()

    return list_offenders(undo, FIELDS, lambda field: f"{get_table_name(field.model)}.{field.name}")


def test_a_new_row_that_refers_to_no_row_is_refused(filled):
    def check(field, target):
        table = get_table_name(field.model)
        with pytest.raises(peewee.IntegrityError), db.atomic():
            insert(table, 30, **{field.column_name: NO_ROW})
        row = insert(table, 30, **{field.column_name: target})
        assert read(field, row) == [target]

    assert list_fields_where(check) == []


def test_a_row_that_is_changed_to_refer_to_no_row_is_refused(filled):
    def check(field, target):
        with pytest.raises(peewee.IntegrityError), db.atomic():
            update(field, 1, NO_ROW)
        update(field, 1, target)
        assert read(field, 1) == [target]

    assert list_fields_where(check) == []


def test_a_row_follows_the_deletion_of_the_row_that_it_refers_to(filled):
    def check(field, target):
        other = insert(get_table_name(field.model), 30)
        row = insert(get_table_name(field.model), 31, **{field.column_name: target})
        if field.on_delete is None:
            with pytest.raises(peewee.IntegrityError), db.atomic():
                delete(get_table_name(field.rel_model), target)
        else:
            delete(get_table_name(field.rel_model), target)
        assert read(field, row) == {None: [target], "CASCADE": [], "SET NULL": [None]}[field.on_delete]
        assert read(field, other) == [1]

    assert list_fields_where(check) == []


@pytest.mark.parametrize("table", ["team", "service", "integration", "global_router", "incident", "receipt"])
def test_no_row_refers_to_anything_that_was_deleted_with_a_row(filled, table):
    delete(table, 1)

    assert list_wrong_references() == []


def test_nothing_is_left_of_a_deleted_account(filled):
    # The users of an account own its teams, and cannot be deleted before them.
    delete("team", 1)
    delete("account", 1)

    assert list_wrong_references() == []
    assert [name for name in LARGE if read(LARGE[name].id, 1)] == []


def list_wrong_references():
    """Return the columns of all tables that refer to rows that do not exist."""
    found = []
    for model in TABLES:
        for field in list_references(model):
            column, targets = f'"{field.column_name}"', f'select id from "{get_table_name(field.rel_model)}"'
            where = f"{column} is not null and {column} not in ({targets})"
            sql = f'select 1 from "{get_table_name(model)}" where {where} limit 1'
            if db.execute_sql(sql).fetchone():
                found.append(field)
    return found


def test_one_wrong_row_of_a_statement_is_found(filled):
    log = {"at": datetime(2026, 3, 4, 12, tzinfo=UTC), "what": "created", "reason": Reason("created")}
    with pytest.raises(peewee.IntegrityError), db.atomic():
        bulk.insert(
            IncidentLog,
            [{**log, "incident": incident, "author_kind": "system"} for incident in (1, NO_ROW, 2)],
        )

    assert IncidentLog.select().count() == upgrades.ROWS


@contextmanager
def another_connection(home):
    with psycopg.connect(get_url(home)) as session:
        session.execute("set lock_timeout = '50ms'")
        session.commit()
        yield session


@needs_server
def test_a_row_that_a_transaction_refers_to_is_not_deleted_before_its_end(filled, home):
    with another_connection(home) as other:
        with db.atomic():
            event = insert("event", 30, service_id=1)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("delete from service where id = 1")
            other.rollback()

        other.execute("delete from service where id = 1")

    assert read(Event.service, event) == [None]


@needs_server
@pytest.mark.parametrize(
    "change",
    [
        "update event set service_id = 1 where id = 2",
        "insert into receipt (trace_id, account_id, service_id, source, body, alerts, received_at, state) "
        "values ('trace', 2, 1, 'generic', '', 1, now(), 0)",
    ],
    ids=["changed", "new"],
)
def test_a_reference_waits_for_a_transaction_that_deletes_the_row(filled, home, change):
    with another_connection(home) as other:
        with db.atomic():
            delete("service", 1)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(change)
            other.rollback()

        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            other.execute(change)


@pytest.fixture
def old_plans(filled):
    """Let this connection plan the queries of the triggers while the tables have few rows, then fill them."""
    delete("incident", 2)
    db.execute_sql("vacuum analyze receipt, incident, event, entity, incident_log, notification")
    with db.atomic():
        add_incidents(20)
        db.execute_sql(ADD_LOGS)
        for table in ("incident", "receipt"):
            delete(table, 1)
        db.rollback()
    add_incidents(2000)
    db.execute_sql(
        "insert into event (unique_id, receipt_id, position, incident_id, incident_created, message, "
        "summary, alert_type, entity_id, suppressed, alert, creation_date, stage, state, reasons, rules) "
        "select 'event' || id, 3, 1, id, true, 'm', '', 1, 'entity', false, '{}', now(), '', 1, '[]', '[]' "
        "from incident"
    )
    db.execute_sql(
        "insert into receipt (trace_id, account_id, source, body, alerts, received_at, state) "
        "select 'trace' || n, 3, 'generic', '', 1, now(), 1 from generate_series(1, 2000) n"
    )


def add_incidents(count):
    columns = (
        "unique_id, account_id, incident_number, incident_key, team_id, title, summary, status, urgency, "
        "creation_date, escalating, escalation_run, run_started_at, next_step, paged_someone, exhausted, "
        "collecting"
    )
    db.execute_sql(
        f"insert into incident ({columns}) "
        "select 'unique' || n, 3, n + 100, 'key' || n, 3, 'title', '', 3, 1, now(), "
        f"false, 1, now(), 0, false, false, false from generate_series(1, {count}) n"
    )


ADD_LOGS = (
    "insert into incident_log (incident_id, at, what, reason, author_kind) "
    "select id, now(), 'created', '[]', 'system' from incident order by id desc limit 50"
)


@needs_server
def test_new_rows_find_others_by_an_index_although_the_plans_are_old(old_plans):
    with db.atomic():
        before = count_reads("incident")
        db.execute_sql(ADD_LOGS)

        # Each of 50 incidents is read by the statement and by its trigger.
        assert count_reads("incident") - before <= 2 * 50


@needs_server
@pytest.mark.parametrize("table", ["incident", "receipt"])
def test_rows_to_delete_are_found_by_an_index_although_the_plans_are_old(old_plans, table):
    sql = f"select array(select id from {table} order by id desc limit 20)"
    ((newest,),) = db.execute_sql(sql).fetchall()
    with db.atomic():
        tables = (table, "event", "entity", "incident_log", "notification")
        before = sum(map(count_reads, tables))
        db.execute_sql(f"delete from {table} where id = any(%s)", (newest,))

        assert sum(map(count_reads, tables)) - before < 200


def count_reads(table):
    """Return the number of rows that this transaction has read."""
    sql = "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables where relname = %s"
    return db.execute_sql(sql, (table,)).fetchone()[0]


@needs_server
def test_the_triggers_do_not_depend_on_the_search_path(filled):
    with db.atomic():
        db.execute_sql("set local search_path = ''")
        log = "insert into public.incident_log (incident_id, at, what, reason, author_kind) values "
        db.execute_sql(log + "(1, now(), 'created', '[]', 'system'), (2, now(), 'created', '[]', 'system')")
        db.execute_sql("update public.event set service_id = 2 where id = 1")
        db.execute_sql("delete from public.receipt where id = 1")

    assert read(Event.id, 1) == []
