"""The dead-man's switch is requested over a real connection, and only while Tocsin is healthy."""

import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import peewee
import pytest
import structlog

from models.domain.enums import MessageStatus, TimerKind
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.store import store as opened_store
from models.tables.accounts import Liveness
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.timers import Timer
from runtime.metrics import counters
from runtime.redis import create_client
from runtime.redis_socket import get_url
from runtime.settings import load
from schedules.clock_process import PeriodicJob, PeriodicScheduler
from tests.support.alerts import accept
from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_redis
from tocsin.server import dead_mans_switch
from workers.alerts import process_lane
from workers.broker import broker

PATH = "/ping/hunter2/?for=us"


class PingReceiver(ThreadingHTTPServer):
    """The external service that expects the requests."""

    status = 200
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []
        self.hang = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{PATH}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.command, self.path))
        self.server.may_answer.wait(20)
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def receiver():
    with PingReceiver() as receiver:
        serving = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        serving.start()
        yield receiver
        receiver.may_answer.set()
        receiver.shutdown()
        serving.join()


@pytest.fixture
def healthy(store, world, home, monkeypatch):
    """A healthy installation; the value is the present time."""
    with start_redis(home):
        monkeypatch.setattr(broker, "url", get_url(home))
        now = opened_store().now()
        for kind in ("web", "worker", "clock"):
            backlog.record_liveness(ProcessLiveness(kind, f"{kind}:1", now), now)
        yield now


@pytest.fixture
def pinger(receiver):
    return dead_mans_switch.DeadMansSwitch(receiver.url)


def count_outcomes(outcome):
    found = counters._counters["tocsin_dead_mans_switch_pings_total"].labels(outcome=outcome)
    return found._value.get()


def test_a_healthy_installation_requests_exactly_this_url(healthy, receiver, pinger):
    before = count_outcomes("sent")
    pinger.ping()

    assert receiver.asked == [("GET", PATH)]
    assert count_outcomes("sent") == before + 1


def end_process(kind):
    Liveness.delete().where(Liveness.process == f"{kind}:1").execute()


def make_alert_late(world, now):
    accept(world, now - timedelta(seconds=31), message="m", exactly=True)


def open_incident(world, now):
    accept(world, now - timedelta(seconds=1), message="m", alert_type="critical", exactly=True)
    process_lane.run(world.service.id)


def make_timer_late(world, now):
    open_incident(world, now)
    due_at = now - timedelta(seconds=31)
    Timer.create(incident=Incident.get(), kind=TimerKind.ESCALATE, key="late", due_at=due_at)


def make_message_late(world, now):
    open_incident(world, now)
    Message.update(state=MessageStatus.PENDING, next_attempt_at=now - timedelta(seconds=301)).execute()


def stop_redis(monkeypatch):
    monkeypatch.setattr(broker, "url", f"redis://127.0.0.1:{find_free_port()}/0")


UNHEALTHY = {
    "alerts are late": lambda world, now, patch: make_alert_late(world, now),
    "timers are late": lambda world, now, patch: make_timer_late(world, now),
    "messages are late": lambda world, now, patch: make_message_late(world, now),
    "no web process is running": lambda world, now, patch: end_process("web"),
    "no worker process is running": lambda world, now, patch: end_process("worker"),
    "Redis does not answer": lambda world, now, patch: stop_redis(patch),
}


@pytest.mark.parametrize("fault", UNHEALTHY)
def test_a_problem_stops_the_requests_and_is_logged_once(
    healthy, world, receiver, pinger, monkeypatch, fault
):
    UNHEALTHY[fault](world, healthy, monkeypatch)
    before = count_outcomes("withheld")
    with structlog.testing.capture_logs() as logs:
        pinger.ping()
        pinger.ping()

    assert receiver.asked == []
    assert count_outcomes("withheld") == before + 2
    assert [(entry["outcome"], entry["why"]) for entry in logs] == [("withheld", fault)]


