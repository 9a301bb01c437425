"""`tocsin why` shows an alert trace as text and as JSON."""

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus, TimerKind, WorkState
from models.domain.reason_texts import PENDING_TIMERS
from models.domain.reasons import make_reason
from models.load.lane import lock_incident
from models.reports import alert_trace, dead_letters, trace_ids
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import Account, User, bump_version
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.rules import AlertRule
from models.tables.services import Service
from models.tables.users import NotificationRule
from models.write import change_dead_letters
from models.write.apply import apply
from pipeline import incidents
from tests.support.alerts import accept
from tests.support.dead_letters import add_dead_letter_body
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, settings
from tests.support.scenarios.timers import set_policy
from tests.support.stores import get_settings
from tocsin.cli import Commands
from tocsin.commands.alerts.why import format_lines
from workers.alerts import process_lane
from workers.alerts.batches import BatchSize
from workers.delivery import deliver


@pytest.fixture
def receipt(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    return receipt


def deliver_all(now):
    with relay() as box:
        deliver.configure(settings(box.port))
        deliver.send_due(MAIL, now + timedelta(seconds=1))
    deliver._runtimes.clear()


def list_lines(trace_id):
    receipt = alert_trace.find_receipt(trace_id)
    return list(format_lines(alert_trace.build_trace(receipt), WorkState(receipt.state)))


def test_it_shows_every_stage_the_incident_and_the_people(receipt):
    text = "\n".join(list_lines(receipt.trace_id))

    assert "alert critical: Disk full  [db1]" in text
    assert "notify     Notified now: Alice." in text
    assert "  opens incident #1" in text
    assert "to be notified: Alice (e-mail)" in text


def test_it_leaves_out_what_says_nothing_new(receipt):
    text = "\n".join(list_lines(receipt.trace_id))

    for words in ("no router applies", "no alert rules", "The level is", "no open incident", "Opened by"):
        assert words not in text


def test_it_begins_with_the_person_who_was_notified(receipt, now):
    deliver_all(now)
    answer, *others = list_lines(receipt.trace_id)

    assert answer == "NOTIFIED: Alice 12:00:01 by e-mail (sent)."
    assert any("sent to Alice by e-mail: named by step 1 of policy" in text for text in others)


@pytest.mark.parametrize(
    ("delay", "answer"),
    [
        pytest.param(0, "NOT NOTIFIED YET: to be notified: Alice (e-mail).", id="now"),
        pytest.param(1, "NOT NOTIFIED YET: to be notified: Alice (e-mail, after 1 min).", id="later"),
    ],
)
def test_it_begins_with_the_person_who_will_be_notified(world, now, delay, answer):
    NotificationRule.update(start_delay=delay).execute()
    bump_version(world.account.id)
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)

    assert list_lines(receipt.trace_id)[0] == answer


@pytest.mark.parametrize(
    ("minutes", "due_at"),
    [pytest.param(5, "12:05:00", id="same day"), pytest.param(720, "2026-03-05 00:00:00", id="next day")],
)
def test_it_begins_with_the_time_of_a_first_step_with_a_delay(world, now, minutes, due_at):
    set_policy(world, (minutes, world.alice))
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)

    assert list_lines(receipt.trace_id)[0] == (
        f"NOT NOTIFIED YET: the next escalation step is due at {due_at}."
    )


def test_it_says_in_a_sentence_what_a_pending_timer_will_do(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    receipt = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)

    assert (
        "  2026-03-04 12:05:00  If nobody acknowledges, the policy continues with its next step."
        in list_lines(receipt.trace_id)
    )


def test_each_kind_of_timer_has_a_sentence():
    assert set(PENDING_TIMERS) == set(TimerKind)


def test_a_mail_that_the_incident_is_resolved_is_no_notification_of_the_alert(world, receipt, now):
    deliver_all(now)
    accept(world, now, message="Disk full", alert_type="resolved", entity_id="db1")
    process_lane.run(world.service.id)
    deliver_all(now + timedelta(minutes=1))
    answer, *others = list_lines(receipt.trace_id)

    assert answer == "NOTIFIED: Alice 12:00:01 by e-mail (sent)."
    assert sum("sent to Alice by e-mail" in text for text in others) == 2


def test_a_notification_on_a_later_day_has_its_date(receipt, now):
    deliver_all(now + timedelta(days=1))

    assert list_lines(receipt.trace_id)[0] == "NOTIFIED: Alice 2026-03-05 12:00:01 by e-mail (sent)."


def test_it_begins_with_the_reason_why_nobody_was_notified(world, now):
    receipt = accept(world, now, message="Disk full", alert_type="info", entity_id="db1")
    process_lane.run(world.service.id)

    assert list_lines(receipt.trace_id)[0] == (
        "NOBODY WAS NOTIFIED: info alerts open no incident here. Integration Probe opens incidents only for"
        " critical."
    )


