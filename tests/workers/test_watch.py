"""The look into the database goes on, whatever happens in it."""

import threading

import peewee
import pytest

from tests.waiting import until
from workers import deliver, maintenance, road, timers, watch
from workers.watch import Watch


@pytest.fixture
def looks(monkeypatch):
    """What was looked at, in order; every look at the road fails."""
    looks = []

    def sweep():
        looks.append("road")
        raise peewee.OperationalError("away") if len(looks) == 1 else ZeroDivisionError

    monkeypatch.setattr(road, "sweep", sweep)
    monkeypatch.setattr(timers, "run_due", lambda: looks.append("timers"))
    monkeypatch.setattr(maintenance, "release", lambda: looks.append("maintenance"))
    monkeypatch.setattr(deliver, "drain", lambda channel: looks.append(channel))
    monkeypatch.setattr(watch, "PASS_S", 0.01)
    return looks


def test_a_pass_that_fails_is_not_the_last(looks):
    passes = Watch()
    passes.start()

    until(lambda: looks.count("road") >= 3 and looks.count("timers") >= 3 and looks.count(1) >= 1)
    passes.stop()
    passes.join()

    assert looks[:3] == ["road", "timers", "maintenance"]


def test_a_channel_that_hangs_keeps_no_alert_waiting(looks, monkeypatch):
    leave = threading.Event()
    monkeypatch.setattr(deliver, "drain", lambda channel: leave.wait(10))
    passes = Watch()
    passes.start()

    until(lambda: looks.count("road") >= 3)
    leave.set()
    passes.stop()
    passes.join()
