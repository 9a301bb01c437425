"""A request does not wait for ever for a lock: that of a service, or SQLite's lock for writers."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest

from models.load.lane import lock_service
from models.store.limits import WEB, Limits
from models.store.sqlite import SQLITE_FILE
from models.store.store import connection, db
from tests.support.stores import SERVER, hold_write_lock


@pytest.fixture
def number(ask, world):
    body = {"title": "Disk full", "service": world.service.unique_id}
    return ask("POST", "/api/incidents/", body).json["incident_number"]


@pytest.fixture
def hold_lock(store, home, world):
    """Return a context manager that holds the lock that an acknowledgement needs."""

    @contextmanager
    def hold_row_lock():
        with store.write_transaction():
            lock_service(world.service.id)
            yield

    return (lambda: hold_write_lock(home)) if store.has_single_writer else hold_row_lock


def test_a_request_that_waits_too_long_for_a_lock_is_a_503(ask, number, store, hold_lock):
    store.set_limits(Limits(lock_s=0.2))

    def acknowledge():
        return ask("PATCH", f"/api/incidents/{number}/", {"status": 2})

    with ThreadPoolExecutor(1) as pool:
        with hold_lock():
            answer = pool.submit(acknowledge).result(timeout=10)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        store.set_limits(Limits(lock_s=30.0))
        assert pool.submit(acknowledge).result(timeout=10).status_code == 200


def test_alerts_are_accepted_while_others_hold_the_lock_of_a_service(app, ask, number, world, store):
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    store.set_limits(Limits(lock_s=5.0))
    path = f"/api/integration/generic/{world.integration.integration_key}/"

    with ThreadPoolExecutor(5) as pool:
        with store.write_transaction():
            lock_service(world.service.id)
            responses = [
                pool.submit(ask, "PATCH", f"/api/incidents/{number}/", {"status": 2}) for _ in range(4)
            ]
            alert = pool.submit(lambda: app.test_client().post(path, json={"message": "m"}))
            assert alert.result(timeout=10).status_code == 200
            assert not any(answer.done() for answer in responses)
        assert {answer.result(timeout=10).status_code for answer in responses} == {200}


def test_another_program_that_holds_the_lock_of_sqlite_causes_a_503(ask, number, store, home):
    """For example a backup."""
    if SERVER:
        pytest.skip("for SQLite")
    store.set_limits(Limits(lock_s=0.2))
    with closing(sqlite3.connect(home / SQLITE_FILE, isolation_level=None)) as other:
        other.execute("begin immediate")
        answer = ask("PATCH", f"/api/incidents/{number}/", {"status": 2})

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_the_limit_of_a_transaction_does_not_count_after_it(store, error):
    """Otherwise a later statement of the connection would not wait for a backup."""
    if SERVER:
        pytest.skip("for SQLite")
    with suppress(ZeroDivisionError), store.write_transaction(lock_s=0.0):
        assert db.execute_sql("pragma busy_timeout").fetchone()[0] < 1
        if error:
            raise error

    assert db.execute_sql("pragma busy_timeout").fetchone() == (10_000,)


def test_a_shorter_timeout_within_a_transaction_returns_to_that_of_the_process(empty_store):
    if empty_store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    empty_store.set_limits(Limits(lock_s=7.0))
    with connection(), empty_store.write_transaction():
        with empty_store.lock_timeout(0.05):
            pass
        assert db.execute_sql("show lock_timeout").fetchone() == ("7s",)


def test_a_web_process_waits_at_most_5_s_for_a_lock():
    assert WEB.lock_s == 5.0
