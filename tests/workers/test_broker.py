"""From a bell to an actor, over a real server: soon, once per lane that waits, and whatever Redis does."""

import queue
import threading
import time

import dramatiq
import pytest
import structlog

from pipeline.topology import segments
from tests.processes import free_port, running_redis
from tests.waiting import until
from tocsin.embedded_redis import url_of
from workers import bell
from workers.broker import Broker


@pytest.fixture
def keeper(home):
    with running_redis(home) as keeper:
        yield keeper


@pytest.fixture
def url(keeper, home):
    return url_of(home)


@pytest.fixture
def line(monkeypatch):
    """A line of this test's own."""
    line = bell.Line()
    monkeypatch.setattr(bell, "line", line)
    return line


@pytest.fixture
def client(url):
    client = bell.client_for(url)
    yield client
    client.close()


@pytest.fixture
def ringer(url, line, monkeypatch):
    ringer = bell.Ringer(url)
    monkeypatch.setattr(bell, "_ringer", ringer)
    yield ringer
    ringer.close()


@pytest.fixture
def heard(url, line):
    """What an actor on the queue "lane" was called with, each with the moment."""
    heard: queue.Queue = queue.Queue()
    broker = Broker(url)
    dramatiq.actor(broker=broker, queue_name="lane", actor_name="lane")(
        lambda *args: heard.put((args, time.monotonic()))
    )
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=2)
    worker.start()
    yield heard
    worker.stop()


def test_a_bell_is_heard_at_once(ringer, heard):
    took = []
    for number in range(20):
        rung_at = time.monotonic()
        bell.ring("lane", number)
        args, at = heard.get(timeout=5)
        assert args == (number,)
        took.append(at - rung_at)

    assert sorted(took)[10] < 0.05


def test_bells_for_a_lane_that_waits_are_one(ringer, client):
    for _ in range(100):
        bell.ring_road(7)
        bell.ring_router(8)

    assert ringer.flush(5)
    assert client.zcard(bell.key_of("road.normalize")) == 1
    assert client.zcard(bell.key_of("routers")) == 1


@pytest.mark.parametrize(("cuts", "queue"), [((), "road.normalize"), (("route",), "road.rules")], ids=str)
def test_what_waits_at_a_stage_is_rung_for_the_queue_of_its_segment(ringer, client, monkeypatch, cuts, queue):
    monkeypatch.setattr(bell, "_road", segments(cuts))
    bell.ring_road(8, "rules")

    assert ringer.flush(5)
    assert client.zcard(bell.key_of(queue)) == 1


def test_a_lane_that_rests_is_silent_and_then_heard_once_for_all_its_bells(ringer, heard, client):
    rested_at = time.monotonic()
    ringer.rest(0.3, "lane", 7)
    assert ringer.flush(5)
    for _ in range(5):
        bell.ring("lane", 7)
    bell.ring("lane", 8)

    assert heard.get(timeout=5)[0] == (8,)
    args, at = heard.get(timeout=5)
    assert args == (7,)
    assert at - rested_at >= 0.3
    assert heard.empty()
    assert client.zcard(bell.key_of("lane")) == 0


def test_a_lane_that_was_rung_after_its_rest_is_silent_no_longer(ringer, heard, client):
    """The server heard of the rest later than it began, and would have kept to it for longer."""
    ringer.rest(0.5, "lane", 7)
    assert ringer.flush(5)
    client.zadd(bell.resting_key_of("lane"), {"[7]": time.time() + 60})
    assert heard.get(timeout=5)[0] == (7,)
    bell.ring("lane", 7)

    assert heard.get(timeout=5)[0] == (7,)


def test_rests_that_are_over_are_forgotten(ringer, heard, client):
    for lane in range(3):
        ringer.rest(0.01, "lane", lane)
        assert ringer.flush(5)
        heard.get(timeout=5)

    assert client.zcard(bell.resting_key_of("lane")) == 0


def test_rests_whose_process_ended_are_forgotten(ringer, client):
    client.zadd(bell.resting_key_of("lane"), {"[1]": time.time() - 1})
    ringer.rest(60, "lane", 2)
    assert ringer.flush(5)

    assert client.zrange(bell.resting_key_of("lane"), 0, -1) == [b"[2]"]


def test_a_flushed_server_forgets_rests_and_loses_no_lane(ringer, heard, client):
    ringer.rest(0.2, "lane", 7)
    assert ringer.flush(5)
    client.flushall()

    assert heard.get(timeout=5)[0] == (7,)


def test_lanes_are_heard_in_the_order_of_their_first_bell(ringer, client):
    for lane in (3, 1, 2, 3):
        bell.ring_road(lane)
        assert ringer.flush(5)

    waiting = client.zrange(bell.key_of("road.normalize"), 0, -1)
    assert waiting == [b"[3]", b"[1]", b"[2]"]


def test_there_are_no_queues_for_delays(heard, client):
    assert client.keys("*") == []
    assert {thread.name for thread in threading.enumerate() if "DQ" in thread.name} == set()


def test_a_bell_that_cannot_be_read_is_dropped(ringer, heard, client):
    client.zadd(bell.key_of("lane"), {"{nonsense": 1})
    bell.ring("lane", 1)

    assert heard.get(timeout=5)[0] == (1,)


def test_an_outage_is_told_once_and_ends_by_itself(keeper, ringer, heard, line):
    with structlog.testing.capture_logs() as told:
        keeper._server.kill()
        until(lambda: not line.up)
        bell.ring("lane", 1)

        assert heard.get(timeout=15)[0] == (1,)

    mine = [one["event"] for one in told if one["event"].startswith("redis is")]
    assert mine == ["redis is away; alerts are found in the database", "redis is back"]


def test_ringing_a_dead_port_costs_nothing_and_raises_nothing(line, monkeypatch):
    ringer = bell.Ringer(f"redis://127.0.0.1:{free_port()}/0")
    monkeypatch.setattr(bell, "_ringer", ringer)
    slowest = 0.0
    for number in range(200):
        started = time.monotonic()
        bell.ring_road(number)
        slowest = max(slowest, time.monotonic() - started)

    assert slowest < 0.05
    until(lambda: not line.up)
    ringer.close()


def test_a_process_without_redis_rings_silently(monkeypatch):
    monkeypatch.setattr(bell, "_ringer", None)

    bell.ring_road(1)
    bell.ring_timers()
    bell.ring_deliver(1)


def test_a_bell_cannot_be_delayed(url):
    message = dramatiq.Message("lane", "lane", (1,), {}, {})

    with pytest.raises(ValueError, match="delayed"):
        Broker(url).enqueue(message, delay=1000)
