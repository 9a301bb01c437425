"""`tocsin simulate` shows who would be notified, as text, as JSON and as an exit code."""

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from models.domain.applications import GENERIC
from models.domain.enums import AccountRole
from models.people import provisioning
from models.store.store import db, store
from models.tables.accounts import User
from models.tables.services import Integration
from models.tables.teams import EscalationPolicy
from tests.support.offenders import list_offenders
from tests.support.processes import tocsin
from tests.support.rules import action, add_rule
from tests.support.scenarios.timers import set_policy
from tests.support.stores import TABLES, get_settings
from tocsin.cli import COMMANDS
from tocsin.commands import read_only
from tocsin.commands.alerts.simulate import simulate

DISK = ("--message", "Disk full", "--entity-id", "db1", "--at", "2026-12-24 18:00")
CHECKOUT = ("--service", "Checkout", *DISK)


@pytest.fixture
def run(world, home, monkeypatch):
    set_policy(world, (0, world.alice), (5, world.bob), name="Default")
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOCSIN_SMTP_HOST", "relay.example.org")
    monkeypatch.setattr(read_only, "open_store", lambda *_: None)
    return lambda *words, **more: CliRunner().invoke(simulate, words, **more)


def test_the_output_is_the_stages_and_a_table(run, world):
    add_rule(world, action(2, "seen"), when={"==": [{"var": "entity_id"}, "db1"]}, description="Note it")

    result = run(*CHECKOUT, "--for", "10m")

    assert result.exit_code == 0, result.output
    contact = "email: Primary Email"
    assert [" ".join(line.split()) for line in result.output.splitlines()] == [
        "an alert to Probe of Checkout at 2026-12-24 18:00:00 UTC, and nobody reacts until"
        " 2026-12-24 18:10:00 UTC",
        "",
        "alert critical: Disk full [db1]",
        "rules 1 of 1 alert rules matched.",
        "notify Notified now: Alice.",
        "rule Note it: matches",
        "it read entity_id = 'db1'",
        "add note: to 'seen'",
        "",
        "AT AFTER WHAT WHO BY WHY",
        "2026-12-24 18:00:00 UTC 0s notify Notified now: Alice.",
        "2026-12-24 18:00:00 UTC 0s opened Opened by an alert of level critical from integration Probe.",
        "2026-12-24 18:00:00 UTC 0s escalated Escalation step 1 of policy Default notifies Alice.",
        f"2026-12-24 18:00:00 UTC 0s notified Alice {contact} Named by step 1 of policy Default.",
        "2026-12-24 18:05:00 UTC 5m escalated Escalation step 2 of policy Default notifies Bob.",
        f"2026-12-24 18:05:00 UTC 5m notified Bob {contact} Named by step 2 of policy Default.",
        "",
        "notified: Alice after 0s, Bob after 5m",
        "after 5 min nobody else is notified",
    ]


def test_the_columns_are_aligned(run):
    lines = run(*CHECKOUT).output.splitlines()
    heading = next(line for line in lines if line.startswith("AT "))
    rows = [line for line in lines if line.startswith("2026-")]

    for name in ("AFTER", "WHAT", "WHY"):
        place = heading.index(name)
        assert {(row[place - 1], row[place] != " ") for row in rows} == {(" ", True)}


def test_times_are_in_the_requested_zone(run):
    result = run(*CHECKOUT, "--zone", "Europe/Berlin", "--json")
    shown = run(*CHECKOUT, "--zone", "Europe/Berlin")

    assert json.loads(result.output)["at"] == "2026-12-24T17:00:00.000000Z"
    assert "2026-12-24 18:05:00 CET" in shown.output
    assert json.loads(run(*CHECKOUT[:-1], "2026-12-24T18:00:00+03:00", "--json").output)["at"] == (
        "2026-12-24T15:00:00.000000Z"
    )


def test_later_events_are_announced_and_nobody_is_notified_of_an_info_alert(run, world):
    set_policy(world, (0, world.alice), repeat_policy=9)
    assert run(*CHECKOUT, "--for", "2m30s").output.splitlines()[-1] == (
        "after 2 min nobody else is notified until 2026-12-24 18:02:30 UTC,"
        " but more would happen from 2026-12-24 18:03:00 UTC on"
    )

    assert run(*CHECKOUT, "--alert-type", "info").output.splitlines()[-1] == "notified: NOBODY"


