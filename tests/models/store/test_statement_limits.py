"""A statement that PostgreSQL does not answer ends in this process, also if the server cannot end it."""

import threading

import psycopg
import pytest

from models.store.limits import WEB, WORKER, Limits
from models.store.store import STORE_ERRORS, connection, db
from tests.support import stores

pytestmark = pytest.mark.skipif(not stores.SERVER, reason="an embedded store has no connections")


def get_pid():
    return db.execute_sql("select pg_backend_pid()").fetchone()[0]


def test_the_server_ends_a_statement_and_the_connection_remains(empty_store):
    empty_store.set_limits(Limits(statement_s=0.2))
    with connection():
        pid = get_pid()
        with pytest.raises(STORE_ERRORS, match="statement timeout"):
            db.execute_sql("select pg_sleep(30)")
        assert get_pid() == pid


def test_locks_and_statements_have_their_limits(empty_store):
    empty_store.set_limits(Limits(lock_s=3.0, statement_s=7.0))
    with connection():
        assert db.execute_sql("show lock_timeout").fetchone() == ("3s",)
        assert db.execute_sql("show statement_timeout").fetchone() == ("7s",)


def test_a_statement_after_the_deadline_ends_and_the_next_connection_is_new(empty_store):
    with connection():
        first = get_pid()
    with (
        pytest.raises(STORE_ERRORS),
        connection(),
        empty_store.deadline(0.2),
        empty_store.write_transaction(),
    ):
        db.execute_sql("select pg_sleep(30)")
    with connection():
        assert get_pid() != first


def test_the_limit_of_the_process_ends_a_statement_that_the_server_does_not_end(empty_store, monkeypatch):
    empty_store.set_limits(Limits(statement_s=0.1))
    with connection():
        db.execute_sql("set statement_timeout = 0")
        monkeypatch.setattr("models.store.postgresql_pool.GRACE_S", 0.1)
        with pytest.raises(STORE_ERRORS, match="did not answer in time"):
            db.execute_sql("select pg_sleep(30)")


def test_idle_connections_are_closed_after_one_did_not_answer(empty_store):
    """They may hang too, and each would cost the next request its whole limit."""
    barrier, pids = threading.Barrier(3), []

    def work():
        with connection():
            pids.append(get_pid())
            barrier.wait(10)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(STORE_ERRORS), connection(), empty_store.deadline(0.1):
        db.execute_sql("select pg_sleep(30)")

    with connection():
        assert get_pid() not in pids


def test_a_long_statement_has_its_own_limit(empty_store, monkeypatch):
    empty_store.set_limits(Limits(statement_s=0.1))
    with connection(), empty_store.write_transaction():
        with empty_store.long_statements(20.0), monkeypatch.context() as patched:
            patched.setattr("models.store.postgresql_pool.GRACE_S", 0.0)
            db.execute_sql("select pg_sleep(0.3)")
        assert db.execute_sql("show statement_timeout").fetchone() == ("100ms",)


def test_an_earlier_deadline_counts(empty_store):
    with empty_store.deadline(0.1), empty_store.deadline(30), pytest.raises(STORE_ERRORS), connection():
        db.execute_sql("select pg_sleep(20)")


def test_only_processes_that_serve_have_limits(empty_store):
    """Migrations and reports of commands may take longer."""
    with connection():
        assert db.execute_sql("show statement_timeout").fetchone() == ("0",)
    assert WEB.statement_s < WORKER.statement_s


def test_a_connection_that_was_opened_while_the_server_was_read_only_is_not_used_again(empty_store, home):
    name = psycopg.conninfo.conninfo_to_dict(stores.get_url(home))["dbname"]
    with psycopg.connect(stores.get_url(home), autocommit=True) as other:
        other.execute(f'alter database "{name}" set default_transaction_read_only = on')
        with connection():
            read_only = get_pid()
            with pytest.raises(STORE_ERRORS, match="read-only"):
                db.execute_sql("create table x ()")
        other.execute("set default_transaction_read_only = off")
        other.execute(f'alter database "{name}" reset default_transaction_read_only')

    with connection():
        assert get_pid() != read_only
        db.execute_sql("create table x ()")


def test_idle_read_only_connections_are_closed_after_one_failed(empty_store, home):
    """After a failover, only one request fails, not one for each connection of the pool."""
    name = psycopg.conninfo.conninfo_to_dict(stores.get_url(home))["dbname"]
    barrier = threading.Barrier(4)

    def work():
        with connection():
            db.execute_sql("select 1")
            barrier.wait(10)

    with psycopg.connect(stores.get_url(home), autocommit=True) as other:
        other.execute(f'alter database "{name}" set default_transaction_read_only = on')
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        other.execute("set default_transaction_read_only = off")
        other.execute(f'alter database "{name}" reset default_transaction_read_only')

    with connection(), pytest.raises(STORE_ERRORS, match="read-only"):
        db.execute_sql("create table x ()")
    for table in ("a", "b", "c"):
        with connection():
            db.execute_sql(f"create table {table} ()")
