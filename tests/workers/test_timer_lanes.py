"""Whose turn it is among services with due timers: none keeps another one waiting."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import pytest

from models.base import Busy, store
from models.incidents import Incident
from models.loading import lock_services
from models.notices import Notice
from models.timers import Timer
from tests import stores
from tests.waiting import until
from tests.workers.test_timers import MINUTE, elsewhere, open_many, set_policy
from workers import due_timers, timers
from workers.pace import Pace

__all__ = ["elsewhere"]


@pytest.fixture
def one_batch_a_look(monkeypatch):
    """By a clock that hastens. A batch is one incident, and a look sees the three oldest timers."""
    monkeypatch.setattr(due_timers, "LOOKED_AT", 3)
    monkeypatch.setattr(timers, "_pace", Pace(limit=1))
    monkeypatch.setattr(Pace, "took", lambda *_: None)
    monkeypatch.setattr(timers, "monotonic", count(0, 0.6).__next__)


def taken(world):
    """The incidents whose second step was taken, in this order."""
    told = Notice.select(Notice.incident).where(Notice.user == world.bob).order_by(Notice.id)
    return [incident for (incident,) in told.tuples()]


@pytest.mark.parametrize("deleted", ["none", "the first", "the second"])
def test_a_service_with_many_due_timers_keeps_no_other_waiting(
    world, elsewhere, now, one_batch_a_look, deleted
):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_many(world, now, *"abcdefgh")
    open_many(elsewhere, now + MINUTE, *"yz")
    if deleted != "none":
        gone = world.service if deleted == "the first" else elsewhere.service
        Incident.update(service=None).where(Incident.service == gone).execute()

    assert timers.run_due(now + 6 * MINUTE) == 10
    services = ["second" if incident > 8 else "first" for incident in taken(world)]
    assert services == ["first", "second", "first", "second"] + 6 * ["first"]


def test_what_is_due_for_longest_is_first_in_its_service(world, now, one_batch_a_look):
    set_policy(world, (0, world.alice), (5, world.bob))
    for minute, entity in enumerate("abc"):
        open_many(world, now + minute * MINUTE, entity)
    timers.run_due(now + 60 * MINUTE)

    assert taken(world) == [1, 2, 3]


def test_few_that_are_due_are_found_by_one_query(world, elsewhere, now, statements):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_many(world, now, "a")
    open_many(elsewhere, now, "b")
    with statements() as seen:
        due_timers.due_lanes(now + 6 * MINUTE, frozenset(), {})

    assert len(seen) == 1


def passes(wanted, at=None):
    """As a worker's, one after the other, until so many timers are fired; returns how many are."""
    fired = 0
    while fired < wanted:
        fired += timers.run_due(at)
    return fired


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_pass_ends_where_only_what_somebody_else_holds_is_left(world, now, monkeypatch):
    monkeypatch.setattr(timers, "LOCK_WAIT_S", 0.05)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_many(world, now, "a")
    with ThreadPoolExecutor(1) as pool, store().writing():
        lock_services([world.service.id])
        assert pool.submit(timers.run_due, now + 5 * MINUTE).result(timeout=10) == 0
    assert timers.run_due(now + 5 * MINUTE) == 1


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_service_that_is_never_free_has_its_turn_beside_one_that_is_held(
    world, elsewhere, now, monkeypatch
):
    monkeypatch.setattr(timers, "LOCK_WAIT_S", 0.05)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_many(world, now, "held")
    open_many(elsewhere, now + MINUTE, "busy")
    passes_over = timers.lock_families

    def busy(incidents, *, waits):
        """Only who waits for it gets the second one."""
        if not waits and Incident.get_by_id(next(iter(incidents))).service_id == elsewhere.service.id:
            raise Busy
        return passes_over(incidents, waits=waits)

    monkeypatch.setattr(timers, "lock_families", busy)
    with ThreadPoolExecutor(1) as pool, store().writing():
        lock_services([world.service.id])
        wanted = pool.submit(passes, 1, now + 7 * MINUTE)
        assert wanted.result(timeout=20) == 1


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_service_that_is_held_for_long_keeps_no_other_waiting(world, elsewhere, now, monkeypatch):
    """Another falls due while it is waited for."""
    clock, given_up = [now + 5 * MINUTE], []
    monkeypatch.setattr(type(store()), "now", lambda _: clock[0])
    monkeypatch.setattr(timers, "LOCK_WAIT_S", 0.05)
    patience = type(store()).patience

    @contextmanager
    def watched(self, seconds):
        try:
            with patience(self, seconds):
                yield
        except Busy:
            given_up.append(seconds)
            raise

    monkeypatch.setattr(type(store()), "patience", watched)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_many(world, now, "a")
    open_many(elsewhere, now + MINUTE, "b")
    with ThreadPoolExecutor(1) as pool:
        with store().writing():
            lock_services([world.service.id])
            fired = pool.submit(passes, 2)
            until(lambda: len(given_up) > 4)
            clock[0] += MINUTE
            until(lambda: Timer.select().where(Timer.done_at.is_null(False)).exists())
        assert fired.result(timeout=10) == 2
