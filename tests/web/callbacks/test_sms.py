"""Replies to SMS, and what became of an SMS."""

import re

import pytest

from models.domain.enums import ContactType, IncidentStatus, MessageStatus, NotificationStatus
from models.links import signed_links
from models.links.reply_codes import MAX_WRONG
from models.store.store import store
from models.tables.callbacks import Callback, EarlyReport, WrongReply
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from tests.support.scenarios.delivery import alert
from tests.support.scenarios.phone import ALICES_NUMBER, phones
from web.callbacks.sms import HELP_TEXT, MANY_OPEN, NO_MESSAGE, NOTHING_OPEN
from workers.delivery import deliver

__all__ = ["phones"]

SMS = ContactType.SMS


def statuses():
    return [incident.status for incident in Incident.select().order_by(Incident.id)]


def get_code(sms):
    found = re.search(r"Reply 1 (\w{4}) = acknowledge, 2 \1 = resolve", sms.body)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("form", ["1 {}", "1{}", " 1. {} ", "1\n{}"])
def test_a_reply_with_the_code_acknowledges(phones, form):
    code = get_code(phones.notify(SMS))

    assert phones.reply(form.format(code.lower())) == "Acknowledged: #1 Disk full on db1"
    assert statuses() == [2]
    entry = IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    assert "Alice" in str(entry.reason)
    assert "SMS" in str(entry.reason)


def test_a_reply_resolves(phones):
    code = get_code(phones.notify(SMS))

    assert phones.reply(f"2 {code}") == "Resolved: #1 Disk full on db1"
    assert statuses() == [3]


def test_who_is_late_reads_who_was_faster(phones):
    code = get_code(phones.notify(SMS))
    phones.reply(f"1 {code}")

    assert phones.reply(f"1 {code}") == "You already have #1 since 12:00."


def test_the_same_reply_acts_once(phones):
    code = get_code(phones.notify(SMS))
    phones.reply(f"1 {code}")
    Incident.update(status=IncidentStatus.TRIGGERED).execute()
    phones.twilio.replies -= 1

    assert phones.reply(f"1 {code}") == ""
    assert statuses() == [1]


def test_a_recorded_reply_does_not_act_again_while_its_code_lives(phones):
    code = get_code(phones.notify(SMS))
    phones.reply(f"1 {code}")
    Incident.update(status=IncidentStatus.TRIGGERED).execute()
    phones.after(hours=23)
    # Other callbacks delete those that may be forgotten.
    phones.reply("HELP")
    phones.twilio.replies = 0

    assert phones.reply(f"1 {code}") == ""
    assert statuses() == [1]


def test_the_owner_can_reply_with_the_same_code_again(phones):
    code = get_code(phones.notify(SMS))
    phones.reply(f"1 {code}")
    Incident.update(status=IncidentStatus.TRIGGERED).execute()
    phones.after(hours=23)

    assert phones.reply(f"1 {code}").startswith("Acknowledged")


def test_a_recorded_stop_does_not_stop_a_number_that_was_verified_again(phones):
    contact = phones.add_contact(SMS)
    phones.reply("STOP")
    ContactMethod.update(verified_value=ALICES_NUMBER).where(ContactMethod.id == contact).execute()
    phones.after(days=30)
    phones.reply("HELP")
    phones.twilio.replies = 0
    phones.reply("STOP")

    assert ContactMethod.get_by_id(contact.id).verified_value == ALICES_NUMBER


def test_replies_of_strangers_are_not_stored(phones):
    phones.notify(SMS)
    phones.reply("STOP", "+46709999999")

    assert Callback.select().count() == 0


def test_each_message_has_its_own_code(phones):
    first = get_code(phones.notify(SMS))
    alert(phones.world, phones.now, entity="db2", message="Disk full on db2")
    second = get_code(phones.send(SMS))
    phones.reply(f"1 {second}")

    assert first != second
    assert statuses() == [1, 2]


@pytest.mark.parametrize("sender", ["+46709999999", "", "alice@example.org"])
def test_a_stranger_with_a_code_changes_nothing_and_gets_no_reply(phones, sender):
    code = get_code(phones.notify(SMS))

    assert (phones.reply(f"1 {code}", sender), phones.status) == ("", 200)
    assert statuses() == [1]


def test_a_code_of_another_person_is_not_valid(phones):
    code = get_code(phones.notify(SMS))
    phones.add_contact(SMS, "+46701111111", phones.world.mallory)

    assert phones.reply(f"1 {code}", "+46701111111") == NO_MESSAGE
    assert statuses() == [1]


def test_a_code_ends_with_its_contact_its_key_and_its_life(phones):
    code = get_code(phones.notify(SMS))
    with store().write_transaction():
        signed_links.rotate_key()
    assert phones.reply(f"1 {code}") == NO_MESSAGE
    ContactMethod.update(verified_value=None).where(ContactMethod.contact_type == SMS).execute()
    assert phones.reply(f"1 {code}") == ""
    assert statuses() == [1]


def test_an_old_code_is_not_valid(phones):
    code = get_code(phones.notify(SMS))
    phones.after(days=1, seconds=1)

    assert phones.reply(f"1 {code}") == NO_MESSAGE


