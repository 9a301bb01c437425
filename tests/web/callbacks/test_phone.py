"""Keys that people press in calls, and how calls end."""

import pytest

from models.domain.enums import ContactType
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from tests.support.scenarios.delivery import alert
from tests.support.scenarios.phone import phones
from web.callbacks.phone import TOO_OLD

__all__ = ["phones"]

PHONE = ContactType.PHONE


def statuses():
    return [incident.status for incident in Incident.select().order_by(Incident.id)]


@pytest.mark.parametrize(("digit", "word", "status"), [("1", "Acknowledged", 2), ("2", "Resolved", 3)])
def test_a_key_acknowledges_or_resolves(phones, digit, word, status):
    call = phones.notify(PHONE)

    assert call.press(digit) == f"{word}: number 1 Disk full on db1."
    assert statuses() == [status]
    entry = IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    assert "Alice" in str(entry.reason)
    assert "phone call" in str(entry.reason)


def test_a_key_repeats_the_text_and_then_acknowledges(phones):
    call = phones.notify(PHONE)

    assert "Disk full on db1. Press 1 to acknowledge, 2 to resolve, 3 to hear this again." in call.press("3")
    assert "Disk full on db1. Press 1" in call.press("3")
    assert call.press("1") == "Acknowledged: number 1 Disk full on db1."


def test_a_key_without_a_meaning_asks_again(phones):
    call = phones.notify(PHONE)

    assert call.press("9").startswith("This key has no meaning. Press 1 to acknowledge")
    assert call.press("1").startswith("Acknowledged")


def test_a_call_asks_a_limited_number_of_times(phones):
    call = phones.notify(PHONE)
    for _ in range(9):
        assert "Press 1" in call.press("3")

    assert call.press("3") == "Goodbye."


def test_who_is_late_hears_who_was_faster(phones):
    first = phones.notify(PHONE)
    deliver_again = phones.twilio.created[0]
    assert first.press("1").startswith("Acknowledged")
    deliver_again.twiml = first.fields["Twiml"].replace("step=1", "step=2")

    assert deliver_again.press("1") == "You already have number 1 since 12:00."


def test_the_same_callback_acts_once(phones):
    call = phones.notify(PHONE)
    twiml = call.twiml
    call.press("1")
    Incident.update(status=1).execute()
    call.twiml = twiml

    assert call.press("1") == TOO_OLD
    assert statuses() == [1]


def test_a_key_counts_only_some_minutes(phones):
    call = phones.notify(PHONE)
    phones.after(minutes=10, seconds=1)

    assert call.press("1") == TOO_OLD
    assert statuses() == [1]


def test_a_key_counts_only_for_a_call_that_tocsin_made_to_this_person(phones):
    call = phones.notify(PHONE)
    twiml = call.twiml
    for changes in ({"CallSid": "CA" + "9" * 32}, {"CallSid": ""}, {"To": "+46709999999"}):
        call.twiml = twiml.replace("step=1", f"step={len(str(changes))}")
        assert call.press("1", **changes) == TOO_OLD

    assert statuses() == [1]


def test_a_call_of_another_provider_with_the_same_id_does_not_count(phones):
    call = phones.notify(PHONE)
    Attempt.update(provider="twilio2").execute()

    assert call.press("1") == TOO_OLD


def test_a_number_that_the_person_changed_meanwhile_does_not_count(phones):
    call = phones.notify(PHONE)
    ContactMethod.update(value="+46709999999").where(ContactMethod.contact_type == PHONE).execute()

    assert call.press("1") == TOO_OLD


def test_a_person_without_a_right_any_more_changes_nothing(phones):
    call = phones.notify(PHONE)
    phones.world.alice.removed_at = phones.now
    phones.world.alice.save()

    assert "too old, or you have no right" in call.press("1")
    assert statuses() == [1]


def test_one_key_acts_on_all_incidents_of_a_call(phones):
    phones.add_contact(PHONE)
    for number in range(3):
        alert(phones.world, phones.now, entity=f"db{number}")
    first = Message.select().where(Message.channel == PHONE).order_by(Message.id).get()
    Notification.update(message=first).execute()
    call = phones.send(PHONE)

    assert "3 incidents" in call.hear()
    assert "3 incidents" in call.press("3")
    assert call.press("1") == "Acknowledged 3 of 3 incidents: number 1, number 2, number 3."
    assert statuses() == [2, 2, 2]


@pytest.mark.parametrize(
    ("status", "state"),
    [("completed", "delivered"), ("busy", "failed"), ("no-answer", "failed"), ("failed", "failed")],
)
def test_the_end_of_a_call_is_recorded_and_acknowledges_nothing(phones, status, state):
    call = phones.notify(PHONE)
    phones.after(seconds=30)
    call.report(status)

    attempt = Attempt.get()
    assert (phones.status, attempt.provider_state, attempt.reported_at) == (200, state, phones.now)
    assert statuses() == [1]


def test_the_attempt_says_that_nobody_took_the_call(phones):
    phones.notify(PHONE).report("no-answer")

    assert "nobody took the call" in str(Attempt.get().detail)


def test_a_status_that_is_not_final_is_not_recorded(phones):
    call = phones.notify(PHONE)
    for status in ("queued", "ringing", "in-progress", "unknown", ""):
        call.report(status)

    assert Attempt.get().provider_state is None
