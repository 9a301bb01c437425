"""The clock over a real Redis: every slot once, whatever happens to the schedule."""

import threading
from datetime import timedelta
from itertools import pairwise

import pytest

from models.accounts import Heartbeat
from schedules import clock as clocks
from schedules.clock import PERIODIC, RETRY_S, Clock, Periodic
from tests.processes import free_port, running_redis
from tests.waiting import until
from tocsin.embedded_redis import url_of
from workers import bell


@pytest.fixture
def client(home):
    with running_redis(home):
        client = bell.client_for(url_of(home))
        yield client
        client.close()


@pytest.fixture
def ran():
    return []


@pytest.fixture
def tick(ran):
    def tick():
        ran.append(1)

    return Periodic("tick", 60, tick)


def moment(client) -> float:
    seconds, micros = client.time()
    return seconds + micros / 1e6


def slot_of(client, job) -> float | None:
    return client.zscore(Clock.scheduled_jobs_key, job.id)


def put_at(client, job, slot: float) -> None:
    client.zadd(Clock.scheduled_jobs_key, {job.id: slot})


def test_an_empty_schedule_is_filled_with_whole_multiples_of_the_period(client, tick, ran):
    Clock(client, (tick,)).enqueue_jobs()

    slot = slot_of(client, tick)
    assert slot % 60 == 0
    assert 0 < slot - moment(client) <= 60
    assert ran == []


def test_a_slot_that_has_come_runs_once_and_missed_ones_are_skipped(client, tick, ran):
    put_at(client, tick, moment(client) - 1000)
    clock = Clock(client, (tick,))

    clock.enqueue_jobs()
    clock.enqueue_jobs()

    assert ran == [1]
    assert slot_of(client, tick) % 60 == 0


def test_of_several_clocks_one_runs_a_slot(client, tick, ran):
    clock_count, rounds = 4, 25
    start = threading.Barrier(clock_count + 1, timeout=20)
    end = threading.Barrier(clock_count + 1, timeout=20)

    def passes():
        clock = Clock(client, (tick,))
        for _ in range(rounds):
            start.wait()
            clock.enqueue_jobs()
            end.wait()

    threads = [threading.Thread(target=passes) for _ in range(clock_count)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        put_at(client, tick, moment(client) - 1)
        start.wait()
        end.wait()
    for thread in threads:
        thread.join()

    assert len(ran) == rounds


def test_an_emptied_redis_gets_its_schedule_back(client, tick):
    clock = Clock(client, (tick,))
    clock.enqueue_jobs()
    client.flushall()

    clock.enqueue_jobs()

    assert slot_of(client, tick) is not None


def test_a_slot_that_lies_too_far_ahead_is_pulled_in(client, tick, ran):
    """As after the clock was set back."""
    put_at(client, tick, moment(client) + 1_000_000)

    Clock(client, (tick,)).enqueue_jobs()

    assert 0 < slot_of(client, tick) - moment(client) <= 60
    assert ran == []


def test_it_sleeps_until_the_next_slot(client, ran):
    every_second = Periodic("second", 1, lambda: ran.append(moment(client)))
    clock = Clock(client, (every_second,))

    def go_on():
        threading.Event().wait(clock.pass_or_retry())
        return len(ran) == 3

    until(go_on, every=0)

    assert [late for late in (at % 1 for at in ran) if late > 0.5] == []
    assert {round(b - a) for a, b in pairwise(ran)} == {1}


def test_without_redis_it_tries_again(tick):
    with_nobody = Clock(bell.client_for(f"redis://127.0.0.1:{free_port()}/0"), (tick,))

    assert with_nobody.pass_or_retry() == RETRY_S


def test_a_job_that_fails_stops_nobody(client, tick, ran):
    def fail():
        raise ZeroDivisionError

    failing = Periodic("failing", 60, fail)
    for job in (failing, tick):
        put_at(client, job, moment(client) - 1)

    Clock(client, (failing, tick)).enqueue_jobs()

    assert ran == [1]


def test_a_slow_job_keeps_no_tick_waiting_and_runs_once_at_a_time(client, tick, ran):
    leave, entered = threading.Event(), []

    def work():
        entered.append(1)
        leave.wait(10)

    slow = Periodic("slow", 60, work, slow=True)
    clock = Clock(client, (slow, tick))
    for _ in range(2):
        for job in (slow, tick):
            put_at(client, job, moment(client) - 1)
        clock.enqueue_jobs()
        until(lambda: entered)
    leave.set()

    assert (entered, ran) == ([1], [1, 1])


def test_rq_sees_the_jobs_as_json(client, tick):
    clock = Clock(client, PERIODIC)
    clock.enqueue_jobs()

    assert {job.func_name for job in clock.get_jobs()} >= {"workers.ticks.ring_due", "schedules.clock.beat"}
    assert all(not value.startswith(b"\x80") for value in client.hgetall("rq:job:tocsin-tick").values())


def test_the_heartbeat_is_one_row(store):
    clocks.beat()
    first = Heartbeat.get(Heartbeat.process == "clock").at
    clocks.beat()

    assert Heartbeat.select().count() == 1
    assert Heartbeat.get(Heartbeat.process == "clock").at > first


@pytest.mark.parametrize(("ahead_s", "told"), [(-5, 0), (4, 0), (3600, 1)])
def test_a_heartbeat_that_lies_ahead_says_that_the_clock_was_set_back(store, monkeypatch, ahead_s, told):
    clocks.beat()
    before = store.now() + timedelta(seconds=ahead_s)
    Heartbeat.update(at=before).execute()
    found = []
    monkeypatch.setattr(clocks.outbox, "set_back", lambda shown, now: found.append(shown))
    clocks.beat()
    clocks.beat()

    assert found == [before + timedelta(seconds=clocks.BEAT_S)] * told
