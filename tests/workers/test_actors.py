"""There is one actor per queue, and a wake-up is dropped when the database is unavailable."""

import peewee
import structlog

from runtime.settings import load
from workers import actors


def test_each_segment_and_each_channel_has_its_queue():
    found = list(actors.get_actors(load({})))
    others = ["timers", "maintenance", "reconcile", "heartbeats"]
    assert found == ["pipeline.normalize", "routers", *others, "deliver.email"]

    split = load({"TOCSIN_PIPELINE_QUEUES": "normalize,rules"})
    assert list(actors.get_actors(split))[:3] == ["pipeline.normalize", "pipeline.route", "pipeline.dedupe"]


def test_an_unavailable_database_is_logged_without_a_traceback():
    def work(number):
        raise peewee.OperationalError("server closed the connection")

    with structlog.testing.capture_logs() as logs:
        actors._guard("pipeline.normalize", work)(7)

    assert [(entry["event"], entry["error"]) for entry in logs] == [
        ("the database cannot be used", "OperationalError")
    ]
