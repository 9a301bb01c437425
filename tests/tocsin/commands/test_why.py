"""`tocsin why` shows an alert trace as text and as JSON."""

import json

import pytest
from click.testing import CliRunner

from models.domain.enums import WorkState
from models.reports import alert_trace, dead_letters
from models.store.ids import make_uuid
from models.tables.accounts import Account, User, bump_version
from models.tables.events import Event, Receipt
from models.tables.rules import AlertRule
from models.tables.services import Service
from models.write import change_dead_letters
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_body
from tests.support.stores import get_settings
from tocsin.commands.why import format_lines, why
from workers.alerts import process_lane
from workers.alerts.batches import BatchSize


@pytest.fixture
def receipt(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    return receipt


def list_lines(trace_id):
    receipt = alert_trace.find_receipt(trace_id)
    return list(format_lines(alert_trace.build_trace(receipt), WorkState(receipt.state)))


def test_it_shows_every_stage_the_incident_and_the_people(receipt):
    text = "\n".join(list_lines(receipt.trace_id))

    assert "alert critical: Disk full  [db1]" in text
    assert "dedupe     The entity has no open incident." in text
    assert "opened incident #1" in text
    assert "Alice by Primary Email: Named by step 1" in text


def test_it_shows_how_much_of_a_large_body_is_processed(world, now, monkeypatch):
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=5))
    body = json.dumps({"alerts": [{"fingerprint": f"{n}"} for n in range(8)]}).encode()
    receipt = accept(world, now, source="prometheus", body=body)
    process_lane.run(world.service.id, seconds=0)
    status, progress, *_ = list_lines(receipt.trace_id)
    assert status.startswith("queued: ")
    assert progress == "5 of 8 alerts are processed"
    process_lane.run(world.service.id)

    assert list_lines(receipt.trace_id)[0].startswith("completed: ")


def test_it_shows_each_rule_with_the_fields_it_read_and_the_changes_of_its_actions(world, now):
    actions = [
        {"action_type": 7, "value": "0"},
        {"action_type": 14, "value": "", "sla": "00000000-0000-4000-8000-000000000000"},
    ]
    for position, (rule_name, done) in enumerate([("Disk", actions), ("Fire", [])], start=1):
        AlertRule.create(
            unique_id=make_uuid(),
            integration=world.integration,
            description=f"{rule_name} rule",
            position=position,
            rule_json=json.dumps({"in": [rule_name, {"var": "message"}]}),
            actions=done,
            creation_date=now,
        )
    bump_version(world.account.id)
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)

    text = "\n".join(list_lines(receipt.trace_id))

    assert "  rules      1 of 2 alert rules matched.\n" in text
    assert "  rule       Disk rule: matches\n" in text
    assert "    it read message = 'Disk full'\n" in text
    assert "    change urgency: from 'high' to 'low'\n" in text
    assert "    assign sla: No effect: the SLA does not exist.\n" in text
    assert "  rule       Fire rule: does not match\n" in text
    assert "low urgency" in text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(None, "dead letter: ZeroDivisionError in stage normalize.", id="dead letter"),
        pytest.param(change_dead_letters.replay, "replayed ", id="replayed"),
        pytest.param(
            change_dead_letters.drop, "Dropped by Bob. ZeroDivisionError in stage normalize.", id="dropped"
        ),
    ],
)
def test_it_shows_whether_a_dead_letter_was_replayed_or_dropped(world, now, change, line):
    receipt = add_dead_letter_body(world, now)
    if change:
        change(dead_letters.list_keys(), "Bob")
    lines_shown = list_lines(receipt.trace_id)

    assert lines_shown[1].startswith(line)


@pytest.fixture
def run(home, monkeypatch):
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(why, arguments)


def test_json_has_the_incident(receipt, run):
    result = run(receipt.trace_id, "--json")

    assert result.exit_code == 0
    assert json.loads(result.output)["incidents"][0]["incident_number"] == 1


def test_names_cannot_control_the_terminal(world, now, run):
    receipt = accept(world, now, message="Disk \u202efull", alert_type="critical")
    Service.update(name="Check\x1b[2Jout").execute()
    User.update(first_name="Al\x9bice").execute()
    process_lane.run(world.service.id)

    for more in ((), ("--json",)):
        printed = run(receipt.trace_id, *more).output
        assert not {"\x1b", "\x9b", "\u202e"} & set(printed)