def test_it_says_that_an_alert_of_an_open_incident_notifies_nobody_again(world, receipt, now):
    second = accept(world, now, message="Disk full", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    texts = list_lines(second.trace_id)

    joins = "joins incident #1, which is open: nobody is notified again"
    assert texts[0] == f"NOBODY WAS NOTIFIED: the alert {joins}."
    assert f"  {joins}" in texts


def test_it_names_the_person_who_acknowledged_before_a_notification_was_sent(world, receipt, now):
    with store().write_transaction():
        context = lock_incident(Incident.get().id, Author(AuthorKind.USER, "Bob", user=world.bob.id), now)
        why = make_reason("requested", by="Bob")
        effects = incidents.change_status(context, IncidentStatus.ACKNOWLEDGED, why)
        apply(ChangeSet(effects=list(effects)))
    answer, *others = list_lines(receipt.trace_id)

    assert answer == "NOBODY WAS NOTIFIED: not sent to Alice by e-mail: Bob had acknowledged."
    assert any(text.endswith("not sent to Alice by e-mail: Bob had acknowledged") for text in others)


def test_it_shows_how_much_of_a_large_body_is_processed(world, now, monkeypatch):
    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=5))
    body = json.dumps({"alerts": [{"fingerprint": f"{n}"} for n in range(8)]}).encode()
    receipt = accept(world, now, source="prometheus", body=body)
    process_lane.run(world.service.id, seconds=0)
    answer, _, status, progress, *_ = list_lines(receipt.trace_id)
    assert answer.startswith("NOT NOTIFIED YET: ")
    assert status.startswith("queued: ")
    assert progress == "5 of 8 alerts are processed"
    process_lane.run(world.service.id)

    assert list_lines(receipt.trace_id)[2].startswith("completed: ")


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

    assert lines_shown[3].startswith(line)


@pytest.fixture
def run(home, monkeypatch):
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(Commands(), ["why", *arguments])


def test_the_beginning_of_a_trace_id_that_a_narrow_table_shows_finds_the_alert(receipt, run, world, now):
    Receipt.update(trace_id="5d0862f6-5b5f-497f-8bde-a4ab68d8eb42").where(Receipt.id == receipt.id).execute()
    for reference in ("5d0862f6", "5D0862F6-5b5f…", "5d0862f6-5b5f-497f-8bde"):
        assert "alert critical: Disk full  [db1]" in run(reference).stdout

    assert run("5d0862f").exit_code == 1
    other = accept(world, now, message="Other")
    Receipt.update(trace_id="5d0862f6-aaaa-497f-8bde-a4ab68d8eb42").where(Receipt.id == other.id).execute()
    assert run("5d0862f6").exit_code == 1
    assert run("5d0862f6-5").exit_code == 0


def test_json_has_the_incident(receipt, run):
    result = run(receipt.trace_id, "--json")

    assert result.exit_code == 0
    assert json.loads(result.output)["incidents"][0]["incident_number"] == 1


def test_a_push_that_says_nothing_new_names_its_incident(world, now, run):
    labels = {"alertname": "Disk full", "severity": "critical"}
    for minute in range(2):
        at = now + timedelta(minutes=minute)
        push = [{"labels": labels, "endsAt": (at + timedelta(minutes=4)).isoformat()}]
        accept(world, at, source="alertmanager", body=json.dumps(push).encode())
    process_lane.run(world.service.id)

    has = "the alert repeats one that is known: incident #1 has it and is triggered"
    assert f"NOBODY WAS NOTIFIED: {has}." in run("last").output
    assert json.loads(run("last", "--json").output)["answer"] == [f"NOBODY WAS NOTIFIED: {has}."]


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
    assert shown.pop().startswith(f"trace_id {receipt.trace_id}\nNOT NOTIFIED YET: to be notified: Alice")


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
    alone, answer, _, incident, *_ = result.output.splitlines()
    assert alone == "no alert that opened this incident is stored"
    assert answer == "NOT NOTIFIED YET: to be notified: Alice (e-mail)."
    assert incident.startswith("incident #1 Disk full: triggered")
    shown = json.loads(run_own("1", "--json").output)
    assert (shown["trace_id"], shown["status"], shown["answer"]) == (None, None, [answer])


def test_an_incident_without_a_stored_alert_and_without_a_notification_says_so(receipt, run_own):
    Receipt.delete().execute()
    Notification.delete().execute()

    assert run_own("1").output.splitlines()[1] == "NOBODY WAS NOTIFIED: the incident has no notification."


def test_an_incident_whose_first_alert_was_deleted_still_says_who_was_notified(receipt, world, now, run_own):
    deliver_all(now)
    accept(world, now, message="Disk fuller", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    receipt.delete_instance()

    assert run_own("1").output.splitlines()[1] == "NOTIFIED: Alice 12:00:01 by e-mail (sent)."
    assert trace_ids.find_trace_ids([Incident.get().id]) == {}


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
