"""What a lock on a row keeps others from, on a store whose rows are locked one by one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.load.lane import lock_service
from models.store.base import Busy, connection, db
from models.tables.events import Receipt
from tests.support.alerts import accept


def test_an_alert_is_accepted_while_its_service_is_worked_on(world, now, store):
    """A lane that is long at work must not keep the group commit, and with it every key, waiting."""
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    locked, done = threading.Event(), threading.Event()

    def accept_alerts():
        with connection(), store.write_transaction():
            lock_service(world.service.id)
            locked.set()
            done.wait()

    worker = threading.Thread(target=accept_alerts)
    worker.start()
    locked.wait()
    try:
        with store.write_transaction():
            db.execute_sql("set local lock_timeout = '500ms'")
            accept(world, now, message="m")
    finally:
        done.set()
        worker.join()

    assert Receipt.select().count() == 1


def test_whoever_is_impatient_is_told_that_somebody_else_is_busy(world, store):
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")

    def lock_impatiently():
        with connection(), store.write_transaction(), store.lock_timeout(0.05):
            lock_service(world.service.id)

    with ThreadPoolExecutor(1) as pool:
        with store.write_transaction():
            lock_service(world.service.id)
            with pytest.raises(Busy):
                pool.submit(lock_impatiently).result(timeout=10)
        pool.submit(lock_impatiently).result(timeout=10)


def test_only_what_is_locked_impatiently_is_given_up(world, store):
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    with store.write_transaction():
        with store.lock_timeout(0.05):
            lock_service(world.service.id)
        assert db.execute_sql("show lock_timeout").fetchone() == ("0",)


def test_threads_that_have_written_leave_no_open_files(store):
    def write_rows():
        with connection(), store.write_transaction():
            pass

    before = count_open_files()
    for _ in range(10):
        thread = threading.Thread(target=write_rows)
        thread.start()
        thread.join()

    # One connection more, which goes back to the pool.
    assert count_open_files() <= before + 5


def count_open_files():
    return len(list(Path("/dev/fd").iterdir()))
