"""The poller continues after errors."""

import time

import peewee
import pytest

from models.tables.events import Event
from runtime.redis import RedisStatus
from tests.support.alerts import accept
from tests.support.polling import wait_until
from workers import poller
from workers.alerts import lane_actors, process_lane
from workers.delivery import deliver
from workers.lane_turns import LaneTurns
from workers.periodic import release_maintenance
from workers.poller import Poller
from workers.timers import fire


@pytest.fixture
def scans_seen(store, monkeypatch):
    """The jobs that the poller ran, in order. Each pass over the pipeline fails."""
    scans_seen = []

    def sweep(is_covered):
        scans_seen.append("pipeline")
        raise peewee.OperationalError("away") if len(scans_seen) == 1 else ZeroDivisionError

    monkeypatch.setattr(process_lane, "process_pending_lanes", sweep)
    monkeypatch.setattr(fire, "fire_due", lambda: scans_seen.append("timers"))
    monkeypatch.setattr(release_maintenance, "release_deferred", lambda: scans_seen.append("maintenance"))
    monkeypatch.setattr(deliver, "hand_over_due", lambda: scans_seen.append("delivery"))
    monkeypatch.setattr(poller, "INTERVAL_S", 0.01)
    return scans_seen


def test_the_poller_continues_after_a_failed_pass(scans_seen):
    passes = Poller()
    passes.start()

    wait_until(
        lambda: (
            scans_seen.count("pipeline") >= 3
            and scans_seen.count("timers") >= 3
            and scans_seen.count("delivery") >= 1
        )
    )
    passes.stop()
    passes.join()

    assert scans_seen[:3] == ["pipeline", "timers", "maintenance"]


def test_a_failure_of_redis_shortens_a_pause_that_has_begun(scans_seen, monkeypatch):
    monkeypatch.setattr(poller, "INTERVAL_S", 300.0)
    monkeypatch.setattr(poller, "INTERVAL_WITHOUT_REDIS_S", 0.01)
    monkeypatch.setattr(poller, "CHECK_S", 0.01)
    monkeypatch.setattr(poller, "redis_status", RedisStatus())
    passes = Poller()
    passes.start()

    poller.redis_status.report_down(ConnectionError(), time.monotonic())
    wait_until(lambda: scans_seen.count("pipeline") >= 1)
    passes.stop()
    passes.join()


def test_the_poller_leaves_a_lane_to_the_thread_that_works_on_it(world, now, monkeypatch):
    """It would wait for the lane, or take small batches from it all through a storm."""
    turns, lane = LaneTurns(), (world.service.id, process_lane.get_segment("normalize").name)
    monkeypatch.setattr(lane_actors, "turns", turns)
    accept(world, now, message="Disk full")
    found_by_poller = []

    def work():
        poller._process_lanes()
        found_by_poller.append(Event.select().count())

    assert turns.work(lane, work), "the thread looks again, because the poller found the lane pending"
    assert found_by_poller == [0]
    poller._process_lanes()
    assert Event.select().count() == 1
