"""The clock over a real Redis: every slot once, whatever happens to the schedule."""

import threading
from datetime import timedelta
from itertools import pairwise
from statistics import median

import pytest

from models.domain.values import replace
from models.tables.accounts import Liveness
from runtime.redis import create_client
from runtime.redis_socket import get_url
from schedules.clock_process import RETRY_S, PeriodicJob, PeriodicScheduler
from tests.support.polling import PATIENCE_S, wait_until
from tests.support.processes import find_free_port, start_redis
from workers.periodic import liveness
from workers.periodic.table import PERIODIC_JOBS


@pytest.fixture
def client(home):
    with start_redis(home):
        client = create_client(get_url(home))
        yield client
        client.close()


@pytest.fixture
def runs():
    return []


@pytest.fixture
def tick(runs):
    def tick():
        runs.append(1)

    return PeriodicJob("tick", 60, tick)


def get_server_time(client) -> float:
    seconds, micros = client.time()
    return seconds + micros / 1e6


def get_slot(client, job) -> float | None:
    return client.zscore(PeriodicScheduler.scheduled_jobs_key, job.id)


def set_slot(client, job, slot: float) -> None:
    client.zadd(PeriodicScheduler.scheduled_jobs_key, {job.id: slot})


def test_an_empty_schedule_is_filled_with_whole_multiples_of_the_period(client, tick, runs):
    before = get_server_time(client)
    PeriodicScheduler(client, (tick,)).enqueue_jobs()

    slot = get_slot(client, tick)
    assert slot % 60 == 0
    assert before < slot <= get_server_time(client) + 60
    assert runs == []


def test_a_slot_that_has_come_runs_once_and_missed_ones_are_skipped(client, tick, runs):
    set_slot(client, tick, get_server_time(client) - 1000)
    clock = PeriodicScheduler(client, (tick,))

    clock.enqueue_jobs()
    clock.enqueue_jobs()

    assert runs == [1]
    assert get_slot(client, tick) % 60 == 0


def test_one_of_two_clocks_runs_a_slot(client, tick, runs):
    # With the period of a minute, the next slot could come within a round.
    rare = replace(tick, every_s=1_000_000_000)
    clock_count, rounds = 4, 25
    start = threading.Barrier(clock_count + 1, timeout=30)
    end = threading.Barrier(clock_count + 1, timeout=30)

    def run_passes():
        clock = PeriodicScheduler(client, (rare,))
        for _ in range(rounds):
            start.wait()
            clock.enqueue_jobs()
            end.wait()

    threads = [threading.Thread(target=run_passes) for _ in range(clock_count)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        set_slot(client, rare, get_server_time(client) - 1)
        start.wait()
        end.wait()
    for thread in threads:
        thread.join()

    assert len(runs) == rounds


def test_an_emptied_redis_gets_its_schedule_back(client, tick):
    clock = PeriodicScheduler(client, (tick,))
    clock.enqueue_jobs()
    client.flushall()

    clock.enqueue_jobs()

    assert get_slot(client, tick) is not None


def test_a_slot_that_lies_too_far_ahead_is_pulled_in(client, tick, runs):
    """As after the clock was set back."""
    before = get_server_time(client)
    set_slot(client, tick, before + 1_000_000)

    PeriodicScheduler(client, (tick,)).enqueue_jobs()

    assert before < get_slot(client, tick) <= get_server_time(client) + 60
    assert runs == []


def test_it_sleeps_until_the_next_slot(client, runs):
    every_second = PeriodicJob("second", 1, lambda: runs.append(get_server_time(client)))
    clock = PeriodicScheduler(client, (every_second,))

    def go_on():
        threading.Event().wait(clock.run_once())
        return len(runs) == 4

    wait_until(go_on, every=0)

    # A busy machine may delay one of them.
    assert sorted(at % 1 for at in runs)[2] <= 0.5
    assert round(median(b - a for a, b in pairwise(runs))) == 1


def test_without_redis_it_tries_again(tick):
    without_jobs = PeriodicScheduler(create_client(f"redis://127.0.0.1:{find_free_port()}/0"), (tick,))

    assert without_jobs.run_once() == RETRY_S


def test_a_job_that_fails_stops_nobody(client, tick, runs):
    def fail():
        raise ZeroDivisionError

    failing = PeriodicJob("failing", 60, fail)
    for job in (failing, tick):
        set_slot(client, job, get_server_time(client) - 1)

    PeriodicScheduler(client, (failing, tick)).enqueue_jobs()

    assert runs == [1]


def test_a_slow_job_delays_no_other_job_and_runs_once_at_a_time(client, tick, runs):
    leave, entered = threading.Event(), []

    def work():
        entered.append(1)
        leave.wait(PATIENCE_S)

    slow = PeriodicJob("slow", 60, work, slow=True)
    clock = PeriodicScheduler(client, (slow, tick))
    for _ in range(2):
        for job in (slow, tick):
            set_slot(client, job, get_server_time(client) - 1)
        clock.enqueue_jobs()
        wait_until(lambda: entered)
    leave.set()

    assert (entered, runs) == ([1], [1, 1])


def test_rq_sees_the_jobs_as_json(client, tick):
    clock = PeriodicScheduler(client, PERIODIC_JOBS)
    clock.enqueue_jobs()

    assert {job.func_name for job in clock.get_jobs()} >= {
        "workers.periodic.due_scan.enqueue_due",
        "workers.periodic.liveness.record_liveness",
    }
    assert all(not value.startswith(b"\x80") for value in client.hgetall("rq:job:tocsin-tick").values())


def test_the_heartbeat_is_one_row(store):
    liveness.record_liveness()
    first = Liveness.get(Liveness.process == "clock").at
    liveness.record_liveness()

    assert Liveness.select().count() == 1
    assert Liveness.get(Liveness.process == "clock").at > first


@pytest.mark.parametrize(("ahead_s", "expected_log"), [(-5, 0), (4, 0), (3600, 1)])
def test_a_heartbeat_that_lies_ahead_says_that_the_clock_was_set_back(
    store, monkeypatch, ahead_s, expected_log
):
    liveness.record_liveness()
    before = store.now() + timedelta(seconds=ahead_s)
    Liveness.update(at=before).execute()
    found = []
    monkeypatch.setattr(liveness.outbox, "handle_clock_set_back", lambda shown, now: found.append(shown))
    liveness.record_liveness()
    liveness.record_liveness()

    assert found == [before + timedelta(seconds=liveness.LIVENESS_PERIOD_S)] * expected_log
