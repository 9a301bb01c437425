"""Connections to PostgreSQL: ended ones cost nobody anything, and threads share a few of them in peace."""

import socket
import threading
import time

import peewee
import psycopg
import pytest

from models.store import postgresql
from models.store.base import STORE_ERRORS, connection, db, open_store
from tests.support import stores
from tests.support.polling import wait_until

pytestmark = pytest.mark.skipif(not stores.SERVER, reason="an embedded store has no connections")


def run_in_threads(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def end_all_connections(home):
    """As an operator or a restart does; returns when they have ended."""
    other_connections = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(stores.get_url(home), autocommit=True) as server:
        server.execute(f"select pg_terminate_backend(pid) {other_connections}")
        wait_until(lambda: server.execute(f"select count(*) {other_connections}").fetchone() == (0,))


def test_idle_connections_that_were_ended_cost_no_request_anything(empty_store, home):
    barrier = threading.Barrier(8)

    def work():
        with connection():
            db.execute_sql("select 1")
            barrier.wait(10)

    run_in_threads(8, work)
    end_all_connections(home)

    for _ in range(8):
        with connection():
            assert db.execute_sql("select 1").fetchone() == (1,)


def test_a_table_that_nobody_has_counted_yet_is_looked_into_by_its_index(store):
    with connection():
        plan = db.execute_sql("explain select * from receipt where trace_id = 'x'").fetchall()

    assert "Index Scan" in str(plan)


def test_a_connection_that_is_ended_at_work_is_an_error_of_the_store(empty_store, home):
    def work():
        with connection(), empty_store.write_transaction():
            db.execute_sql("select 1")
            end_all_connections(home)
            db.execute_sql("select 1")

    with pytest.raises(STORE_ERRORS):
        work()
    with connection():
        assert db.execute_sql("select 1").fetchone() == (1,)


def test_a_server_that_may_only_be_read_is_an_error_of_the_store(empty_store):
    def work():
        with connection(), empty_store.write_transaction():
            db.execute_sql("set transaction read only")
            db.execute_sql("create table x ()")

    with pytest.raises(STORE_ERRORS):
        work()


def test_more_threads_than_connections_each_get_their_turn(empty_store):
    durations = []

    def work():
        for _ in range(20):
            started = time.monotonic()
            with connection():
                durations.append(time.monotonic() - started)
                db.execute_sql("select pg_sleep(0.002)")

    run_in_threads(postgresql.MAX_CONNECTIONS + 24, work)

    assert len(durations) == 20 * (postgresql.MAX_CONNECTIONS + 24)
    with connection():
        query = "select count(*) from pg_stat_activity where datname = current_database()"
        assert db.execute_sql(query).fetchone()[0] <= postgresql.MAX_CONNECTIONS


def test_a_host_that_never_answers_costs_all_threads_one_wait(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        open_store(f"postgresql://tocsin@127.0.0.1:{port}/none?connect_timeout=2", home)
        refused = []

        def work():
            try:
                with connection():
                    pass
            except peewee.OperationalError as error:
                refused.append(str(error))

        started = time.monotonic()
        run_in_threads(16, work)
        seconds = time.monotonic() - started

    assert len(refused) == 16
    assert seconds < 4


def test_a_host_that_vanishes_keeps_its_locks_for_a_minute_at_most(empty_store):
    with connection():
        setting = db.execute_sql("show idle_in_transaction_session_timeout").fetchone()

    assert setting == ("1min",)
