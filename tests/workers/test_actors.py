"""Each queue has an actor of the same name, and every function that enqueues finds it."""

import threading

import pytest

from models.domain.channels import CHANNELS, DELIVERY_CHANNELS
from models.tables.incidents import Incident
from pipeline.topology import build_segments
from runtime.setting_values import SPLIT_AFTER
from tests.support.alerts import accept
from tests.support.polling import wait_until
from workers import main, queue
from workers.alerts import lane_actors, process_lane
from workers.delivery import replies
from workers.lane_turns import Linger
from workers.timers import fire

PIPELINE = {"pipeline.normalize", "pipeline.route", "pipeline.rules", "pipeline.incident"}
OTHERS = {"routers", "timers", "maintenance", "reconcile", "heartbeats", "expired"}
DELIVERY = {f"deliver.{spec.name}" for spec in DELIVERY_CHANNELS.values()}
QUEUES = PIPELINE | OTHERS | DELIVERY | {"deliver.outbound", "replies.slack"}


def test_an_actor_has_the_name_of_its_queue():
    assert {actor.queue_name for actor in main.broker.actors.values()} == QUEUES
    assert main.broker.get_declared_actors() == QUEUES


@pytest.mark.parametrize("splits", [(), SPLIT_AFTER], ids=str)
def test_each_segment_has_an_actor(splits):
    assert {segment.queue for segment in build_segments(splits)} <= main.broker.get_declared_actors()


def test_the_default_pipeline_has_one_queue():
    assert [segment.queue for segment in build_segments()] == ["pipeline.normalize"]


def test_other_processes_enqueue_only_what_has_an_actor(enqueued):
    queue.enqueue_lane(1)
    queue.enqueue_router(2)
    queue.enqueue_timers()
    queue.enqueue_reconcile("service", 3)
    queue.enqueue_deliveries(CHANNELS)

    assert enqueued == [
        ("pipeline.normalize", 1),
        ("routers", 2),
        ("timers",),
        ("reconcile", "service", 3),
        *((f"deliver.{spec.name}",) for spec in CHANNELS.values()),
    ]
    assert {name for name, *_ in enqueued} <= QUEUES


@pytest.mark.parametrize("splits", [(), SPLIT_AFTER], ids=str)
def test_an_actor_sends_its_lane_to_the_next_queue(world, now, enqueued, monkeypatch, splits):
    segments = build_segments(splits)
    monkeypatch.setattr(process_lane, "_segments", segments)
    monkeypatch.setattr(lane_actors, "_linger", Linger())
    accept(world, now, message="m", alert_type="critical")
    for segment in segments:
        main.broker.get_actor(segment.queue)(world.service.id)

    assert [name for name, *_ in enqueued] == [*[part.queue for part in segments[1:]], "deliver.email"]
    assert Incident.select().count() == 1


def test_a_request_for_running_work_is_sent_after_it(enqueued, monkeypatch):
    def fire_due():
        fire.fire_timers()
        assert enqueued == []

    monkeypatch.setattr(fire, "fire_due", fire_due)
    fire.fire_timers()

    assert enqueued == [("timers",)]


def test_replies_to_slack_leave_threads_for_alerts(enqueued, monkeypatch):
    """Slack may hang. The third reply is enqueued again, and the first two are sent."""
    hangs, sent = threading.Event(), []

    def send(*reply):
        hangs.wait(30)
        sent.append(reply)

    monkeypatch.setattr(replies, "send", send)
    others = [threading.Thread(target=replies.send_reply, args=("", name, "hi")) for name in ("a", "b")]
    for other in others:
        other.start()
    wait_until(lambda: not replies._threads._value)
    replies.send_reply("", "c", "hi")
    hangs.set()
    for other in others:
        other.join()
    replies.send_reply("", "d", "hi")

    assert enqueued == [("replies.slack", "", "c", "hi")]
    assert sorted(sent) == [("", "a", "hi"), ("", "b", "hi"), ("", "d", "hi")]
