"""A wake-up reaches its actor over a real Redis server: soon, and once per pending lane."""

import threading
import time
from queue import Queue

import dramatiq
import pytest
import structlog

from pipeline.topology import build_segments
from runtime.redis import RedisStatus
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_redis
from tocsin.server.embedded_redis import get_url
from workers import queue
from workers.broker import Broker


@pytest.fixture
def redis_keeper(home):
    with start_redis(home) as redis_keeper:
        yield redis_keeper


@pytest.fixture
def url(redis_keeper, home):
    return get_url(home)


@pytest.fixture
def redis_status(monkeypatch):
    """A Redis status that only this test uses."""
    redis_status = RedisStatus()
    monkeypatch.setattr(queue, "redis_status", redis_status)
    return redis_status


@pytest.fixture
def client(url):
    client = queue.create_client(url)
    yield client
    client.close()


@pytest.fixture
def queue_under_test(url, redis_status, monkeypatch):
    queue_under_test = queue.QueueSender(url)
    monkeypatch.setattr(queue, "_sender", queue_under_test)
    yield queue_under_test
    queue_under_test.close()


@pytest.fixture
def received(url, redis_status):
    """The arguments of each call of an actor on the queue "lane", with the time of the call."""
    received: Queue = Queue()
    broker = Broker(url)
    dramatiq.actor(broker=broker, queue_name="lane", actor_name="lane")(
        lambda *args: received.put((args, time.monotonic()))
    )
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=2)
    worker.start()
    yield received
    worker.stop()


def test_a_wake_up_reaches_its_actor_at_once(queue_under_test, received):
    took = []
    for number in range(20):
        enqueued_at = time.monotonic()
        queue.enqueue("lane", number)
        args, at = received.get(timeout=5)
        assert args == (number,)
        took.append(at - enqueued_at)

    assert sorted(took)[10] < 0.05


def test_wake_ups_for_a_pending_lane_are_merged(queue_under_test, client):
    for _ in range(100):
        queue.enqueue_lane(7)
        queue.enqueue_router(8)

    assert queue_under_test.flush(5)
    assert client.zcard(queue.get_key("pipeline.normalize")) == 1
    assert client.zcard(queue.get_key("routers")) == 1


@pytest.mark.parametrize(
    ("queue_splits", "queue_name"), [((), "pipeline.normalize"), (("route",), "pipeline.rules")], ids=str
)
def test_a_stage_is_enqueued_to_the_queue_of_its_segment(
    queue_under_test, client, monkeypatch, queue_splits, queue_name
):
    monkeypatch.setattr(queue, "_segments", build_segments(queue_splits))
    queue.enqueue_lane(8, "rules")

    assert queue_under_test.flush(5)
    assert client.zcard(queue.get_key(queue_name)) == 1


def test_a_lingering_lane_gets_one_wake_up_at_the_end(queue_under_test, received, client):
    lingered_at = time.monotonic()
    queue_under_test.linger(0.3, "lane", 7)
    assert queue_under_test.flush(5)
    for _ in range(5):
        queue.enqueue("lane", 7)
    queue.enqueue("lane", 8)

    assert received.get(timeout=5)[0] == (8,)
    args, at = received.get(timeout=5)
    assert args == (7,)
    assert at - lingered_at >= 0.3
    assert received.empty()
    assert client.zcard(queue.get_key("lane")) == 0


def test_a_lane_gets_wake_ups_again_after_its_linger(queue_under_test, received, client):
    """The server got the linger later than it began, and would have ended it later."""
    queue_under_test.linger(0.5, "lane", 7)
    assert queue_under_test.flush(5)
    client.zadd(queue.get_linger_key("lane"), {"[7]": time.time() + 60})
    assert received.get(timeout=5)[0] == (7,)
    queue.enqueue("lane", 7)

    assert received.get(timeout=5)[0] == (7,)


def test_ended_lingers_are_removed(queue_under_test, received, client):
    for lane in range(3):
        queue_under_test.linger(0.01, "lane", lane)
        assert queue_under_test.flush(5)
        received.get(timeout=5)

    assert client.zcard(queue.get_linger_key("lane")) == 0


def test_lingers_of_an_ended_process_are_removed(queue_under_test, client):
    client.zadd(queue.get_linger_key("lane"), {"[1]": time.time() - 1})
    queue_under_test.linger(60, "lane", 2)
    assert queue_under_test.flush(5)

    assert client.zrange(queue.get_linger_key("lane"), 0, -1) == [b"[2]"]


def test_a_flushed_server_loses_no_lingering_lane(queue_under_test, received, client):
    queue_under_test.linger(0.2, "lane", 7)
    assert queue_under_test.flush(5)
    client.flushall()

    assert received.get(timeout=5)[0] == (7,)


def test_lanes_are_queued_in_the_order_of_their_first_wake_up(queue_under_test, client):
    for lane in (3, 1, 2, 3):
        queue.enqueue_lane(lane)
        assert queue_under_test.flush(5)

    lanes_pending = client.zrange(queue.get_key("pipeline.normalize"), 0, -1)
    assert lanes_pending == [b"[3]", b"[1]", b"[2]"]


def test_there_are_no_queues_for_delays(received, client):
    assert client.keys("*") == []
    assert {thread.name for thread in threading.enumerate() if "DQ" in thread.name} == set()


def test_an_invalid_wake_up_is_dropped(queue_under_test, received, client):
    client.zadd(queue.get_key("lane"), {"{nonsense": 1})
    queue.enqueue("lane", 1)

    assert received.get(timeout=5)[0] == (1,)


def test_a_redis_outage_is_logged_once_and_ends_by_itself(
    redis_keeper, queue_under_test, received, redis_status
):
    with structlog.testing.capture_logs() as logs:
        redis_keeper._server.kill()
        wait_until(lambda: not redis_status.up)
        queue.enqueue("lane", 1)

        assert received.get(timeout=15)[0] == (1,)

    mine = [one["event"] for one in logs if one["event"].startswith("Redis is")]
    assert mine == ["Redis is down; workers look for alerts in the database", "Redis is up again"]


def test_enqueuing_to_a_dead_port_is_fast_and_raises_no_error(redis_status, monkeypatch):
    queue_under_test = queue.QueueSender(f"redis://127.0.0.1:{find_free_port()}/0")
    monkeypatch.setattr(queue, "_sender", queue_under_test)
    slowest = 0.0
    for number in range(200):
        started = time.monotonic()
        queue.enqueue_lane(number)
        slowest = max(slowest, time.monotonic() - started)

    assert slowest < 0.05
    wait_until(lambda: not redis_status.up)
    queue_under_test.close()


def test_enqueuing_without_redis_does_nothing(monkeypatch):
    monkeypatch.setattr(queue, "_sender", None)

    queue.enqueue_lane(1)
    queue.enqueue_timers()
    queue.enqueue_delivery(1)


def test_a_wake_up_cannot_be_delayed(url):
    message = dramatiq.Message("lane", "lane", (1,), {}, {})

    with pytest.raises(ValueError, match="delayed"):
        Broker(url).enqueue(message, delay=1000)
