"""Requests share commits, with and without a thread of their own; nobody remains without a result."""

import threading

import pytest

from models.tables.events import Receipt
from tests.support.polling import wait_until
from web.ingest import group_commit
from web.ingest.group_commit import GroupCommit, NotStoredError, Submission


@pytest.fixture
def commits():
    return GroupCommit()


@pytest.fixture
def build(world):
    """build(): a new submission."""
    numbers = iter(range(1000))
    key = world.integration.integration_key
    return lambda: Submission(key, None, "generic", b"{}", 1, f"{next(numbers):036}")


@pytest.fixture
def blocked(monkeypatch):
    """Block the commits until the event `may_end` is set; `groups` has the size of each."""
    may_end, groups, real = threading.Event(), [], group_commit._store_group

    def store(group):
        groups.append(len(group))
        assert may_end.wait(10)
        real(group)

    monkeypatch.setattr(group_commit, "_store_group", store)
    return may_end, groups


def start(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def test_requests_without_a_thread_share_the_next_commit(commits, build, blocked):
    may_end, groups = blocked
    done: list[Submission] = []
    leader = start(commits.submit_later, build(), done.append)
    wait_until(lambda: groups == [1])
    for _ in range(20):
        # Returns at once, although the first commit hangs.
        commits.submit_later(build(), done.append)
    assert done == []

    may_end.set()
    leader.join()
    assert groups == [1, 20]
    assert [one.is_stored and one.error is None for one in done] == [True] * 21
    assert Receipt.select().count() == 21


@pytest.mark.parametrize("first", ["with a thread", "without a thread"])
def test_both_kinds_of_requests_get_results(commits, build, blocked, first):
    """A leader with an own answer to send does not lead for ever, and no request remains without a leader."""
    may_end, groups = blocked
    done: list[Submission] = []
    with_thread = [build() for _ in range(3)]
    threads = []

    def add_later():
        commits.submit_later(build(), done.append)

    if first == "with a thread":
        threads.append(start(commits.submit, with_thread[0]))
    else:
        threads.append(start(add_later))
    wait_until(lambda: groups == [1])
    threads += [
        start(commits.submit, one) for one in with_thread[len(threads) * (first == "with a thread") :]
    ]
    for _ in range(3):
        add_later()
    may_end.set()
    for thread in threads:
        thread.join(10)

    expected = 3 if first == "with a thread" else 4
    wait_until(lambda: len(done) == expected and all(one.is_done for one in with_thread))
    wait_until(lambda: not commits._has_leader)
    assert Receipt.select().count() == expected + 3


def test_a_commit_that_fails_gives_each_request_its_error(commits, build, monkeypatch):
    def fail(_):
        raise group_commit.STORE_ERRORS[0]("disk I/O error")

    done: list[Submission] = []
    monkeypatch.setattr(group_commit, "_store_group", fail)
    commits.submit_later(build(), done.append)
    with pytest.raises(NotStoredError):
        commits.submit(build())

    assert [isinstance(one.error, group_commit.STORE_ERRORS) for one in done] == [True]


def test_an_answer_or_a_broker_that_fails_stops_no_other_request(commits, build, monkeypatch):
    done: list[Submission] = []

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(group_commit, "_enqueue", fail)
    commits.submit_later(build(), fail)
    commits.submit_later(build(), done.append)

    assert len(done) == 1
    assert Receipt.select().count() == 2
