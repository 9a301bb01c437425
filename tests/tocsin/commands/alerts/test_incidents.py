"""`tocsin incidents` and `alerts` list what is open and came in; `ack` and `resolve` change an incident."""

import json
import socket
from datetime import timedelta

import pytest
from click.testing import CliRunner

from models.domain.enums import IncidentStatus, NotificationStatus
from models.reports import incident_timeline
from models.tables.accounts import Account
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.services import Service
from models.tables.timers import Timer
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_body
from tests.support.stores import get_settings
from tocsin.cli import Commands
from workers.alerts import process_lane


@pytest.fixture
def run(home, monkeypatch, enqueued):
    """run("ack", "1"): run a command as an operator does."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(Commands(), arguments)


@pytest.fixture
def run_own(run, world):
    """Run a command for the first of the two accounts."""
    return lambda *arguments: run(*arguments, "--account", world.account.account_identifier)


@pytest.fixture
def send(world, now):
    """send("db1"): open an incident with a critical alert about db1, and return its receipt."""

    def send(entity_id: str, **alert):
        receipt = accept(
            world, now, **{"message": f"{entity_id} is full", "alert_type": "critical", **alert},
            entity_id=entity_id,
        )  # fmt: skip
        process_lane.run(world.service.id)
        return receipt

    return send


def load_results(result):
    assert result.exit_code == 0
    return json.loads(result.output)["results"]


def test_open_incidents_are_listed_with_the_trace_id_of_the_alert_that_opened_each(send, run_own):
    first, second = send("db1"), send("db2")
    send("db1", message="db1 is still full")
    Incident.update(status=IncidentStatus.RESOLVED).where(Incident.incident_number == 2).execute()
    output = run_own("incidents").output

    assert output.startswith("INCIDENT  OPENED (UTC)")
    assert output.count("\n") == 2
    for words in ("#1", "triggered", "high", "Checkout", "db1 is full", "Alice", first.trace_id):
        assert words in output
    listed = load_results(run_own("incidents", "--all", "--json"))
    assert [row["trace_id"] for row in listed] == [first.trace_id, second.trace_id]


def test_an_incident_without_an_alert_has_no_trace_id(send, run_own):
    send("db1").delete_instance()

    assert load_results(run_own("incidents", "--json"))[0]["trace_id"] is None
    assert "(no alert)" in run_own("incidents").output


def test_alerts_are_listed_with_their_reason_and_those_that_are_not_processed(send, world, now, run_own):
    done = send("db1")
    failed = add_dead_letter_body(world, now)
    pending = accept(world, now, message="later", alert_type="critical", entity_id="db3")
    alerts = load_results(run_own("alerts", "--json"))

    assert [(row["trace_id"], row["status"], row["incident_number"]) for row in alerts] == [
        (done.trace_id, "completed", 1),
        (failed.trace_id, "failed", None),
        (pending.trace_id, "queued", None),
    ]
    assert alerts[0]["message"] == "db1 is full"
    assert alerts[1]["reason"] == "ZeroDivisionError in stage normalize."
    output = run_own("alerts").output
    assert output.count("(not processed)") == 2
    assert output.count("No message about it was sent so far.") == 1
    assert all(receipt.trace_id in output for receipt in (done, failed, pending))


def test_all_alerts_of_a_body_are_listed_newest_last(world, now, run_own):
    body = b'{"alerts":[{"fingerprint":"a"},{"fingerprint":"b"},{"fingerprint":"c"}]}'
    receipt = accept(world, now, source="prometheus", body=body)
    process_lane.run(world.service.id)
    alerts = load_results(run_own("alerts", "--json"))

    assert [row["entity_id"] for row in alerts] == ["a", "b", "c"]
    assert {row["trace_id"] for row in alerts} == {receipt.trace_id}


def test_notified_nobody_leaves_out_what_was_sent_to_a_person(send, run_own):
    send("db1")
    unreached = send("db2")
    send("db2", alert_type="resolved")
    informed = send("db3", alert_type="info")
    Notification.update(state=NotificationStatus.SENT).where(
        Notification.incident == Incident.get(Incident.incident_number == 1)
    ).execute()
    incidents = load_results(run_own("incidents", "--all", "--reached-nobody", "--json"))
    alerts = load_results(run_own("alerts", "--reached-nobody", "--json"))

    assert [row["incident_number"] for row in incidents] == [2]
    assert [row["trace_id"] for row in alerts] == [unreached.trace_id, informed.trace_id]


def test_a_merged_incident_has_notified_a_person_if_its_parent_did(send, run_own):
    send("db1")
    send("db2")
    parent = Incident.get(Incident.incident_number == 1)
    Incident.update(parent=parent).where(Incident.incident_number == 2).execute()
    Notification.update(state=NotificationStatus.SENT).where(Notification.incident == parent).execute()

    assert run_own("incidents", "--reached-nobody").output == "no open incidents\n"


@pytest.mark.parametrize("command", ["incidents", "alerts"])
def test_a_list_has_the_newest_rows_up_to_its_limit(send, run_own, command):
    receipts = [send(f"db{number}") for number in range(3)]
    result = run_own(command, "--limit", "2")

    assert result.output.startswith("the newest 2; older ones: --limit 4\n")
    listed = json.loads(run_own(command, "--limit", "2", "--json").output)
    assert listed["has_more"]
    assert [row["trace_id"] for row in listed["results"]] == [each.trace_id for each in receipts[1:]]
    assert not json.loads(run_own(command, "--limit", "3", "--json").output)["has_more"]


@pytest.mark.parametrize(
    ("command", "text"), [("incidents", "no open incidents\n"), ("alerts", "no alerts\n")]
)
def test_an_empty_list_says_so(world, run, command, text):
    assert (run(command).exit_code, run(command).output) == (0, text)


@pytest.mark.parametrize("command", ["incidents", "alerts"])
def test_a_list_of_two_accounts_names_both(send, world, run, command):
    send("db1")

    heading, row = run(command).output.splitlines()
    assert heading.startswith("ACCOUNT")
    assert row.startswith(world.account.account_identifier)
    assert run(command, "--account", "zzzzz").exit_code == 2
    other = Account.get(Account.id != world.account.id)
    assert run(command, "--account", other.account_identifier).output.startswith("no ")


@pytest.mark.parametrize("command", ["incidents", "alerts"])
def test_texts_of_senders_cannot_control_the_terminal(send, run, command):
    send("db1")
    Service.update(name="Check\x1b[2Jout").execute()

    for more in ((), ("--json",)):
        assert "\x1b" not in run(command, *more).output


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("ack", IncidentStatus.ACKNOWLEDGED, "Acknowledged"),
        ("resolve", IncidentStatus.RESOLVED, "Resolved"),
    ],
)
@pytest.mark.parametrize("reference", ["1", "#1"])
def test_a_command_changes_an_incident_and_the_timeline_names_the_host(
    send, run_own, command, status, text, reference
):
    send("db1")
    result = run_own(command, reference)

    assert result.exit_code == 0
    assert result.output == f"incident #1 db1 is full is {status.name.lower()}\n"
    incident = Incident.get()
    assert incident.status == status
    assert not Timer.select().where(Timer.done_at.is_null(), Timer.kind == "escalate").exists()
    assert Notification.get().state == NotificationStatus.CANCELLED
    log = IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    (entry,) = incident_timeline.load_entries([(incident_timeline.LOG, log.id)])
    assert entry["reason"] == f"{text} by command on {socket.gethostname()}."
    assert entry["actor"] == {"kind": "command", "name": None, "username": None}


def test_a_command_that_changes_nothing_says_so(send, run_own):
    send("db1")
    run_own("ack", "1")
    before = IncidentLog.select().count()

    assert run_own("ack", "1").output == "incident #1 db1 is full is acknowledged already\n"
    run_own("resolve", "1")
    assert run_own("resolve", "1").output == "incident #1 db1 is full is resolved already\n"
    assert IncidentLog.select().count() == before + 1


def test_a_resolved_incident_cannot_be_acknowledged(send, run_own):
    send("db1")
    run_own("resolve", "1")
    result = run_own("ack", "1")

    assert (result.exit_code, result.output) == (1, "Error: incident #1 is resolved already\n")
    assert Incident.get().status == IncidentStatus.RESOLVED


@pytest.mark.parametrize("command", ["ack", "resolve"])
def test_an_unknown_number_is_an_error(send, run, run_own, command):
    send("db1")

    assert run_own(command, "2").output == "Error: there is no incident #2\n"
    assert "is not the number of an incident" in run_own(command, "db1").output
    assert (run_own(command, "db1").exit_code, run_own(command, "db1").output.count("\n")) == (2, 1)
    assert "choose an account with --account" in run(command, "1").output
    assert Incident.get().status == IncidentStatus.TRIGGERED


@pytest.mark.parametrize("command", [("ack", "1"), ("resolve", "1"), ("alerts",), ("incidents",)])
def test_without_a_database_a_command_creates_none(tmp_path, monkeypatch, command):
    monkeypatch.delenv("TOCSIN_DATABASE_URL", raising=False)
    monkeypatch.setenv("TOCSIN_HOME", str(tmp_path / "none"))
    result = CliRunner().invoke(Commands(), command)

    assert result.exit_code in (1, 3)
    assert "no data of Tocsin in" in result.output
    assert not (tmp_path / "none").exists()


def test_an_incident_is_listed_while_its_age_decides_its_place(send, run_own, now):
    send("db1")
    send("db2")
    Incident.update(creation_date=now + timedelta(hours=1)).where(Incident.incident_number == 1).execute()

    assert [row["incident_number"] for row in load_results(run_own("incidents", "--json"))] == [2, 1]
