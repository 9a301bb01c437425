"""Stakeholders of an incident get mails: each one, once for a text, and the timeline says who gets none."""

import json
from datetime import timedelta

import pytest

from models.domain.channels import STAKEHOLDER_CHANNEL
from models.domain.enums import MessageStatus
from models.reports import incident_timeline
from models.reports.alert_trace import build_trace
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import User
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.stakeholders import StakeholderAddress, StakeholderMail
from models.write import stakeholder_messages as writer
from tests.support.alerts import accept
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, deliver_to
from tocsin.commands.alerts.why import format_lines
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.periodic import retention

__all__ = ["deliver_to"]

CRITICAL = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}
PRESS = "press@example.net"
TIMES = retention.RetentionTimes(*[timedelta(days=30)] * 3)
COMMS = {"subject": "Shop is slow", "body": "We are working on it.", "timezone": "Europe/Berlin"}


@pytest.fixture
def box(deliver_to):
    with relay() as box:
        deliver_to(box.port)
        yield box


@pytest.fixture
def press(world, now):
    return StakeholderAddress.create(
        unique_id=make_uuid(), creation_date=now, account=world.account, email=PRESS, name="Press"
    )


@pytest.fixture
def send(world, now):
    """send(stakeholders, comms, ...): an alert, processed."""

    def send(stakeholders, comms=COMMS, at=now, **changes):
        body = {**CRITICAL, "stakeholders": stakeholders, "stakeholder_comms": comms, **changes}
        receipt = accept(world, at, **body)
        process_lane.run(world.service.id)
        return receipt

    return send


def mail_all(box, now):
    deliver.send_due(STAKEHOLDER_CHANNEL, now + timedelta(minutes=1))
    return sorted(to for to, _ in box.mails)


def list_entries():
    keys = [row[:2] for row in incident_timeline.select_entries(Incident.get())]
    entries = incident_timeline.load_entries(keys)
    return [entry["reason"] for entry in entries if entry["kind"] == "stakeholder"]


def get_last_stage(receipt):
    return build_trace(Receipt.get_by_id(receipt.id))["alerts"][0]["stages"][-1]


def test_members_teams_and_allowed_addresses_get_a_mail(send, world, now, box, press):
    receipt = send(
        {
            "users": [world.charlie.username],
            "teams": [world.team.unique_id],
            "emails": ["Press@example.net", "bob@example.org"],
        },
        {**COMMS, "created_by": world.bob.username},
    )

    assert mail_all(box, now) == [
        "alice@example.org", "bob@example.org", "charlie@example.org", "press@example.net",
    ]  # fmt: skip
    mail = next(mail for to, mail in box.mails if to == "press@example.net")
    assert mail["Subject"] == "[Checkout] #1 Shop is slow"
    text = mail.get_content()
    assert "Hello Press," in text
    assert "We are working on it." in text
    assert "CET (Europe/Berlin)" in text
    assert "From:     Bob" in text
    assert "/i/" not in text, "a stakeholder cannot acknowledge"
    assert "Mail to Press: sent. Accepted by the relay (250)." in list_entries()
    assert get_last_stage(receipt)["stage"] == "stakeholders"
    shown = build_trace(Receipt.get_by_id(receipt.id))["incidents"][0]["stakeholders"]
    assert "Mail to Press: sent. Accepted by the relay (250)." in {entry["reason"] for entry in shown}
    assert "press@example.net" not in json.dumps(shown, default=str)


def test_a_repeated_alert_mails_nobody_twice_and_another_text_does(send, world, now, box):
    for comms in (COMMS, COMMS, {**COMMS, "body": "It is fixed."}):
        send({"users": [world.bob.username], "emails": ["BOB@example.org"]}, comms)

    assert mail_all(box, now) == ["bob@example.org"] * 2
    assert Incident.select().count() == 1


