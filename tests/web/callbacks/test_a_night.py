"""A night with a phone, from the code that verifies its number to the reply to an SMS."""

import re
from datetime import timedelta

from models.contacts import contact_codes
from models.domain.enums import ContactType, Urgency, WorkState
from models.people import provisioning
from models.reports import alert_trace
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.users import NotificationRule
from tests.support.scenarios.delivery import alert
from tests.support.scenarios.phone import ALICES_NUMBER, phones
from tocsin.commands.alerts.why import format_lines
from workers.delivery import deliver

__all__ = ["phones"]

SMS, PHONE = ContactType.SMS, ContactType.PHONE


def add_contact(phones, channel, delay):
    contact = provisioning.create_contact(
        phones.world.alice, channel.name, channel, ALICES_NUMBER, phones.now
    )
    NotificationRule.create(
        unique_id=make_uuid(), user=phones.world.alice, contact=contact, urgency=Urgency.HIGH,
        start_delay=delay, creation_date=phones.now,
    )  # fmt: skip
    return contact


def verify(phones, contact):
    """Let Tocsin send the code to the phone, and enter what the phone shows or says."""
    contact_codes.send_code(contact, "Alice", phones.now)
    created = phones.send(ContactType(contact.contact_type))
    text = created.body if contact.contact_type == SMS else created.hear().replace(", ", "")
    code = re.search(r"Code (\d{6})", text)
    assert code is not None
    with store().write_transaction():
        assert contact_codes.enter_code(contact, code[1], phones.now)


def list_lines():
    receipt = Receipt.get()
    return list(format_lines(alert_trace.build_trace(receipt), WorkState(receipt.state)))


def test_a_call_in_which_no_key_is_pressed_is_followed_by_an_sms_that_is_replied_to(phones):
    NotificationRule.delete().execute()
    verify(phones, add_contact(phones, PHONE, delay=0))
    verify(phones, add_contact(phones, SMS, delay=5))
    alert(phones.world, phones.now)

    call = phones.send(PHONE)
    assert "Checkout. number 1 Disk full on db1 (critical). Since Wed 12:00 UTC." in call.hear()
    assert "Next, in 4 min 59 s: you (SMS). Press 1" in call.hear()
    phones.after(seconds=30)
    call.report("completed")
    sent = len(phones.twilio.created)
    deliver.send_due(SMS, phones.now + timedelta(minutes=4))
    assert len(phones.twilio.created) == sent

    phones.after(minutes=5)
    sms = phones.send(SMS)
    code = re.search(r"Reply 1 (\w{4})", sms.body)
    assert code is not None
    sms.report("delivered")
    phones.after(minutes=1)
    assert phones.reply(f"1 {code[1]}") == "Acknowledged: #1 Disk full on db1"
    assert (Incident.get().status, Incident.get().assigned_to) == (2, phones.world.alice)

    text = "\n".join(list_lines())
    for step in ("by phone call", "by SMS", "Acknowledged by Alice in SMS"):
        assert step in text, text
