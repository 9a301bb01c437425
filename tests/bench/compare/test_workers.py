"""The waits for locks are counted among the backends of an instance."""

import secrets
import threading

import psycopg
import pytest

from bench.compare.workers import LockSampler, LockWaits, format_waits
from tests.support.polling import wait_until
from tests.support.stores import SERVER


def test_the_share_is_that_of_the_busy_time():
    waits = LockWaits(samples=100, busy=400, blocked=100)

    assert waits.get_percent() == 25
    assert format_waits({("storm", "two workers"): waits}).splitlines()[1].split()[-4:] == [
        "100", "4.0", "1.0", "25.0"
    ]  # fmt: skip


@pytest.mark.skipif(not SERVER, reason="needs TEST_DATABASE_URL")
def test_a_backend_that_waits_for_a_lock_is_counted():
    found, key = LockWaits(), secrets.randbits(60)
    with psycopg.connect(SERVER) as holder, psycopg.connect(SERVER) as waiter:
        holder.execute("select pg_advisory_xact_lock(%s)", [key])
        blocked = threading.Thread(target=waiter.execute, args=("select pg_advisory_xact_lock(%s)", [key]))
        blocked.start()
        with LockSampler(SERVER, found):
            wait_until(lambda: found.blocked)
        holder.rollback()
        blocked.join()

    assert found.busy >= found.blocked > 0
