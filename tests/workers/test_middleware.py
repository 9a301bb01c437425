"""What happens around each message, with Dramatiq's broker for tests."""

import threading

import dramatiq
import peewee
import pytest
import structlog
from dramatiq.brokers.stub import StubBroker

from models.store.store import db
from models.tables.accounts import Liveness
from runtime.setting_values import BadSetting
from tests.support.polling import wait_until
from workers import main, middleware


@pytest.fixture
def broker():
    """Dramatiq's broker for tests, with our middleware for messages."""
    return StubBroker(middleware=[middleware.LogContext(), middleware.StoreConnection()])


@pytest.fixture
def process(broker):
    """Return a function that runs an actor in a worker, and returns what was logged."""

    def process(work):
        actor = dramatiq.actor(work, broker=broker, actor_name="work", queue_name="work")
        worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
        worker.start()
        with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as logs:
            actor.send(7)
            broker.join("work", fail_fast=False)
            worker.join()
        worker.stop()
        return [entry for entry in logs if entry["event"] != "working"]

    return process


def test_an_actor_has_a_connection_of_its_own(store, process):
    seen = []
    process(lambda row: seen.append((db.is_closed(), threading.current_thread(), db.connection())))

    ((closed, thread, connection),) = seen
    assert (closed, thread is threading.current_thread()) == (False, False)
    assert connection is not db.connection()


def test_the_lines_of_an_actor_name_its_message(store, process):
    (line,) = process(lambda row: structlog.get_logger().info("at work"))

    assert (line["event"], line["queue_name"], line["args"]) == ("at work", "work", (7,))
    assert structlog.contextvars.get_contextvars() == {}


def test_a_database_that_fails_is_logged_without_a_traceback(store, process, caplog):
    def fail(row):
        raise peewee.OperationalError("server closed the connection")

    (line,) = process(fail)

    assert (line["event"], line["error"], line["queue_name"]) == (
        "the database cannot be used", "OperationalError", "work",
    )  # fmt: skip
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_message_is_dropped_without_a_database(store, process, monkeypatch):
    def fail(reuse_if_open):
        raise peewee.OperationalError("connection refused")

    ran = []
    with monkeypatch.context() as patched:
        patched.setattr(db.obj, "connect", fail)
        (line,) = process(ran.append)

    assert (line["event"], line["error"], ran) == ("the database cannot be reached", "OperationalError", [])


def test_other_errors_of_an_actor_are_logged_with_a_traceback(store, process, caplog):
    process(lambda row: 1 // 0)

    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.exc_info[0] is ZeroDivisionError


def test_a_worker_polls_and_is_alive_until_it_stops(store, monkeypatch):
    polled = threading.Event()
    monkeypatch.setattr("workers.poller.INTERVAL_S", 0.01)
    monkeypatch.setattr("workers.timers.fire.fire_due", polled.set)
    broker = StubBroker(middleware=[middleware.ShowLiveness(), middleware.Polling()])
    worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    wait_until(lambda: Liveness.select().where(Liveness.process.startswith("worker:")).count() == 1)
    wait_until(polled.is_set)
    worker.stop()

    assert Liveness.select().count() == 0
    assert [thread for thread in threading.enumerate() if thread.name.startswith("poller")] == []


def test_a_process_of_dramatiq_does_not_start_with_a_bad_setting(monkeypatch):
    monkeypatch.setenv("TOCSIN_NONSENSE", "1")
    monkeypatch.setattr(middleware.parent_process, "end_with_parent", lambda parent: None)

    with pytest.raises(SystemExit, match="TOCSIN_NONSENSE") as ended:
        main.broker.emit_after("process_boot")

    assert isinstance(ended.value.__cause__, BadSetting)
