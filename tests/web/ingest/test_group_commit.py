"""Requests share commits, with and without a thread of their own; nobody remains without a result."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from models.domain.applications import GENERIC
from models.people import provisioning
from models.store.store import db
from models.tables.events import Receipt
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.stores import get_url, hold_write_lock
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
        assert may_end.wait(PATIENCE_S)
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


@pytest.fixture
def block_receipts(store, home) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager in which no receipt can be inserted."""

    @contextmanager
    def hold_table_lock():
        with psycopg.connect(get_url(home)) as other:
            other.execute("lock table receipt in exclusive mode")
            yield

    return (lambda: hold_write_lock(home)) if store.has_single_writer else hold_table_lock


def test_a_commit_that_hangs_ends_at_its_deadline(commits, build, block_receipts, monkeypatch):
    # Each commit opens its own connection, as in a web process.
    db.close()
    done: list[Submission] = []
    with block_receipts(), monkeypatch.context() as patched:
        patched.setattr(group_commit, "DEADLINE_S", 0.2)
        patched.setattr(group_commit, "MIN_DEADLINE_S", 0.1)
        commits.submit_later(build(), done.append)
        with pytest.raises(NotStoredError):
            commits.submit(build())
    commits.submit(build())

    assert [isinstance(one.error, group_commit.STORE_ERRORS) for one in done] == [True]
    assert Receipt.select().count() == 1


def test_requests_that_arrive_during_a_commit_that_hangs_have_no_full_deadline_of_their_own(
    commits, build, blocked, monkeypatch
):
    """Otherwise a request would wait for the deadline of the commit before and for its own."""
    may_end, groups = blocked
    deadlines = []
    real = commits._compute_deadline_s
    monkeypatch.setattr(
        commits, "_compute_deadline_s", lambda: deadlines.append(real()) or deadlines[-1], raising=False
    )
    leader = start(commits.submit_later, build(), lambda _: None)
    wait_until(lambda: groups == [1])
    late = build()
    commits.submit_later(late, lambda _: None)
    late.arrived_at -= 9.0
    may_end.set()
    leader.join()

    # The leader has about 10 s, the late request has about one.
    assert [seconds > 5 for seconds in deadlines] == [True, False]


def test_a_request_behind_a_commit_that_failed_is_refused_in_time(
    commits, build, block_receipts, monkeypatch
):
    """Its deadline counts from its arrival, and not from the end of the commit before."""
    db.close()
    monkeypatch.setattr(group_commit, "DEADLINE_S", 1.0)
    done: list[Submission] = []
    started = time.monotonic()
    begun, deadlines, real = threading.Event(), [], commits._compute_deadline_s
    monkeypatch.setattr(
        commits,
        "_compute_deadline_s",
        lambda: deadlines.append(real()) or begun.set() or deadlines[-1],
    )
    with block_receipts():
        leader = start(commits.submit_later, build(), done.append)
        assert begun.wait(PATIENCE_S)
        late = build()
        late.arrived_at -= 1.0
        with pytest.raises(NotStoredError):
            commits.submit(late)
        leader.join()

    assert time.monotonic() - started < 8
    # Most often it fails together with the commit before.
    assert deadlines[1:] in ([], [group_commit.MIN_DEADLINE_S])
    assert not Receipt.select().exists()


def test_a_request_that_is_late_does_not_shorten_the_time_of_others(commits, build, block_receipts):
    db.close()
    done: list[Submission] = []
    late, other = build(), build()
    late.arrived_at -= group_commit.DEADLINE_S
    commits._pending.append(other)
    other.on_done = done.append
    with block_receipts():
        leader = start(commits.submit_later, late, done.append)
        wait_until(lambda: done == [late])
        assert not other.is_done
    leader.join()

    assert done == [late, other]
    assert (late.error is not None, other.error) == (True, None)
    assert [row.trace_id for row in Receipt.select()] == [other.trace_id]


@pytest.mark.parametrize("path", ["/api/integration/generic/{}/", "/api/events/{}/"])
def test_the_deadline_counts_from_the_arrival_of_the_request(app, world, block_receipts, monkeypatch, path):
    """It may have waited for a thread."""
    # Much longer than a request takes on a busy machine.
    monkeypatch.setattr(group_commit, "DEADLINE_S", PATIENCE_S)
    db.close()
    arrived_at = time.monotonic() - group_commit.DEADLINE_S
    with block_receipts():
        started = time.monotonic()
        answer = app.test_client().post(
            path.format(world.integration.integration_key),
            json={"message": "m"},
            environ_base={"tocsin.arrived_at": arrived_at},
        )
        seconds = time.monotonic() - started

    assert answer.status_code == 503
    assert seconds < group_commit.DEADLINE_S - group_commit.MIN_DEADLINE_S


def test_an_integration_whose_row_is_locked_refuses_only_its_own_alerts(
    commits, build, world, now, home, store
):
    """For example while a request deletes it."""
    if store.has_single_writer:
        pytest.skip("the store has one writer at a time")
    free, held = build(), build()
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)
    held.key = other.integration_key
    done: list[Submission] = []
    with psycopg.connect(get_url(home)) as deletion:
        deletion.execute("select 1 from integration where integration_key = %s for update", [held.key])
        commits._pending.append(held)
        held.on_done = done.append
        commits.submit(free)

    assert [one.error is not None for one in done] == [True]
    assert [row.trace_id for row in Receipt.select()] == [free.trace_id]
