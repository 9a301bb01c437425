"""Connections to PostgreSQL: closed connections, and threads that share a pool."""

import socket
import threading
import time

import peewee
import psycopg
import pytest

from models.store import postgresql_pool
from models.store.limits import MAX_CONNECTIONS, WEB, Use
from models.store.opening import open_store
from models.store.store import STORE_ERRORS, connection, db, store
from tests.support import stores
from tests.support.polling import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(not stores.SERVER, reason="an embedded store has no connections")


def run_in_threads(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def end_all_connections(home):
    """Close all connections on the server, as an operator or a restart does; return when they are closed."""
    other_connections = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(stores.get_url(home), autocommit=True) as server:
        server.execute(f"select pg_terminate_backend(pid) {other_connections}")
        wait_until(lambda: server.execute(f"select count(*) {other_connections}").fetchone() == (0,))


def test_a_request_does_not_fail_after_the_server_closed_idle_connections(empty_store, home):
    barrier = threading.Barrier(8)

    def work():
        with connection():
            db.execute_sql("select 1")
            barrier.wait(PATIENCE_S)

    run_in_threads(8, work)
    end_all_connections(home)

    for _ in range(8):
        with connection():
            assert db.execute_sql("select 1").fetchone() == (1,)


def test_a_table_without_statistics_is_searched_by_its_index(store):
    with connection():
        plan = db.execute_sql("explain select * from receipt where trace_id = 'x'").fetchall()

    assert "Index Scan" in str(plan)


def test_a_connection_that_is_closed_in_a_transaction_raises_a_store_error(empty_store, home):
    def work():
        with connection(), empty_store.write_transaction():
            db.execute_sql("select 1")
            end_all_connections(home)
            db.execute_sql("select 1")

    with pytest.raises(STORE_ERRORS):
        work()
    with connection():
        assert db.execute_sql("select 1").fetchone() == (1,)


def test_a_read_only_server_raises_a_store_error(empty_store):
    def work():
        with connection(), empty_store.write_transaction():
            db.execute_sql("set transaction read only")
            db.execute_sql("create table x ()")

    with pytest.raises(STORE_ERRORS):
        work()


def test_each_thread_gets_a_connection_when_there_are_more_threads_than_connections(empty_store):
    durations = []

    def work():
        for _ in range(20):
            started = time.monotonic()
            with connection():
                durations.append(time.monotonic() - started)
                db.execute_sql("select pg_sleep(0.002)")

    run_in_threads(MAX_CONNECTIONS + 24, work)

    assert len(durations) == 20 * (MAX_CONNECTIONS + 24)
    with connection():
        query = "select count(*) from pg_stat_activity where datname = current_database()"
        assert db.execute_sql(query).fetchone()[0] <= MAX_CONNECTIONS


def test_a_host_without_a_reply_delays_all_threads_by_one_timeout(home, monkeypatch):
    # A thread that starts late connects no more.
    monkeypatch.setattr(postgresql_pool, "RECONNECT_DELAY_S", 60.0)
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
    # One after the other, they would need 32 s.
    assert seconds < 16


def test_the_server_ends_a_session_that_hangs_in_a_transaction_or_whose_host_is_lost(empty_store):
    names = ("idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval",
             "tcp_keepalives_count", "tcp_user_timeout")  # fmt: skip
    with connection():
        found = [db.execute_sql(f"show {name}").fetchone()[0] for name in names]
        over_tcp = not db.execute_sql("select inet_client_addr() is null").fetchone()[0]

    # On a Unix socket, the others read as zero.
    assert found == ["15s", *(["5", "2", "2", "10000"] if over_tcp else "0000")]


def test_a_read_transaction_may_compute_for_longer(empty_store):
    with connection():
        with store().read_transaction():
            inside = db.execute_sql("show idle_in_transaction_session_timeout").fetchone()
        after = db.execute_sql("show idle_in_transaction_session_timeout").fetchone()

    assert (inside, after) == (("1min",), ("15s",))


def test_work_that_hangs_leaves_connections_for_alerts_and_health_checks(empty_store):
    empty_store.set_limits(WEB)
    may_end, begun = threading.Event(), threading.Semaphore(0)

    def hang(use):
        with connection(use):
            begun.release()
            may_end.wait(30)

    hanging = [Use.KEYS] * WEB.connections[Use.KEYS] + [Use.OTHER] * WEB.connections[Use.OTHER]
    threads = [threading.Thread(target=hang, args=(use,)) for use in hanging]
    for thread in threads:
        thread.start()
    for _ in hanging:
        assert begun.acquire(timeout=10)

    with connection(Use.RESERVED):
        assert db.execute_sql("select 1").fetchone() == (1,)
    with empty_store.deadline(0.05), pytest.raises(STORE_ERRORS), connection():
        pass
    may_end.set()
    for thread in threads:
        thread.join()
    with connection():
        assert db.execute_sql("select 1").fetchone() == (1,)


def test_the_uses_of_connections_need_no_more_than_the_pool_has():
    assert set(WEB.connections) == set(Use)
    assert sum(WEB.connections.values()) <= MAX_CONNECTIONS