def test_an_unknown_trace_id_is_an_error(world, run):
    result = run("00000000-0000-4000-8000-999999999999")

    assert result.exit_code == 1
    assert result.output.startswith("no alert with the trace_id")
    assert "were deleted, unless they are needed (TOCSIN_KEEP_ALERTS)" in result.output


def test_a_large_body_has_pages(world, now, run):
    alerts = ",".join(f'{{"fingerprint":"{number}"}}' for number in range(130))
    receipt = accept(world, now, source="prometheus", body=f'{{"alerts":[{alerts}]}}'.encode())
    while process_lane.run(world.service.id).taken:
        pass

    first, second = run(receipt.trace_id).output, run(receipt.trace_id, "--page", "2").output

    assert (first.count("\nalert "), second.count("\nalert ")) == (100, 30)
    assert first.endswith("\n30 more alerts: --page 2\n")
    assert "more alerts" not in second


@pytest.fixture
def run_own(run, world):
    """Run the command for the first of the two accounts."""
    return lambda *arguments: run(*arguments, "--account", world.account.account_identifier)


def test_an_alert_is_named_by_its_trace_id_its_incident_its_id_or_as_the_last_one(receipt, run_own):
    event = Event.get()
    names = (receipt.trace_id, receipt.trace_id.upper(), "1", "#1", event.unique_id, "last")
    shown = {run_own(name).output for name in names}

    assert len(shown) == 1
    assert shown.pop().startswith(f"trace_id {receipt.trace_id}\ncompleted: ")


def test_an_incident_shows_the_alert_that_opened_it_and_last_shows_the_newest(receipt, world, now, run_own):
    second = accept(world, now, message="Disk fuller", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)

    assert run_own("1").output.startswith(f"trace_id {receipt.trace_id}\n")
    assert run_own("last").output.startswith(f"trace_id {second.trace_id}\n")


def test_one_alert_of_a_body_is_shown_alone_with_the_number_of_the_others(world, now, run_own):
    alerts = ",".join(f'{{"fingerprint":"disk {number}"}}' for number in range(3))
    receipt = accept(world, now, source="prometheus", body=f'{{"alerts":[{alerts}]}}'.encode())
    process_lane.run(world.service.id)
    event = Event.get(Event.position == 2)
    output = run_own(event.unique_id).output

    assert (output.count("\nalert "), output.count(f"[{event.entity_id}]")) == (1, 1)
    assert output.endswith(f"\nthe same body has 2 more alerts: tocsin why {receipt.trace_id}\n")


def test_an_incident_without_a_stored_alert_is_shown_alone(receipt, run_own):
    Receipt.delete().execute()
    result = run_own("1")

    assert result.exit_code == 0
    assert result.output.startswith("no alert of this incident is stored\nincident #1 Disk full: triggered")
    assert json.loads(run_own("1", "--json").output)["trace_id"] is None


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("2", "there is no incident #2\n"),
        ("999999999", "there is no incident #999999999\n"),
        ("2" * 22, f"no alert with the trace_id or unique_id {'2' * 22} is stored; "),
        ("yesterday", "no alert with the trace_id or unique_id yesterday is stored; "),
    ],
)
def test_an_unknown_reference_is_an_error(receipt, run_own, reference, answer):
    result = run_own(reference)

    assert result.exit_code == 1
    assert result.output.startswith(answer)
    assert result.output.count("\n") == 1


def test_last_without_an_alert_is_an_error(world, run):
    assert (run("last").exit_code, run("last").output) == (1, "no alert is stored\n")


def test_a_number_needs_the_account_if_there_are_two(receipt, world, run):
    """The fixture has two accounts; the other one has no incident."""
    Account.update(account_identifier="other").where(Account.id != world.account.id).execute()
    own = world.account.account_identifier

    assert run("1").exit_code == 2
    assert "choose the account of incident #1 with --account: " in run("1").output
    assert run("1", "--account", own).output.startswith(f"trace_id {receipt.trace_id}\n")
    assert run("1", "--account", "other").output == "there is no incident #1\n"
    assert run(receipt.trace_id, "--account", "other").exit_code == 1
