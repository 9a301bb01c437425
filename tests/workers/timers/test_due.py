"""Services with due timers take turns, and no service delays another one."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import pytest

from models.load.lane import lock_services
from models.store.store import Busy, store
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.timers import Timer
from tests.support import stores
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.scenarios.timers import MINUTE, open_incidents, other_service, set_policy
from workers.alerts.batches import BatchSize
from workers.timers import due, fire

__all__ = ["other_service"]


@pytest.fixture
def one_batch_per_scan(monkeypatch):
    """A fast clock ends a pass early, a batch is one incident, and a search loads the three oldest timers."""
    monkeypatch.setattr(due, "MAX_TIMERS", 3)
    monkeypatch.setattr(fire, "_batch_size", BatchSize(limit=1))
    monkeypatch.setattr(BatchSize, "adjust", lambda *_: None)
    monkeypatch.setattr(fire, "PASS_S", 1.0)
    monkeypatch.setattr(fire, "monotonic", count(0, 0.6).__next__)


def list_taken(world):
    """List the incidents whose second step ran, in this order."""
    notified = (
        Notification.select(Notification.incident)
        .where(Notification.user == world.bob)
        .order_by(Notification.id)
    )
    return [incident for (incident,) in notified.tuples()]


@pytest.mark.parametrize("deleted", ["none", "the first", "the second"])
def test_a_service_with_many_due_timers_does_not_delay_others(
    world, other_service, now, one_batch_per_scan, deleted
):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, *"abcdefgh")
    open_incidents(other_service, now + MINUTE, *"yz")
    if deleted != "none":
        gone = world.service if deleted == "the first" else other_service.service
        Incident.update(service=None).where(Incident.service == gone).execute()

    assert fire.fire_due(now + 6 * MINUTE) == 10
    services = ["second" if incident > 8 else "first" for incident in list_taken(world)]
    assert services == ["first", "second", "first", "second"] + 6 * ["first"]


def test_the_oldest_due_timer_of_a_service_fires_first(world, now, one_batch_per_scan):
    set_policy(world, (0, world.alice), (5, world.bob))
    for minute, entity in enumerate("abc"):
        open_incidents(world, now + minute * MINUTE, entity)
    fire.fire_due(now + 60 * MINUTE)

    assert list_taken(world) == [1, 2, 3]


def test_a_few_due_timers_are_found_with_one_query(world, other_service, now, statements):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "a")
    open_incidents(other_service, now, "b")
    with statements() as seen:
        due.list_due_lanes(now + 6 * MINUTE, frozenset(), {})

    assert len(seen) == 1


def run_passes(count, at=None):
    """Run passes like a worker until at least `count` timers fired. Return how many fired."""
    fired = 0
    while fired < count:
        fired += fire.fire_due(at)
    return fired


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_pass_ends_when_only_locked_services_are_left(world, now, monkeypatch):
    monkeypatch.setattr(fire, "LOCK_TIMEOUT_S", 0.05)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "a")
    with ThreadPoolExecutor(1) as pool, store().write_transaction():
        lock_services([world.service.id])
        assert pool.submit(fire.fire_due, now + 5 * MINUTE).result(timeout=PATIENCE_S) == 0
    assert fire.fire_due(now + 5 * MINUTE) == 1


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_busy_service_gets_its_turn_beside_a_locked_one(world, other_service, now, monkeypatch):
    monkeypatch.setattr(fire, "LOCK_TIMEOUT_S", 0.05)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "held")
    open_incidents(other_service, now + MINUTE, "busy")
    passes_over = fire.lock_with_children

    def lock_incidents(incidents, *, blocking):
        """Lock incidents of the second service only when blocking."""
        if not blocking and Incident.get_by_id(next(iter(incidents))).service_id == other_service.service.id:
            raise Busy
        return passes_over(incidents, blocking=blocking)

    monkeypatch.setattr(fire, "lock_with_children", lock_incidents)
    with ThreadPoolExecutor(1) as pool, store().write_transaction():
        lock_services([world.service.id])
        first_pass = pool.submit(run_passes, 1, now + 7 * MINUTE)
        assert first_pass.result(timeout=PATIENCE_S) == 1


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one lock for all")
def test_a_service_that_is_locked_for_long_does_not_delay_others(world, other_service, now, monkeypatch):
    """Another timer becomes due while the worker waits for the locked service."""
    clock, conflicts = [now + 5 * MINUTE], []
    monkeypatch.setattr(type(store()), "now", lambda _: clock[0])
    monkeypatch.setattr(fire, "LOCK_TIMEOUT_S", 0.05)
    lock_timeout = type(store()).lock_timeout

    @contextmanager
    def count_waits(self, seconds):
        try:
            with lock_timeout(self, seconds):
                yield
        except Busy:
            conflicts.append(seconds)
            raise

    monkeypatch.setattr(type(store()), "lock_timeout", count_waits)
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incidents(world, now, "a")
    open_incidents(other_service, now + MINUTE, "b")
    with ThreadPoolExecutor(1) as pool:
        with store().write_transaction():
            lock_services([world.service.id])
            fired = pool.submit(run_passes, 2)
            wait_until(lambda: len(conflicts) > 4)
            clock[0] += MINUTE
            wait_until(lambda: Timer.select().where(Timer.done_at.is_null(False)).exists())
        assert fired.result(timeout=PATIENCE_S) == 2
