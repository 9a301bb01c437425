"""While the installation is paused, workers and the clock process leave all work to a later time."""

import dramatiq
import peewee
import pytest
from dramatiq.brokers.stub import StubBroker

from models.processes import pause
from models.tables.accounts import Liveness
from tocsin.server import dead_mans_switch
from workers import middleware
from workers.pause import pause_check, unless_paused
from workers.periodic.table import PERIODIC_JOBS
from workers.run_safely import run_safely


@pytest.fixture
def paused(store, now):
    with store.write_transaction():
        pause.pause(now, "2026-03-04")
    pause_check.forget()
    yield
    pause_check.forget()


@pytest.fixture
def done():
    return []


def run_wake_up(done):
    broker = StubBroker(middleware=[middleware.StoreConnection()])
    actor = dramatiq.actor(
        lambda: done.append("wake-up"), broker=broker, actor_name="work", queue_name="work"
    )
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    actor.send()
    broker.join("work", fail_fast=False)
    worker.join()
    worker.stop()


def run_all(done):
    run_wake_up(done)
    run_safely("pass", lambda: done.append("pass"))
    unless_paused(lambda: done.append("job"))()


def test_nothing_runs_until_the_end_of_the_pause(paused, store, done):
    run_all(done)
    assert done == []

    with store.write_transaction():
        assert pause.resume()
    run_all(done)
    assert done == ["wake-up", "pass", "job"]


def test_only_liveness_is_recorded(paused, enqueued):
    for job in PERIODIC_JOBS:
        job.run()

    assert enqueued == []
    assert Liveness.select().where(Liveness.process == "clock").exists()


def test_a_process_that_runs_reads_the_state_again_after_an_error_of_the_store(store, now, done):
    """The database may come back as a restored copy."""
    pause_check.forget()
    run_safely("pass", lambda: done.append("before"))
    with store.write_transaction():
        pause.pause(now, "2026-03-04")

    def fail():
        raise peewee.OperationalError("away")

    run_safely("pass", fail)
    run_safely("pass", lambda: done.append("after"))
    pause_check.forget()

    assert done == ["before"]


def test_the_dead_mans_switch_is_not_requested(paused):
    assert "this restored copy is paused" in dead_mans_switch.find_problems()