def test_a_reply_without_a_code_explains_how(phones):
    phones.notify(SMS)

    assert phones.reply("ok, I am on it") == HELP_TEXT
    assert statuses() == [1]


def test_after_some_wrong_replies_a_number_is_ignored_for_ten_minutes(phones):
    code = get_code(phones.notify(SMS))
    wrong = "AAAA" if code != "AAAA" else "CCCC"
    assert [phones.reply(f"1 {wrong}") for _ in range(MAX_WRONG)] == [NO_MESSAGE] * MAX_WRONG
    assert phones.reply(f"1 {code}") == ""
    assert (statuses(), WrongReply.select().count()) == ([1], MAX_WRONG)

    phones.after(minutes=10)
    assert phones.reply(f"1 {code}").startswith("Acknowledged")


def test_wrong_replies_that_count_no_more_are_deleted(phones):
    phones.notify(SMS)
    phones.reply("hello")
    phones.after(minutes=10)
    phones.reply("hello")

    assert WrongReply.select().count() == 1
    assert ALICES_NUMBER not in WrongReply.get().number


def test_a_reply_counts_for_all_incidents_of_an_sms(phones):
    phones.add_contact(SMS)
    for number in range(7):
        alert(phones.world, phones.now, entity=f"db{number}")
    first = Message.select().where(Message.channel == SMS).order_by(Message.id).get()
    Notification.update(message=first).execute()
    code = get_code(phones.send(SMS))
    Incident.update(status=IncidentStatus.RESOLVED).where(Incident.incident_number == 7).execute()

    assert phones.reply(f"1 {code}") == "Acknowledged 6 of 7 incidents: #1, #2, #3, #4, #5 and 1 more."
    assert statuses() == [2] * 6 + [3]
    assert phones.reply(f"2 {code}").startswith("Resolved 6 of 7 incidents")
    assert phones.reply(f"2 {code}").startswith("You are too late: there is nothing to resolve")


@pytest.mark.parametrize(("body", "more"), [("STOP", {}), (" stop ", {}), ("Arrêt", {"OptOutType": "STOP"})])
def test_stop_ends_the_messages_to_this_number(phones, body, more):
    phones.notify(SMS)
    assert phones.reply(body, **more) == ""

    alert(phones.world, phones.now, entity="db2")
    phones.send(SMS)
    assert len(phones.twilio.created) == 1
    outcome = Notification.select().order_by(Notification.id.desc())
    assert any("not verified" in str(row.outcome or row.reason) for row in outcome)


@pytest.mark.parametrize("word", ["HELP", "info", "START", "yes"])
def test_words_that_the_provider_replies_to_get_no_second_reply(phones, word):
    phones.notify(SMS)

    assert phones.reply(word) == ""
    assert WrongReply.select().count() == 0


def test_what_became_of_an_sms_is_recorded_whatever_the_order(phones):
    sms = phones.notify(SMS)
    for status, state in (
        ("queued", None),
        ("sent", "sent"),
        ("delivered", "delivered"),
        ("sent", "delivered"),
    ):
        sms.report(status)
        assert Attempt.get().provider_state == state


def test_the_attempt_says_why_an_sms_was_not_delivered(phones):
    phones.notify(SMS).report("undelivered", ErrorCode="30003")

    assert Attempt.get().provider_state == "failed"
    assert str(Attempt.get().detail).endswith("twilio reports: the phone cannot be reached (30003).")


def test_a_report_about_an_unknown_sms_does_nothing(phones):
    sms = phones.notify(SMS)
    sms.sid = "SM" + "9" * 32
    sms.report("failed")

    assert (phones.status, Attempt.get().provider_state) == (200, None)


@pytest.mark.parametrize(("status", "state"), [("sent", "sent"), ("delivered", "delivered")])
def test_a_report_before_the_record_of_the_attempt_is_kept(phones, status, state):
    phones.twilio.early_status = status
    phones.notify(SMS)

    assert (Attempt.get().provider_state, Message.get().state) == (state, MessageStatus.SENT)
    assert EarlyReport.select().count() == 0


def test_an_early_report_of_failure_notifies_the_person_elsewhere(phones):
    phones.twilio.early_status = "undelivered"
    phones.notify(SMS)
    phones.after(seconds=1)
    deliver.send_due(SMS, phones.now)

    assert len(phones.twilio.created) == 1
    assert Attempt.get().provider_state == "failed"
    first, second = Notification.select().order_by(Notification.id)
    assert first.state == NotificationStatus.FAILED
    assert second.message.channel == ContactType.EMAIL


@pytest.mark.parametrize("text", ["1", "ok", " Ack! ", "OK."])
def test_a_word_acknowledges_the_only_open_incident(phones, text):
    phones.notify(SMS)

    assert phones.reply(text) == "Acknowledged: #1 Disk full on db1"
    assert statuses() == [2]


def test_a_word_without_code_acts_only_if_one_incident_is_open(phones):
    phones.notify(SMS, "db1", "db2")

    assert phones.reply("ok") == MANY_OPEN
    Incident.update(status=IncidentStatus.RESOLVED).execute()
    assert phones.reply("1") == NOTHING_OPEN


def test_to_resolve_needs_the_code(phones):
    phones.notify(SMS)

    assert phones.reply("2") == HELP_TEXT
    assert statuses() == [1]
