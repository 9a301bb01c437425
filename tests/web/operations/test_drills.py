"""A drill notifies people like a real incident, reports who acknowledged, and counts in no statistics."""

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from models.domain.effects import Author
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import make_reason
from models.store.store import store
from models.tables.accounts import User
from models.tables.incidents import Drill, Incident
from models.tables.notifications import Notification
from models.tables.services import Service
from runtime.settings import load
from tests.support.relays import relay
from tests.support.stores import get_settings
from tests.support.web.analytics import PATH as ANALYTICS
from tocsin.cli import Commands
from tocsin.commands.alerts import drill as command
from web.incidents.change_status import change_status
from web.operations import drills
from workers.delivery import deliver
from workers.periodic.end_drills import end_drills

MINUTE = timedelta(minutes=1)
PATH = "/api/tocsin/drills/"


@pytest.fixture
def box(enqueued):
    with relay() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        yield box
    deliver._runtimes.clear()


@pytest.fixture
def start(ask, world, box):
    """start(): start a drill of Alice's policy, and send its messages. Return its report."""

    def start(**more):
        answer = ask("POST", PATH, {"policy": world.policy.unique_id, **more})
        assert answer.status_code == 201, answer.json
        deliver.send_due(1)
        return answer.json

    return start


def test_a_drill_reports_each_person_channel_and_time_to_acknowledge(ask, start, box):
    started = start()
    ((to, mail),) = box.mails
    assert (to, "DRILL: please acknowledge" in mail["Subject"]) == ("alice@example.org", True)
    assert "This is a drill, started by Alice. Nothing is broken." in mail.get_content()
    assert end_drills() == 0

    incident = f"/api/incidents/{started['incident_number']}/"
    assert ask("PATCH", incident, {"status": 2}).status_code == 200
    assert end_drills() == 1

    report = ask("GET", f"{PATH}{started['unique_id']}/").json
    assert report["outcome"] == "Somebody acknowledged the drill."
    (alice,) = report["people"]
    assert (alice["person"], alice["acknowledged_at"] is not None) == ("Alice", True)
    assert 0 <= alice["seconds_to_acknowledge"] < 60
    assert [(each["channel"], each["state"]) for each in alice["notifications"]] == [("email", "sent")]
    assert Incident.get().status == IncidentStatus.RESOLVED
    assert end_drills() == 0


def test_statistics_leave_out_drills(ask, start, world):
    start()
    real = {"title": "Disk full", "service": world.service.unique_id}
    assert ask("POST", "/api/incidents/", real).status_code == 201

    assert ask("POST", ANALYTICS.format("incident_stats"), {}).json["total_incidents"] == 1
    figures = ask("GET", f"/api/tocsin/users/{world.alice.username}/notifications/figures/").json
    assert [(each["channel"], each["created"]) for each in figures["channels"]] == [("email", 1)]


def test_a_drill_ends_when_nobody_acknowledges(start, world):
    start()
    last = Notification.get().done_at

    assert end_drills(last + 14 * MINUTE) == 0
    assert end_drills(last + 16 * MINUTE) == 1
    assert "nobody acknowledged within 15 min" in str(Drill.get().outcome)


def test_a_drill_ends_after_an_hour_at_the_latest(start):
    start()
    Incident.update(exhausted=False).execute()

    assert end_drills(store().now() + 59 * MINUTE) == 0
    assert end_drills(store().now() + 61 * MINUTE) == 1
    assert Incident.get().status == IncidentStatus.RESOLVED


def test_an_account_has_few_drills_at_a_time(ask, start, world):
    for _ in range(drills.MAX_OPEN):
        start()

    again = ask("POST", PATH, {"policy": world.policy.unique_id})
    assert (again.status_code, list(again.json["errors"])) == (400, ["policy"])


def test_a_drill_needs_a_service_and_a_policy_of_the_account(ask, start, world, enqueued):
    other = Service.get(Service.id == world.service.id).unique_id
    assert ask("POST", PATH, {"policy": world.policy.unique_id, "service": "no such"}).status_code == 400
    assert ask("POST", PATH, {"policy": world.policy.unique_id}, who="mallory").status_code == 400
    assert ask("POST", PATH, {"policy": world.policy.unique_id}, who="charlie").status_code == 403
    made = start(service=other)
    assert ask("GET", f"{PATH}{made['unique_id']}/", who="mallory").status_code == 404
    assert ask("GET", f"{PATH}{made['unique_id']}/", who="charlie").status_code == 403


# --- the command -----------------------------------------------------------------------------------


@pytest.fixture
def run(home, monkeypatch, world, enqueued):
    """run("--policy", "Default ..."): run `tocsin drill` as an operator does."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    account = ("--account", world.account.account_identifier)
    return lambda *arguments: CliRunner().invoke(Commands(), ["drill", *arguments, *account])


def test_the_command_shows_what_happens_until_the_drill_ends(run, box, monkeypatch, world):
    steps = iter((lambda: deliver.send_due(1), lambda: None, acknowledge, end_drills))
    follow = command.follow
    monkeypatch.setattr(command, "follow", lambda row, show: follow(row, show, lambda _: next(steps)()))

    result = run("--policy", world.policy.unique_id)

    assert result.exit_code == 0, result.output
    lines = [line for line in result.output.splitlines() if "[info" not in line]
    assert lines[0] == "drill started: incident #1"
    assert "sent to Alice by e-mail" in lines[1]
    assert "Alice acknowledged" in lines[2]
    assert lines[-2].startswith("Alice (e-mail): acknowledged after")
    assert lines[-1] == "Somebody acknowledged the drill."


def acknowledge():
    alice = User.get(User.first_name == "Alice")
    author = Author(AuthorKind.LINK, "Alice", user=alice.id)
    why = make_reason("acknowledged_by_link", by="Alice")
    assert change_status(Incident.get().id, author, "acknowledge", why, store().now())


def test_the_command_can_only_start_a_drill(run, world):
    result = run("--policy", world.policy.unique_id, "--detach", "--json")

    report = json.loads(result.output)
    assert (result.exit_code, report["incident_number"], report["done_at"]) == (0, 1, None)


def test_the_command_starts_nothing_if_the_policy_is_not_clear(run, world):
    for name, why in (("No such", "no policy No such"), (world.policy.name, "2 policies are named")):
        result = run("--policy", name)
        assert (result.exit_code, why in result.output) == (2, True)
    assert Drill.select().count() == 0