def test_an_expected_person_who_is_notified_is_a_success(run, world):
    User.update(email="ALICE@example.org").where(User.id == world.alice.id).execute()

    result = run(*CHECKOUT, "--expect", "Alice@example.org", "--expect", world.bob.username)

    assert (result.exit_code, result.stderr) == (0, "")


def test_an_expected_person_who_is_not_notified_is_named_and_the_exit_code_is_1(run):
    soon = (*CHECKOUT, "--for", "4m")
    result = run(*soon, "--expect", "bob@example.org", "--expect", "alice@example.org", "--json")

    assert result.exit_code == 1
    assert result.stderr == "bob@example.org would not be notified\n"
    assert json.loads(result.stdout)["not_notified"] == ["bob@example.org"]


def test_a_payload_is_a_body_of_the_monitoring_tool(run, tmp_path):
    alerts = [
        {"labels": {"alertname": "Full", "severity": "critical"}, "status": "firing", "fingerprint": "f"}
    ]
    body = json.dumps({"alerts": alerts})
    file = tmp_path / "body.json"
    file.write_text(body)
    where = ("--service", "Checkout", "--source", "prometheus", "--json", "--payload")

    for result in (run(*where, str(file)), run(*where, "-", input=body)):
        assert json.loads(result.output)["alerts"][0]["entity_id"] == "f"


WRONG_ARGUMENTS = [
    (("--message", "x"), "give a --service or an --integration"),
    (("--service", "Checkout"), "give either a --message or a --payload"),
    ((*CHECKOUT, "--payload", "-"), "give either a --message or a --payload"),
    (("--service", "Nothing", *DISK), "no service Nothing"),
    (("--integration", "Nothing", *DISK), "no integration Nothing"),
    ((*CHECKOUT, "--integration", "Nothing"), "no integration Nothing; there are: "),
    ((*CHECKOUT, "--account", "nope"), "no service Checkout in account nope"),
    ((*CHECKOUT, "--source", "prometheus"), "--as requires --payload"),
    (("--service", "Checkout", "--payload", "-", "--entity-id", "db1"), "require --message"),
    (("--service", "Checkout", "--payload", "-", "--alert-type", "info"), "require --message"),
    ((*CHECKOUT, "--at", "soon"), "soon is not a time"),
    ((*CHECKOUT, "--at", "0001-01-01"), "0001-01-01 is too far in the past or future"),
    ((*CHECKOUT, "--for", "2 hours"), "2 hours is not a duration"),
    ((*CHECKOUT, "--for", "32d"), "32d is too long"),
    ((*CHECKOUT, "--zone", "Mars"), "there is no time zone 'Mars'"),
    ((*CHECKOUT, "--expect", "mallory@example.net"), "no user mallory@example.net in the account"),
    (
        (*CHECKOUT, "--with-open", "--at", "2020-01-01"),
        "--with-open needs a time that is not in the past",
    ),
    (
        ("--service", "Checkout", "--message", " "),
        "Tocsin would refuse the alert: message: may not be blank",
    ),
]


def test_an_invalid_argument_is_an_error_with_exit_code_2(run):
    def check(case):
        words, why = case
        result = run(*words, input="{}")

        assert result.exit_code == 2
        assert why in result.stderr
        assert result.stdout == ""

    assert list_offenders(check, WRONG_ARGUMENTS) == []


def test_one_of_two_integrations_must_be_named(run, world, now):
    other = provisioning.create_integration(world.service, "Other", GENERIC, world.alice, now)

    assert "there is more than one integration; choose one with --integration: Probe" in run(*CHECKOUT).stderr
    assert run("--integration", "Other", *DISK).exit_code == 0
    assert run(*CHECKOUT, "--integration", other.unique_id).exit_code == 0
    Integration.update(is_enabled=False).where(Integration.id == other.id).execute()
    assert run(*CHECKOUT).exit_code == 0


