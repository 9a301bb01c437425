"""The look into the database goes on, whatever happens in it."""

import threading

import peewee
import pytest

from tests.waiting import wait_until
from workers import deliver, maintenance, road, timers, watch
from workers.watch import Poller


@pytest.fixture
def scans_seen(monkeypatch):
    """What was looked at, in order; every look at the road fails."""
    scans_seen = []

    def sweep():
        scans_seen.append("pipeline")
        raise peewee.OperationalError("away") if len(scans_seen) == 1 else ZeroDivisionError

    monkeypatch.setattr(road, "sweep", sweep)
    monkeypatch.setattr(timers, "fire_due", lambda: scans_seen.append("timers"))
    monkeypatch.setattr(maintenance, "release_deferred", lambda: scans_seen.append("maintenance"))
    monkeypatch.setattr(deliver, "send_due", lambda channel: scans_seen.append(channel))
    monkeypatch.setattr(watch, "INTERVAL_S", 0.01)
    return scans_seen


def test_a_pass_that_fails_is_not_the_last(scans_seen):
    passes = Poller()
    passes.start()

    wait_until(
        lambda: (
            scans_seen.count("pipeline") >= 3 and scans_seen.count("timers") >= 3 and scans_seen.count(1) >= 1
        )
    )
    passes.stop()
    passes.join()

    assert scans_seen[:3] == ["pipeline", "timers", "maintenance"]


def test_a_channel_that_hangs_keeps_no_alert_waiting(scans_seen, monkeypatch):
    leave = threading.Event()
    monkeypatch.setattr(deliver, "send_due", lambda channel: leave.wait(10))
    passes = Poller()
    passes.start()

    wait_until(lambda: scans_seen.count("pipeline") >= 3)
    leave.set()
    passes.stop()
    passes.join()