def test_alerts_of_one_batch_mail_a_stakeholder_once(world, now, box):
    for _ in range(3):
        accept(world, now, **CRITICAL, stakeholders={"users": [world.bob.username]})
    process_lane.run(world.service.id)

    assert mail_all(box, now) == ["bob@example.org"]


def test_the_second_name_of_the_text_is_read(send, world, now, box):
    send({"users": [world.bob.username]}, None, stakeholders_comms={"subject": "Hello there"})

    assert mail_all(box, now) == ["bob@example.org"]
    assert box.mails[0][1]["Subject"] == "[Checkout] #1 Hello there"


def test_the_mail_without_a_text_describes_the_incident(send, world, now, box):
    send({"users": [world.bob.username]}, None)

    assert mail_all(box, now) == ["bob@example.org"]
    assert box.mails[0][1]["Subject"] == "[Checkout] #1 Disk full"
    assert "Status:   triggered" in box.mails[0][1].get_content()


def test_others_get_no_mail_and_the_timeline_says_why(send, world, now, box):
    User.update(verified_email=None).where(User.id == world.bob.id).execute()
    send(
        {
            "users": [world.mallory.username, world.bob.username, 5, None, ""],
            "teams": [world.mallorys_team.unique_id],
            "emails": ["stranger@example.com", "mallory@example.net"],
        }
    )

    assert mail_all(box, now) == []
    no_team = "The account has no such team, or nobody is in it."
    not_allowed = (
        "The address is neither that of a member nor in the list of stakeholders that the owner allows."
    )
    assert sorted(list_entries()) == sorted(
        [
            f"Mail to {world.mallory.username}: not sent. The account has no member with this username.",
            "Mail to Bob: not sent. The e-mail address of this member is not verified.",
            f"Mail to {world.mallorys_team.unique_id}: not sent. {no_team}",
            f"Mail to s...@example.com: not sent. {not_allowed}",
            f"Mail to m...@example.net: not sent. {not_allowed}",
        ]
    )


@pytest.mark.parametrize("named", [{"emails": []}, {"people": ["x"]}, "x", 7, ["a"]])
def test_a_value_without_names_is_ignored_with_a_reason(send, named):
    receipt = send(named)

    assert get_last_stage(receipt)["reason"] == (
        "Ignored, because it names no users, teams or emails: stakeholders."
    )
    assert not StakeholderMail.select().exists()


@pytest.mark.parametrize("changes", [{"suppressed": True}, {"alert_type": "info"}])
def test_an_alert_without_an_incident_mails_nobody(send, world, changes):
    receipt = send({"users": [world.bob.username]}, **changes)

    assert get_last_stage(receipt)["reason"] == (
        "The stakeholders get no mail, because the alert belongs to no incident."
    )
    assert not StakeholderMail.select().exists()


def test_an_alert_without_stakeholders_has_no_reason_about_them(world, now):
    receipt = accept(world, now, **CRITICAL)
    process_lane.run(world.service.id)

    assert get_last_stage(receipt)["stage"] == "notify"


def test_an_alert_that_resolves_mails_too(send, world, now, box):
    send({"users": [world.bob.username]})
    send({"users": [world.bob.username]}, {"subject": "Fixed"}, alert_type="resolved")

    assert mail_all(box, now) == ["bob@example.org"] * 2
    assert box.mails[1][1]["Subject"] == "[Checkout] #1 Fixed"
    assert "Status:   resolved" in box.mails[1][1].get_content()


def test_a_stakeholder_gets_a_limited_number_of_mails(send, world, now, box):
    for number in range(6):
        send({"users": [world.bob.username]}, {"subject": f"Text {number}"})

    assert mail_all(box, now) == ["bob@example.org"] * 5
    assert list_entries()[-1] == (
        "Mail to Bob: not sent. This stakeholder already has the most mails that are allowed in 1 h: 5."
    )
    send({"users": [world.bob.username]}, {"subject": "Later"}, at=now + timedelta(hours=2))
    assert StakeholderMail.select().where(StakeholderMail.message.is_null(False)).count() == 6