def test_a_service_name_in_two_accounts_needs_the_account(run, world, now):
    theirs = EscalationPolicy.get(EscalationPolicy.team == world.mallorys_team)
    provisioning.create_service(world.mallorys_team, "Checkout", theirs, world.mallory, now)

    result = run(*CHECKOUT)

    assert result.exit_code == 2
    assert "more than one account has a service Checkout; choose with --account: " in result.stderr
    assert run(*CHECKOUT, "--account", world.account.account_identifier).exit_code == 0


def test_a_truncated_simulation_does_not_know_all_notified_people(run, world):
    set_policy(world, (0, world.alice), repeat_policy=100_000)

    both = ("--expect", "alice@example.org", "--expect", "bob@example.org")
    result = run(*CHECKOUT, "--for", "31d", *both, "--json")

    assert result.exit_code == 4
    assert result.stderr == (
        "the simulation was cut off: it is not known whether bob@example.org would be notified\n"
    )
    document = json.loads(result.stdout)
    assert (document["not_notified"], document["not_known"]) == ([], ["bob@example.org"])


def test_a_truncated_simulation_knows_people_who_are_notified_immediately(run, world, now, tmp_path):
    emails = [f"u{number}@example.org" for number in range(30)]
    people = [provisioning.create_user(world.account, email, AccountRole.USER, now) for email in emails]
    set_policy(world, (0, *people))
    alert = {"labels": {"alertname": "Full", "severity": "critical"}, "status": "firing"}
    file = tmp_path / "body.json"
    file.write_text(json.dumps({"alerts": [{**alert, "fingerprint": str(number)} for number in range(50)]}))

    where = ("--service", "Checkout", "--source", "prometheus", "--payload", str(file))
    result = run(*where, "--expect", emails[-1])

    assert "cut off: " in result.stdout
    assert result.exit_code == 0


def test_settings_without_a_mail_relay_are_a_warning(run, monkeypatch):
    monkeypatch.setenv("TOCSIN_SMTP_HOST", "")

    result = run(*CHECKOUT, "--json")

    assert result.exit_code == 0
    assert result.stderr == "Tocsin cannot send e-mail: TOCSIN_SMTP_HOST is not set\n"
    assert json.loads(result.stdout)["warnings"] == [result.stderr.strip()]


def test_with_open_accepts_the_present_minute(run, monkeypatch):
    now = datetime(2026, 12, 24, 18, 0, 40, tzinfo=UTC)
    monkeypatch.setattr(type(store()), "now", lambda _: now)

    for when_text in ("2026-12-24 18:00", "now"):
        result = run(*CHECKOUT[:-1], when_text, "--with-open", "--json")
        assert json.loads(result.stdout)["at"] == "2026-12-24T18:00:40.000000Z"
    assert run(*CHECKOUT[:-1], "2026-12-24 17:59", "--with-open").exit_code == 2


def test_long_names_and_reasons_are_shortened(run, world, now):
    names = [f"{initial * 40}@example.org" for initial in "abcdefgh"]
    people = [
        provisioning.create_user(
            world.account, name, AccountRole.USER, now, first_name=name[:40], last_name="Long"
        )
        for name in names
    ]
    set_policy(world, (0, *people))

    rows = [line for line in run(*CHECKOUT).output.splitlines() if line.startswith("2026-")]

    assert max(map(len, rows)) < 320
    assert "h" * 39 + "…" in rows[-1]


def test_nothing_is_written(run):
    def dump_all_rows():
        return [sorted(map(repr, table.select().tuples().execute(db))) for table in TABLES]

    before = dump_all_rows()
    run(*CHECKOUT, "--expect", "alice@example.org")

    assert dump_all_rows() == before


def test_names_cannot_control_the_terminal(run, world):
    User.update(first_name="Al\x1b[2Jice").where(User.id == world.alice.id).execute()

    assert "\x1b" not in run(*CHECKOUT).output


@pytest.mark.processes
def test_the_command_opens_the_database_itself(world, home):
    result = tocsin(home, *("simulate", *CHECKOUT, "--expect", "mallory@example.net"), **get_settings(home))

    assert "simulate" in COMMANDS
    assert (result.returncode, result.stderr) == (
        2,
        "Error: no user mallory@example.net in the account\n",
    )
