"""What must follow a commit, for example a wake-up, does not happen before it."""

import pytest

from models.store.store import db


def test_work_follows_the_commit_of_the_outer_transaction(store):
    done = []
    with store.write_transaction():
        with store.write_transaction():
            store.after_commit(lambda: done.append(db.in_transaction()))
        assert done == []

    assert done == [False]


def test_without_a_transaction_work_is_done_at_once(store):
    done = []
    store.after_commit(lambda: done.append(1))

    assert done == [1]


def test_after_a_rollback_nothing_is_done(store):
    done = []

    def fail():
        with store.write_transaction():
            store.after_commit(lambda: done.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with store.write_transaction():
        pass

    assert done == []
