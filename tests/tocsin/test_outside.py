"""The URL outside is pinged over a real connection, while all is well and only then."""

import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import peewee
import pytest
import structlog

from models import metrics as kept
from models.accounts import Heartbeat
from models.base import store as opened_store
from models.enums import MessageState, TimerKind
from models.incidents import Incident
from models.metrics import Life
from models.notices import Message
from models.timers import Timer
from schedules.clock import Clock, Periodic
from tests.alerts import accept
from tests.processes import free_port, running_redis
from tests.waiting import until
from tocsin import outside
from tocsin.embedded_redis import url_of
from tocsin.metrics import counts
from tocsin.settings import load
from workers import bell, road

PATH = "/ping/hunter2/?for=us"


class Watch(ThreadingHTTPServer):
    """Somebody outside who expects pings."""

    status = 200
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str]] = []
        self.hangs = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{PATH}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.command, self.path))
        self.server.answers.wait(20)
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def watch():
    with Watch() as watch:
        serving = threading.Thread(target=watch.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        serving.start()
        yield watch
        watch.answers.set()
        watch.shutdown()
        serving.join()


@pytest.fixture
def well(store, world, home, monkeypatch):
    """All that has to be well is."""
    with running_redis(home):
        monkeypatch.setattr(bell, "_url", url_of(home))
        now = opened_store().now()
        for kind in ("web", "worker", "clock"):
            kept.beat(Life(kind, f"{kind}:1", now), now)
        yield now


@pytest.fixture
def pinger(watch):
    return outside.Pinger(watch.url)


def counted(outcome):
    found = counts._counters["tocsin_heartbeat_pings_total"].labels(outcome=outcome)
    return found._value.get()


def test_while_all_is_well_it_is_asked_for_to_the_letter(well, watch, pinger):
    before = counted("sent")
    pinger.ping()

    assert watch.asked == [("GET", PATH)]
    assert counted("sent") == before + 1


def gone(kind):
    Heartbeat.delete().where(Heartbeat.process == f"{kind}:1").execute()


def alert_waits(world, now):
    accept(world, now - timedelta(seconds=31), message="m", exactly=True)


def opened(world, now):
    accept(world, now - timedelta(seconds=1), message="m", alert_type="critical", exactly=True)
    road.run(world.service.id)


def timer_is_late(world, now):
    opened(world, now)
    due_at = now - timedelta(seconds=31)
    Timer.create(incident=Incident.get(), kind=TimerKind.ESCALATE, key="late", due_at=due_at)


def message_is_late(world, now):
    opened(world, now)
    Message.update(state=MessageState.PENDING, next_at=now - timedelta(seconds=301)).execute()


def redis_is_away(monkeypatch):
    monkeypatch.setattr(bell, "_url", f"redis://127.0.0.1:{free_port()}/0")


UNWELL = {
    "alerts wait": lambda world, now, patch: alert_waits(world, now),
    "timers are late": lambda world, now, patch: timer_is_late(world, now),
    "messages are late": lambda world, now, patch: message_is_late(world, now),
    "no web process lives": lambda world, now, patch: gone("web"),
    "no worker process lives": lambda world, now, patch: gone("worker"),
    "the broker is away": lambda world, now, patch: redis_is_away(patch),
}


@pytest.mark.parametrize("what", UNWELL)
def test_what_is_not_well_withholds_it_and_is_told_once(well, world, watch, pinger, monkeypatch, what):
    UNWELL[what](world, well, monkeypatch)
    before = counted("withheld")
    with structlog.testing.capture_logs() as logs:
        pinger.ping()
        pinger.ping()

    assert watch.asked == []
    assert counted("withheld") == before + 2
    assert [(entry["outcome"], entry["why"]) for entry in logs] == [("withheld", what)]


def test_a_store_that_cannot_be_written_to_withholds_it(well, watch, pinger, monkeypatch):
    def fails(now):
        raise peewee.OperationalError("read-only")

    monkeypatch.setattr(outside, "_commit", fails)
    assert outside.problems() == ["the database cannot be used"]
    pinger.ping()
    assert watch.asked == []


def test_what_waits_for_a_moment_is_well(well, world):
    opened(world, well)
    accept(world, well - timedelta(seconds=29), message="m", exactly=True)

    assert outside.problems() == []


def test_a_change_is_told_once_and_never_the_url(well, watch, pinger):
    with structlog.testing.capture_logs() as logs:
        for status in (200, 200, 500, 500, 302, 204):
            watch.status = status
            pinger.ping()

    assert [(entry["log_level"], entry.get("why")) for entry in logs] == [
        ("info", None), ("warning", "answered 500"), ("warning", "answered 302"), ("info", None),
    ]  # fmt: skip
    assert "hunter2" not in repr(logs)
    assert {path for _, path in watch.asked} == {PATH}


def test_nobody_there_is_a_failure_that_names_no_url(well):
    with structlog.testing.capture_logs() as logs:
        outside.Pinger(f"http://127.0.0.1:{free_port()}{PATH}").ping()

    assert [entry["why"] for entry in logs] == ["ConnectionRefusedError"]


def test_who_hangs_is_given_up_in_time_and_not_asked_again_meanwhile(well, watch, pinger, monkeypatch):
    monkeypatch.setattr(outside, "PATIENCE_S", 0.2)
    watch.answers.clear()
    with structlog.testing.capture_logs() as logs:
        pinger._sending = threading.Thread(target=watch.answers.wait, args=(20,), daemon=True)
        pinger._sending.start()
        pinger.ping()
        pinger._sending = None
        pinger.ping()

    assert [entry["why"] for entry in logs] in (
        ["the last one still hangs", "no answer in time"],
        ["the last one still hangs", "TimeoutError"],
    )
    assert len(watch.asked) == 1


def test_of_two_clocks_one_pings_in_each_period(well, home, watch):
    outside.configure(load({"TOCSIN_HEARTBEAT_URL": watch.url}))
    client = bell.client_for(url_of(home))
    job = Periodic("outside", 60, outside.ping, slow=True)
    clocks = [Clock(client, (job,)) for _ in range(2)]
    for period in (1, 2):
        client.zadd(Clock.scheduled_jobs_key, {job.id: 1})
        for clock in clocks:
            clock.enqueue_jobs()
        until(lambda wanted=period: len(watch.asked) == wanted)
        # Who still hears the answer would leave the next period out.
        until(lambda: all(ping.done() for clock in clocks for ping in clock._running.values()))
    for clock in clocks:
        clock._beside.shutdown(wait=True)

    assert len(watch.asked) == 2
    assert b"hunter2" not in b"".join(client.hgetall(f"rq:job:{job.id}").values())
    outside.configure(load({}))
    client.close()


def test_a_slow_job_that_hangs_keeps_no_other_waiting(store, home):
    leave, ran = threading.Event(), []

    def hangs():
        leave.wait(10)

    def runs():
        ran.append(1)

    with running_redis(home):
        client = bell.client_for(url_of(home))
        jobs = (Periodic("hangs", 60, hangs, slow=True), Periodic("runs", 60, runs, slow=True))
        clock = Clock(client, jobs)
        client.zadd(Clock.scheduled_jobs_key, {job.id: 1 for job in jobs})
        clock.enqueue_jobs()
        until(lambda: ran)
        leave.set()
        client.close()
