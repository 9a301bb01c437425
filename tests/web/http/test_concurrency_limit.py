"""An account runs one expensive request at a time, in all web processes together."""

import json
import threading
from datetime import timedelta

import pytest

from models.store.limits import Limits
from models.store.store import LockTimeout, connection, db, store
from models.tables.accounts import RateLimit
from tests.support.polling import PATIENCE_S
from tests.support.stores import SERVER, hold_write_lock
from web.http.concurrency_limit import LEASE_S, ConcurrencyLimit
from web.http.errors import Throttled


def start_processes(count=2):
    """Return the limits of some processes: they share nothing but the store."""
    return [ConcurrencyLimit(2, "simulate") for _ in range(count)]


def test_the_limit_of_an_account_holds_in_all_processes(world):
    here, there = start_processes()
    with here.acquire(world.account):
        with pytest.raises(Throttled), there.acquire(world.account):
            pass
        with there.acquire(world.mallory.account):
            pass

    with there.acquire(world.account):
        pass


def test_different_operations_have_different_limits(world):
    simulate, rules_try = ConcurrencyLimit(2, "simulate"), ConcurrencyLimit(2, "rules/try")

    with simulate.acquire(world.account), rules_try.acquire(world.account):
        assert RateLimit.select().count() == 2


@pytest.mark.parametrize("error", [ZeroDivisionError, Throttled(1)])
def test_a_request_that_fails_releases_its_lease(world, error):
    here, there = start_processes()
    with pytest.raises((ZeroDivisionError, Throttled)), here.acquire(world.account):
        raise error

    with there.acquire(world.account):
        pass


@pytest.mark.parametrize(("moved", "is_free"), [(LEASE_S - 1, False), (LEASE_S + 1, True), (-3600, True)])
def test_the_lease_of_a_killed_process_ends(world, monkeypatch, moved, is_free):
    killed, there = start_processes()
    held = killed.acquire(world.account)
    held.__enter__()
    at = store().now() + timedelta(seconds=moved)
    monkeypatch.setattr(type(store()), "now", lambda self: at)

    try:
        with there.acquire(world.account):
            pass
    except Throttled:
        assert not is_free
    else:
        assert is_free
    # A late release leaves the lease of another request alone.
    RateLimit.update(recent=[at.timestamp() + 5]).execute()
    held.__exit__(None, None, None)
    assert RateLimit.get().recent == [at.timestamp() + 5]


@pytest.fixture
def refuse_writes():
    """refuse_writes(): let the store be read-only from now on, in this connection."""
    statement = "set default_transaction_read_only = on" if SERVER else "pragma query_only = on"
    return lambda: db.execute_sql(statement)


def test_without_a_store_that_takes_writes_the_limit_of_the_process_counts(world, refuse_writes):
    here, there = start_processes()
    refuse_writes()
    with here.acquire(world.account):
        with pytest.raises(Throttled), here.acquire(world.account):
            pass
        with there.acquire(world.account):
            pass


def test_questions_get_a_result_from_a_read_only_store(ask, world, refuse_writes):
    refuse_writes()
    alert = {"message": "Disk full", "alert_type": "critical"}
    rule = {"rule_json": json.dumps({"==": [1, 1]}), "payload": alert}
    tried = ask("POST", "/api/tocsin/rules/try/", rule)
    simulated = ask("POST", "/api/tocsin/simulate/", {"service": world.service.unique_id, "alert": alert})

    assert (tried.status_code, tried.json["matches"]) == (200, True)
    assert (simulated.status_code, simulated.json["notified"] != []) == (200, True)


def test_a_lock_file_that_cannot_be_written_does_not_prevent_an_answer(world, home, monkeypatch):
    if SERVER:
        pytest.skip("for SQLite")
    monkeypatch.setattr(store()._lock, "_path", home / "missing" / "write.lock")
    monkeypatch.setattr(store()._lock, "_local", threading.local())
    with ConcurrencyLimit(2, "simulate").acquire(world.account):
        assert not RateLimit.select().exists()


def test_a_store_that_is_busy_refuses(world, home):
    if SERVER:
        pytest.skip("for SQLite")
    store().set_limits(Limits(lock_s=0.05))
    limit = ConcurrencyLimit(2, "simulate")
    with hold_write_lock(home), pytest.raises(LockTimeout), limit.acquire(world.account):
        pass


def test_of_many_processes_one_gets_the_lease(world):
    processes, barrier, entered = start_processes(8), threading.Barrier(8), []
    leave = threading.Event()

    def ask(limit):
        with connection():
            barrier.wait(PATIENCE_S)
            try:
                with limit.acquire(world.account):
                    entered.append(1)
                    leave.wait(PATIENCE_S)
            except Throttled:
                refused.release()

    refused = threading.Semaphore(0)
    threads = [threading.Thread(target=ask, args=(limit,)) for limit in processes]
    for thread in threads:
        thread.start()
    for _ in range(7):
        assert refused.acquire(timeout=20)
    leave.set()
    for thread in threads:
        thread.join()

    assert entered == [1]
    assert RateLimit.get().recent == []


def test_a_refused_request_writes_nothing(world, statements):
    here, there = start_processes()
    with here.acquire(world.account), statements() as seen:
        with pytest.raises(Throttled), there.acquire(world.account):
            pass
        assert [text for text, _ in seen if not text.lower().startswith("select")] == []
