"""A statement with a transaction of its own, as for the numbers of new incidents (decision 0058)."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.store import own_transaction
from models.store.store import STORE_ERRORS, connection, db
from models.tables.accounts import Account
from tests.support import stores
from tests.support.polling import PATIENCE_S

pytestmark = pytest.mark.skipif(not stores.SERVER, reason="an embedded store has one writer")

CHANGE = "UPDATE account SET last_incident_number = last_incident_number + 3"
INCREASE = f"{CHANGE} RETURNING id, last_incident_number"
TIMEOUT_S = 0.4


def increase():
    return own_transaction.run(INCREASE, TIMEOUT_S)


def read_numbers():
    with connection():
        return dict(Account.select(Account.id, Account.last_incident_number).tuples())


def test_its_change_stays_if_the_other_transaction_fails(world, store):
    expected = {row: number + 3 for row, number in read_numbers().items()}
    with store.write_transaction(), db.atomic() as savepoint:
        assert dict(increase()) == expected
        savepoint.rollback()

    assert read_numbers() == expected


def test_it_waits_for_a_lock_for_half_of_its_time(world, store):
    before = read_numbers()
    with store.write_transaction():
        Account.update(last_incident_number=1000).execute()
        with pytest.raises(STORE_ERRORS) as refused:
            increase()
        assert store.is_lock_timeout(refused.value)

    assert set(read_numbers().values()) == {1000}
    assert {number for _, number in increase()} == {1003}
    assert before.keys() == read_numbers().keys()


def test_its_settings_end_with_it(world):
    names = "current_setting('synchronous_commit'), current_setting('lock_timeout')"

    assert own_transaction.run(f"SELECT {names}", 10.0) == [("off", "5s")]
    # More threads than there are idle connections: all of these are used.
    all_open = threading.Barrier(own_transaction.THREADS + 2)

    def read_settings():
        with connection():
            all_open.wait(PATIENCE_S)
            return db.execute_sql(f"SELECT {names}").fetchone()

    with ThreadPoolExecutor(all_open.parties) as threads:
        reads = [threads.submit(read_settings) for _ in range(all_open.parties)]
    assert {read.result() for read in reads} == {("on", "0")}
