"""A thread that waits for the store holds no place meanwhile, on both stores."""

import pytest

from models.store.store import LockTimeout, connection
from models.tables.accounts import Account
from runtime import waiting
from tests.support.stores import hold_write_lock
from web.http.limits.places import Places


@pytest.fixture
def waits():
    """What this thread said around its waits: "begin", and whether it may wait for its place afterwards."""
    found = []

    def pause():
        found.append("begin")
        return found.append

    waiting.set_pause(pause)
    yield found
    waiting.set_pause(None)


def test_a_question_to_postgresql_needs_no_place(world, store, waits):
    with connection():
        Account.select().count()

    # SQLite computes in this process.
    assert waits == ([] if store.has_single_writer else ["begin", True])


def test_in_a_transaction_it_takes_its_place_at_once(world, store, waits):
    with connection(), store.write_transaction():
        waits.clear()
        Account.select().count()
        seen = list(waits)

    assert seen == ([] if store.has_single_writer else ["begin", False])


def test_the_lock_for_writers_needs_no_place(world, store, home, waits):
    if not store.has_single_writer:
        pytest.skip("PostgreSQL has no such lock")
    locked = hold_write_lock(home)
    with locked, connection(), pytest.raises(LockTimeout), store.write_transaction(lock_s=0.01):
        pass

    assert waits == ["begin", False]


def test_another_account_gets_the_place_while_one_waits_for_the_store(world, store, home):
    free = []

    class Watched(Places):
        def _give_back(self, account):
            super()._give_back(account)
            free.append(self._free)

    places = Watched(1)
    with connection(), places.hold("a"):
        if store.has_single_writer:
            with hold_write_lock(home), pytest.raises(LockTimeout), store.write_transaction(lock_s=0.01):
                pass
        else:
            Account.select().count()
        assert free == [1]
        assert places._free == 0
