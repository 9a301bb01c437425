"""Row locks, on a store that locks single rows, and lock files."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.load.lane import lock_service
from models.store.store import Busy, connection, db
from models.tables.events import Receipt
from tests.support.alerts import accept


def test_an_alert_is_accepted_while_a_worker_locks_its_service(world, now, store):
    """A slow lane must not block the group commit, which serves all integrations."""
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    locked, done = threading.Event(), threading.Event()

    def hold_lock():
        with connection(), store.write_transaction():
            lock_service(world.service.id)
            locked.set()
            done.wait()

    worker = threading.Thread(target=hold_lock)
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


def test_a_transaction_with_a_lock_timeout_gets_busy_while_another_one_holds_the_lock(world, store):
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")

    def lock_with_timeout():
        with connection(), store.write_transaction(), store.lock_timeout(0.05):
            lock_service(world.service.id)

    with ThreadPoolExecutor(1) as pool:
        with store.write_transaction():
            lock_service(world.service.id)
            with pytest.raises(Busy):
                pool.submit(lock_with_timeout).result(timeout=10)
        pool.submit(lock_with_timeout).result(timeout=10)


def test_a_lock_timeout_ends_with_its_block(world, store):
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    with store.write_transaction():
        with store.lock_timeout(0.05):
            lock_service(world.service.id)
        assert db.execute_sql("show lock_timeout").fetchone() == ("0",)


def test_ended_threads_leave_no_open_lock_files(store):
    def write_rows():
        with connection(), store.write_transaction():
            pass

    before = count_open_files()
    for _ in range(10):
        thread = threading.Thread(target=write_rows)
        thread.start()
        thread.join()

    # One more connection, which goes back to the pool.
    assert count_open_files() <= before + 5


def count_open_files():
    return len(list(Path("/dev/fd").iterdir()))