def test_a_read_only_database_stops_the_requests(healthy, receiver, pinger, monkeypatch):
    def fail(now):
        raise peewee.OperationalError("read-only")

    monkeypatch.setattr(dead_mans_switch, "_test_write", fail)
    assert dead_mans_switch.find_problems() == ["the database cannot be used"]
    pinger.ping()
    assert receiver.asked == []


def test_a_short_delay_is_healthy(healthy, world):
    open_incident(world, healthy)
    accept(world, healthy - timedelta(seconds=29), message="m", exactly=True)

    assert dead_mans_switch.find_problems() == []


def test_each_change_is_logged_once_without_the_url(healthy, receiver, pinger):
    with structlog.testing.capture_logs() as logs:
        for status in (200, 200, 500, 500, 302, 204):
            receiver.status = status
            pinger.ping()

    assert [(entry["log_level"], entry.get("why")) for entry in logs] == [
        ("info", None), ("warning", "answered 500"), ("warning", "answered 302"), ("info", None),
    ]  # fmt: skip
    assert "hunter2" not in repr(logs)
    assert {path for _, path in receiver.asked} == {PATH}


def test_a_refused_connection_is_logged_without_the_url(healthy):
    with structlog.testing.capture_logs() as logs:
        dead_mans_switch.DeadMansSwitch(f"http://127.0.0.1:{find_free_port()}{PATH}").ping()

    assert [entry["why"] for entry in logs] == ["ConnectionRefusedError"]


def test_a_request_without_an_answer_ends_in_time_and_blocks_the_next_one(
    healthy, receiver, pinger, monkeypatch
):
    monkeypatch.setattr(dead_mans_switch, "TIMEOUT_S", 0.2)
    receiver.may_answer.clear()
    with structlog.testing.capture_logs() as logs:
        pinger._sending = threading.Thread(target=receiver.may_answer.wait, args=(20,), daemon=True)
        pinger._sending.start()
        pinger.ping()
        pinger._sending = None
        pinger.ping()

    assert [entry["why"] for entry in logs] in (
        ["the previous request is still running", "no answer in time"],
        ["the previous request is still running", "TimeoutError"],
    )
    # The receiver may accept the connection after the client has left.
    wait_until(lambda: receiver.asked)
    assert len(receiver.asked) == 1


def test_only_one_of_two_clocks_sends_the_request_of_a_period(healthy, home, receiver):
    dead_mans_switch.configure(load({"TOCSIN_DEAD_MANS_SWITCH_URL": receiver.url}))
    client = create_client(get_url(home))
    # With the period of a minute, the next slot could come between the two.
    job = PeriodicJob("dead-mans-switch", 1_000_000_000, dead_mans_switch.ping, slow=True)
    clocks = [PeriodicScheduler(client, (job,)) for _ in range(2)]
    for period in (1, 2):
        client.zadd(PeriodicScheduler.scheduled_jobs_key, {job.id: 1})
        for clock in clocks:
            clock.enqueue_jobs()
        wait_until(lambda expected=period: len(receiver.asked) == expected)
        # A clock that still waits for the answer would skip the next period.
        wait_until(lambda: all(ping.done() for clock in clocks for ping in clock._running.values()))
    for clock in clocks:
        clock._executor.shutdown(wait=True)

    assert len(receiver.asked) == 2
    assert b"hunter2" not in b"".join(client.hgetall(f"rq:job:{job.id}").values())
    dead_mans_switch.configure(load({}))
    client.close()


def test_a_slow_job_does_not_delay_other_jobs(store, home):
    leave, ran = threading.Event(), []

    def hang():
        leave.wait(10)

    def run_job():
        ran.append(1)

    with start_redis(home):
        client = create_client(get_url(home))
        jobs = (PeriodicJob("hangs", 60, hang, slow=True), PeriodicJob("runs", 60, run_job, slow=True))
        clock = PeriodicScheduler(client, jobs)
        client.zadd(PeriodicScheduler.scheduled_jobs_key, {job.id: 1 for job in jobs})
        clock.enqueue_jobs()
        wait_until(lambda: ran)
        leave.set()
        client.close()
