"""A wake-up reaches its actor over a real Redis server: soon, and once per pending lane."""

import threading
import time
from functools import partial
from queue import Queue

import dramatiq
import pytest
import structlog

from runtime.redis import RedisStatus, create_client
from runtime.redis_socket import get_url
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_redis
from workers import broker, queue, sender
from workers.broker import COVERED_PAUSE_S, Broker
from workers.sender import get_key, get_linger_key


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
    monkeypatch.setattr(broker, "redis_status", redis_status)
    monkeypatch.setattr(sender, "redis_status", redis_status)
    return redis_status


@pytest.fixture
def client(url):
    client = create_client(url)
    yield client
    client.close()


@pytest.fixture
def broker_under_test(url, redis_status, monkeypatch):
    """A broker that only this test uses. The functions of workers/queue.py enqueue to it."""
    broker_under_test = Broker()
    broker_under_test.connect(url)
    monkeypatch.setattr(broker, "broker", broker_under_test)
    yield broker_under_test
    broker_under_test.close()


@pytest.fixture
def flush(broker_under_test):
    """Return a function that waits until all wake-ups are sent, and returns whether they are."""
    return lambda: broker_under_test._sender.flush(30)


@pytest.fixture
def received():
    """The arguments of each call of the actor on the queue "lane", with the time of the call."""
    return Queue()


@pytest.fixture
def lane(broker_under_test, received):
    """An actor on the queue "lane", and a worker that runs it."""

    @dramatiq.actor(broker=broker_under_test, queue_name="lane", actor_name="lane")
    def lane(*args):
        received.put((args, time.monotonic()))

    worker = dramatiq.Worker(broker_under_test, worker_timeout=100, worker_threads=2)
    worker.start()
    yield lane
    worker.stop()


@pytest.mark.parametrize("by", ["send", "enqueue"])
def test_a_wake_up_reaches_its_actor_at_once(lane, received, by):
    enqueue = lane.send if by == "send" else partial(queue.enqueue, "lane")
    took = []
    for number in range(20):
        enqueued_at = time.monotonic()
        enqueue(number)
        args, at = received.get(timeout=30)
        assert args == (number,)
        took.append(at - enqueued_at)

    assert sorted(took)[10] < 0.05


def test_wake_ups_for_a_pending_lane_are_merged(flush, client):
    for _ in range(100):
        queue.enqueue_lane(7)
        queue.enqueue_router(8)

    assert flush()
    assert client.zcard(get_key("pipeline.normalize")) == 1
    assert client.zcard(get_key("routers")) == 1


@pytest.mark.parametrize(
    ("queue_splits", "queue_name"), [((), "pipeline.normalize"), (("route",), "pipeline.rules")], ids=str
)
def test_a_stage_is_enqueued_to_the_queue_of_its_segment(
    flush, client, monkeypatch, queue_splits, queue_name
):
    monkeypatch.setattr(queue, "_splits", queue_splits)
    queue.enqueue_lane(8, "rules")

    assert flush()
    assert client.zcard(get_key(queue_name)) == 1


def test_a_lingering_lane_gets_one_wake_up_at_the_end(lane, flush, received, client):
    lingered_at = time.monotonic()
    # Long enough for the wake-ups below, also on a busy machine.
    lane.send_with_options(args=(7,), delay=3_000)
    assert flush()
    for _ in range(5):
        queue.enqueue("lane", 7)
    queue.enqueue("lane", 8)

    assert received.get(timeout=30)[0] == (8,)
    args, at = received.get(timeout=30)
    assert args == (7,)
    assert at - lingered_at >= 3
    assert received.empty()
    assert client.zcard(get_key("lane")) == 0


def test_a_lane_gets_wake_ups_again_after_its_linger(lane, flush, received, client):
    """The server got the linger later than it began, and would have ended it later."""
    lane.send_with_options(args=(7,), delay=500)
    assert flush()
    client.zadd(get_linger_key("lane"), {"[7]": time.time() + 60})
    assert received.get(timeout=30)[0] == (7,)
    queue.enqueue("lane", 7)

    assert received.get(timeout=30)[0] == (7,)


def test_ended_lingers_are_removed(lane, flush, received, client):
    for number in range(3):
        lane.send_with_options(args=(number,), delay=10)
        assert flush()
        received.get(timeout=30)

    assert client.zcard(get_linger_key("lane")) == 0


def test_lingers_of_an_ended_process_are_removed(lane, flush, client):
    client.zadd(get_linger_key("lane"), {"[1]": time.time() - 1})
    lane.send_with_options(args=(2,), delay=60_000)
    assert flush()

    assert client.zrange(get_linger_key("lane"), 0, -1) == [b"[2]"]


def test_a_flushed_server_loses_no_lingering_lane(lane, flush, received, client):
    lane.send_with_options(args=(7,), delay=200)
    assert flush()
    client.flushall()

    assert received.get(timeout=30)[0] == (7,)


def test_lanes_are_queued_in_the_order_of_their_first_wake_up(flush, client):
    for service_row in (3, 1, 2, 3):
        queue.enqueue_lane(service_row)
        assert flush()

    lanes_pending = client.zrange(get_key("pipeline.normalize"), 0, -1)
    assert lanes_pending == [b"[3]", b"[1]", b"[2]"]


def test_there_are_no_queues_for_delays(lane, client):
    assert client.keys("*") == []
    assert {thread.name for thread in threading.enumerate() if "DQ" in thread.name} == set()


def test_an_invalid_wake_up_is_dropped(lane, flush, received, client):
    client.zadd(get_key("lane"), {"{nonsense": 1})
    queue.enqueue("lane", 1)

    assert received.get(timeout=30)[0] == (1,)