def test_an_account_has_a_limit_for_all_its_stakeholders(send, world, monkeypatch):
    monkeypatch.setattr(writer, "ACCOUNT_LIMITS", ((1, writer.HOUR),))
    send({"users": [world.bob.username, world.charlie.username]})

    assert Message.select().where(Message.channel == STAKEHOLDER_CHANNEL).count() == 1
    assert any("The stakeholders of the account already have the most mails" in one for one in list_entries())


def test_an_incident_records_a_limited_number_of_stakeholders(send, monkeypatch):
    monkeypatch.setattr(writer, "MAX_PER_INCIDENT", 3)
    for batch in "ab":
        send({"emails": [f"{batch}{number}@example.com" for number in range(9)]})

    entries = list_entries()
    assert len(entries) == 3
    assert sum("An incident has at most 3 entries about stakeholders." in entry for entry in entries) == 1


def test_mails_do_not_use_the_channel_of_pages(send, world, now, box):
    send({"users": [world.bob.username]})

    assert deliver.send_due(MAIL, now + timedelta(minutes=1)) == 1
    assert [to for to, _ in box.mails] == ["alice@example.org"], "the page of the assignee"
    gate = deliver._runtimes[STAKEHOLDER_CHANNEL].gate
    assert gate.enter()
    assert gate.enter()
    assert not gate.enter(), "two threads of a process send to stakeholders"
    gate.leave()
    gate.leave()


@pytest.mark.parametrize("change", ["removed from the list", "removed from the account", "not verified"])
def test_a_recipient_is_checked_again_before_the_mail_is_sent(send, world, now, box, press, change):
    send({"emails": ["press@example.net"]} if "list" in change else {"users": [world.bob.username]})
    match change:
        case "removed from the list":
            press.delete_instance()
        case "removed from the account":
            User.update(removed_at=now).where(User.id == world.bob.id).execute()
        case _:
            User.update(verified_email=None).where(User.id == world.bob.id).execute()

    assert mail_all(box, now) == []
    (entry,) = list_entries()
    assert "cancelled" in entry
    assert Message.get(Message.channel == STAKEHOLDER_CHANNEL).state == MessageStatus.CANCELLED


def test_a_mail_that_waits_is_shown(send, world):
    receipt = send({"users": [world.bob.username]})

    assert list_entries() == ["Mail to Bob: not sent yet."]
    trace = build_trace(Receipt.get_by_id(receipt.id))
    assert any("Mail to Bob: not sent yet." in text for text in format_lines(trace, Receipt.get().state))


def test_the_mail_of_an_open_incident_is_kept_so_that_it_is_not_repeated(send, world, now, box):
    send({"users": [world.bob.username]})
    mail_all(box, now)
    late = store().now() + timedelta(days=400)
    retention.clean_up(late, TIMES)
    assert StakeholderMail.select().count() == 1

    Incident.update(status=3, resolved_date=now).execute()
    retention.clean_up(late, TIMES)
    assert not StakeholderMail.select().exists()
    assert not Message.select().where(Message.channel == STAKEHOLDER_CHANNEL).exists()


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_batch_of_any_size_gives_the_same_mails(world, now, monkeypatch, size):
    monkeypatch.setattr(type(store()), "lane_batch", size)
    for number in range(6):
        body = {**CRITICAL, "entity_id": f"{number % 2}", "stakeholder_comms": {"subject": f"{number % 5}"}}
        accept(world, now, **body, stakeholders={"users": [world.bob.username], "emails": ["x@example.com"]})
    process_lane.run(world.service.id)

    mails = StakeholderMail.select().where(StakeholderMail.name == "Bob").order_by(StakeholderMail.created_at)
    assert [(mail.incident.incident_number, mail.subject, mail.message is not None) for mail in mails] == [
        (1, "0", True), (2, "1", True), (1, "2", True), (2, "3", True), (1, "4", True), (2, "0", False),
    ]  # fmt: skip
    assert StakeholderMail.select().count() == 12
