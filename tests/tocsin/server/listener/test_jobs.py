"""The listener takes the leases of the jobs that the settings need, and runs these jobs."""

from dataclasses import dataclass, field

import pytest

from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.store import store as get_store
from runtime.settings import load, needs_listener
from tests.support.web.apps import get_app
from tocsin.server.listener.jobs import JOBS, ListenerJob, list_needed
from tocsin.server.listener.process import LeasedJob
from tocsin.server.supervisor import Supervisor
from web.operations import health

TELEGRAM = {"TOCSIN_TELEGRAM_TOKEN": "1:x"}
SLACK = {"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1", "TOCSIN_SLACK_APP_TOKEN": "xapp-1"}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, []),
        (TELEGRAM, ["telegram"]),
        (SLACK, ["slack"]),
        ({"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1"}, []),
        ({**TELEGRAM, **SLACK}, ["slack", "telegram"]),
    ],
)
def test_settings_decide_which_jobs_run_and_whether_a_listener_is_started(given, names):
    settings = load(given)
    kinds = [child.kind for child in Supervisor(settings, lambda: None)._children]

    assert [job.name for job in list_needed(settings)] == names
    assert needs_listener(settings) is bool(names)
    assert ("listener" in kinds) is bool(names)


def test_mails_need_a_listener_and_no_lease():
    settings = load({"TOCSIN_MAIL_IN_DOMAIN": "alerts.example.org"})
    kinds = [child.kind for child in Supervisor(settings, lambda: None)._children]

    assert (list_needed(settings), needs_listener(settings), "listener" in kinds) == ([], True, True)


def test_the_name_of_a_lease_fits_and_contains_no_token():
    settings = load({**TELEGRAM, **SLACK})
    names = [job.get_lease(settings) for job in JOBS]

    assert len(set(names)) == len(JOBS)
    assert all(len(name) <= 64 and "xapp" not in name and "1:x" not in name for name in names)


@dataclass
class FakeSession:
    """A session that only records what happens to it."""

    events: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.events.append("start")

    def stop(self) -> None:
        self.events.append("stop")


@pytest.fixture
def build_job(monkeypatch):
    def build() -> tuple[LeasedJob, list[str]]:
        session = FakeSession()
        job = ListenerJob("telegram", "telegram_updates", lambda _: True, lambda _: "account")
        leased = LeasedJob(job, load({}))
        monkeypatch.setattr(ListenerJob, "create_session", lambda *_: session)
        leased.session = session
        return leased, session.events

    return build


def test_a_second_listener_stands_by_and_takes_over(store, build_job):
    first, of_first = build_job()
    first.renew()
    second, of_second = build_job()
    second.renew()
    assert (of_first, of_second) == (["start"], [])

    first._end_session()
    first._try_lease(is_end=True)
    second.renew()

    assert (of_first, of_second) == (["start", "stop"], ["start"])


def test_a_listener_that_lost_its_lease_stops_its_job(store, build_job):
    first, of_first = build_job()
    first.renew()
    with get_store().write_transaction():
        from models.tables.callbacks import Lease

        Lease.update(holder="another").execute()
    first.renew()

    assert of_first == ["start", "stop"]


def test_readyz_shows_a_missing_listener_only_if_a_setting_needs_one(store, home):
    clients = [
        get_app(load({"TOCSIN_HOME": str(home), **given}), number).test_client()
        for number, given in enumerate(({}, TELEGRAM))
    ]
    without, needed = [client.get("/readyz").json for client in clients]
    now = get_store().now()
    with get_store().write_transaction():
        backlog.record_liveness(ProcessLiveness("listener", "listener:1", now), now)
    health.probe._last = None

    assert "listener" not in without
    assert needed["listener"] == "degraded"
    assert clients[1].get("/readyz").json["listener"] == "ok"
