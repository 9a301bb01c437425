"""A worker that starts has connections to PostgreSQL that know the tables of its queries."""

import importlib

import pytest

from models.store import postgresql_pool, prepared
from models.store.opening import open_store
from models.store.peewee_internals import get_table_name
from models.store.store import connection, db
from models.store.warm_up import compile_triggers, warm_up
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from tests.support import stores
from tests.support.polling import wait_until
from tests.support.postgresql import reused_connections

needs_server = pytest.mark.skipif(not stores.SERVER, reason="an embedded store has no connections")


def count_connections():
    with connection():
        mine = "datname = current_database() and application_name = 'tocsin'"
        return db.execute_sql(f"select count(*) from pg_stat_activity where {mine}").fetchone()[0]


@needs_server
def test_each_connection_is_open_before_the_first_alert(store):
    reused_connections.close_all()
    # The server ends the sessions of closed connections a little later.
    wait_until(lambda: count_connections() == 1)

    warm_up(5)

    assert count_connections() == 1 + 5


@needs_server
def test_each_prepared_query_of_a_worker_is_planned_and_none_is_run(world, statements):
    importlib.import_module("workers.main")
    with connection(), statements() as seen:
        prepared.explain_all()

    assert len(seen) == len(prepared._all) > 100
    assert all(text.startswith("EXPLAIN ") for text, _ in seen)


@needs_server
def test_the_triggers_that_check_references_are_compiled_and_nothing_is_inserted(world, statements):
    tables = (Receipt, Event, Entity, Incident, IncidentLog, Notification)
    with connection():
        before = [table.select().count() for table in tables]
        with statements() as seen:
            compile_triggers()

        inserted = {text.split()[2] for text, _ in seen if text.startswith("INSERT")}
        assert inserted == {f'"{get_table_name(table)}"' for table in tables}
        assert [table.select().count() for table in tables] == before


@needs_server
def test_a_worker_starts_although_the_database_refuses_connections(home, monkeypatch):
    monkeypatch.setattr(postgresql_pool, "RECONNECT_DELAY_S", 0.0)
    open_store("postgresql://tocsin@127.0.0.1:1/none", home)

    warm_up(2)


@pytest.mark.skipif(bool(stores.SERVER), reason="for the embedded store")
def test_an_embedded_store_needs_no_warm_up(store, statements):
    with statements() as seen:
        warm_up(5)

    assert not seen
