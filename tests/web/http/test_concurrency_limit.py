"""An account runs one expensive request at a time, in all web processes together."""

import threading
from datetime import timedelta

import pytest

from models.store.base import connection, store
from models.tables.rate_limits import RateLimit
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


def test_of_many_processes_one_gets_the_lease(world):
    processes, barrier, entered = start_processes(8), threading.Barrier(8), []
    leave = threading.Event()

    def ask(limit):
        with connection():
            barrier.wait(10)
            try:
                with limit.acquire(world.account):
                    entered.append(1)
                    leave.wait(20)
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