def test_the_actor_gets_each_of_many_pending_wake_ups_once(lane, flush, received, client):
    client.zadd(get_key("lane"), {f"[{number}]": number for number in range(100)})

    queue.enqueue("lane", 100)

    calls = [received.get(timeout=30)[0] for _ in range(101)]
    assert sorted(calls) == [(number,) for number in range(101)]
    assert client.zcard(get_key("lane")) == 0


def test_a_consumer_takes_only_what_it_has_capacity_for(broker_under_test, client):
    client.zadd(get_key("lane"), {f"[{number}]": number for number in range(10)})
    consumer = broker_under_test.consume("lane", prefetch=3, timeout=10)

    taken = [next(consumer) for _ in range(4)]
    assert [message and message.args for message in taken] == [(0,), (1,), (2,), None]
    consumer.ack(taken[0])
    assert next(consumer).args == (3,)
    assert client.zcard(get_key("lane")) == 6
    consumer.close()


def test_a_consumer_that_closes_enqueues_again_what_it_did_not_return(broker_under_test, flush, client):
    client.zadd(get_key("lane"), {f"[{number}]": number for number in range(4)})
    consumer = broker_under_test.consume("lane", prefetch=8, timeout=10)
    assert [next(consumer).args for _ in range(2)] == [(0,), (1,)]
    assert client.zcard(get_key("lane")) == 0

    consumer.close()
    assert flush()
    assert sorted(client.zrange(get_key("lane"), 0, -1)) == [b"[2]", b"[3]"]


def test_a_wake_up_that_running_work_covers_needs_no_thread(broker_under_test, client):
    broker_under_test.add_cover("lane", lambda number: number % 2 == 0)
    client.zadd(get_key("lane"), {f"[{number}]": number for number in range(6)} | {"{nonsense": 6})
    consumer = broker_under_test.consume("lane", prefetch=2, timeout=10)

    found = [next(consumer) for _ in range(10)]
    assert [message.args for message in found if message] == [(1,), (3,)], "two, until they are done"
    consumer.ack(found[0])
    assert [message.args for message in (next(consumer) for _ in range(3)) if message] == [(5,)]
    consumer.close()


def test_a_consumer_pauses_only_if_all_its_wake_ups_were_covered(broker_under_test, client, monkeypatch):
    pauses = []
    broker_under_test.add_cover("lane", lambda number: number < 10)
    consumer = broker_under_test.consume("lane", prefetch=2, timeout=10)
    monkeypatch.setattr(consumer._closed, "wait", pauses.append)

    for members in ({"[1]": 1}, {"[11]": 1}, {}):
        if members:
            client.zadd(get_key("lane"), members)
        found = next(consumer)
        pauses.append(found and found.args)
    assert pauses == [COVERED_PAUSE_S, None, (11,), None]
    consumer.close()


def test_an_error_of_a_cover_harms_no_other_wake_up(broker_under_test, client):
    broker_under_test.add_cover("lane", lambda number: number == 1)
    client.zadd(get_key("lane"), {"[1]": 1, "[1, 2]": 2, '"abc"': 3, "[]": 4, "[5]": 5})
    consumer = broker_under_test.consume("lane", prefetch=8, timeout=10)

    found = [message.args for message in (next(consumer) for _ in range(8)) if message]
    assert found == [(1, 2), ("a", "b", "c"), (), (5,)]
    consumer.close()


def test_a_broker_that_closes_sends_the_wake_ups_of_lingering_lanes(url, redis_status, client):
    closing = Broker()
    closing.connect(url)
    message = dramatiq.Message("lane", "lane", (7,), {}, {}, "lane", 0)
    closing.enqueue(message, delay=60_000)
    closing.close()

    assert client.zrange(get_key("lane"), 0, -1) == [b"[7]"]
    assert client.zcard(get_linger_key("lane")) == 0


def test_a_command_sends_its_wake_ups_and_leaves_no_thread(url, redis_status, client, monkeypatch):
    monkeypatch.setattr(broker, "broker", Broker())
    with queue.connected(url):
        queue.enqueue_lane(7)
        # A command waits less than this, because a wake-up may be lost.
        assert broker.broker._sender.flush(30)
    queue.enqueue_lane(8)

    assert client.zrange(get_key("pipeline.normalize"), 0, -1) == [b"[7]"]
    assert "queue" not in {thread.name for thread in threading.enumerate()}


def test_a_redis_outage_is_logged_once_and_ends_by_itself(redis_keeper, lane, received, redis_status):
    with structlog.testing.capture_logs() as logs:
        redis_keeper._server.kill()
        wait_until(lambda: not redis_status.up)
        queue.enqueue("lane", 1)

        assert received.get(timeout=30)[0] == (1,)

    mine = [one["event"] for one in logs if one["event"].startswith("Redis is")]
    assert mine == ["Redis is down; workers look for alerts in the database", "Redis is up again"]


def test_enqueuing_to_a_dead_port_is_fast_and_raises_no_error(redis_status, monkeypatch):
    without_redis = Broker()
    without_redis.connect(f"redis://127.0.0.1:{find_free_port()}/0")
    monkeypatch.setattr(broker, "broker", without_redis)
    took = []
    for number in range(200):
        started = time.monotonic()
        queue.enqueue_lane(number)
        took.append(time.monotonic() - started)

    # A few may be slow because the machine is busy.
    assert sorted(took)[-4] < 0.05
    wait_until(lambda: not redis_status.up)
    without_redis.close()


def test_enqueuing_without_redis_does_nothing(monkeypatch):
    monkeypatch.setattr(broker, "broker", Broker())

    queue.enqueue_lane(1)
    queue.enqueue_timers()
    queue.enqueue_delivery(1)
