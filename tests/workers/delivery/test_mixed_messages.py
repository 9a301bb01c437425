"""No notification is lost with its message: not the less urgent one, not in a bundle, not after a report."""

from datetime import timedelta

import pytest

from models.domain.enums import (
    AttemptOutcome,
    ContactType,
    IncidentStatus,
    MessageKind,
    NotificationStatus,
    ProviderState,
    Urgency,
)
from models.domain.reasons import make_reason
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import NotificationRule
from models.write.delivery_reports import record_report
from workers.delivery.attempts import DeliveryOutcome
from workers.delivery.fail_over import fail_over_late
from workers.delivery.outbox import DeliveryAttempt, claim, record_attempt
from workers.delivery.render import render_message

SMS, PHONE = ContactType.SMS, ContactType.PHONE
WHY = make_reason("contact_not_verified")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def contacts(world, now):
    """Alice's SMS and phone contacts, which are her only rules."""
    NotificationRule.delete().where(NotificationRule.user == world.alice).execute()
    found = []
    for kind in (SMS, PHONE):
        contact = provisioning.create_contact(world.alice, str(kind), kind, "+46701", now, is_verified=True)
        provisioning.create_default_rules(contact, now)
        found.append(contact)
    return found


@pytest.fixture
def open_incident(world, now):
    def open_incident(urgency=Urgency.HIGH, status=IncidentStatus.TRIGGERED):
        number = Incident.select().count() + 1
        return Incident.create(
            unique_id=make_short_id(), account=world.account, incident_number=number, incident_key="k",
            service=world.service, team=world.team, title=f"Disk {number}", status=status, urgency=urgency,
            creation_date=now, run_started_at=now,
        )  # fmt: skip

    return open_incident


@pytest.fixture
def write(world, now, contacts):
    """write(*incidents): a pending SMS about them."""

    def write(*incidents, reason="escalation", **columns):
        sms = contacts[0]
        message = Message.create(
            message_id=make_uuid(), account=world.account, user=world.alice, contact=sms, channel=SMS,
            created_at=now, next_attempt_at=now, **columns,
        )  # fmt: skip
        for incident in incidents:
            key = f"{incident.unique_id}:{reason}:1:0:{world.alice.username}:{sms.id}:{message.id}"
            Notification.create(
                key=key, incident=incident, user=world.alice, contact=sms, kind=reason, reason=WHY,
                not_before=now, message=message,
            )  # fmt: skip
        return message

    return write


def record(message, outcome, at, **values):
    with store().write_transaction():
        claimed = claim(message.channel, message.account_id, at)
    assert claimed.row == message.id
    with store().write_transaction():
        record_attempt(DeliveryAttempt(claimed, at, outcome, WHY, **values))


def list_notifications(message):
    return [row.id for row in Notification.select().where(Notification.message == message)]


def list_pending():
    rows = Notification.select().where(Notification.state == NotificationStatus.PENDING)
    return {(row.incident.title, row.message.channel) for row in rows}


def test_what_is_not_urgent_is_mailed_when_what_is_urgent_goes_to_the_next_contact(now, open_incident, write):
    message = write(open_incident(), open_incident(Urgency.LOW))

    record(message, DeliveryOutcome.UNUSABLE, now)

    assert list_pending() == {("Disk 1", PHONE), ("Disk 2", ContactType.EMAIL)}


def test_a_bundle_that_was_tried_takes_no_further_notifications(now, open_incident, write):
    bundle = write(open_incident(), kind=MessageKind.BUNDLE)
    record(bundle, DeliveryOutcome.REFUSED, now)
    later = write(open_incident())

    record(later, DeliveryOutcome.BUNDLED, now, included=tuple(list_notifications(later)))
    record(bundle, DeliveryOutcome.UNUSABLE, now + MINUTE / 10)

    assert list_pending() == {("Disk 1", PHONE), ("Disk 2", SMS)}


def test_a_bundle_that_cannot_be_sent_fails_over(now, open_incident, write):
    began = now - 20 * MINUTE
    bundle = write(open_incident(), kind=MessageKind.BUNDLE, attempts=9, first_attempt_at=began)

    assert fail_over_late(now, [SMS]) == [bundle.id]
    assert ("Disk 1", PHONE) in list_pending()


def test_messages_that_are_not_urgent_leave_half_of_the_limit_to_urgent_ones(
    world, now, open_incident, write
):
    for _ in range(3):
        write(open_incident(), state=1, done_at=now - MINUTE)
    low, high = write(open_incident(Urgency.LOW)), write(open_incident())

    obstacles = [render_message(each.id, "https://example.org", now).obstacle for each in (low, high)]

    assert [each and each[0] for each in obstacles] == [DeliveryOutcome.BUNDLED, None]


def send_and_report_failure(message, now):
    included = tuple(list_notifications(message))
    Message.update(next_attempt_at=now).where(Message.id == message.id).execute()
    record(message, DeliveryOutcome.SENT, now, included=included, provider="twilio", provider_id="SM1")
    assert record_report("twilio", "SM1", ProviderState.FAILED, now)


def test_a_responder_is_notified_elsewhere_after_a_report_of_failure(now, open_incident, write):
    message = write(open_incident(status=IncidentStatus.ACKNOWLEDGED), reason="responder")
    send_and_report_failure(message, now)

    record(message, DeliveryOutcome.REPORTED_FAILED, now)

    assert list_pending() == {("Disk 1", PHONE)}


def test_the_own_address_is_notified_again_if_its_message_was_cancelled(now, contacts, open_incident, write):
    NotificationRule.delete().where(NotificationRule.contact == contacts[1]).execute()
    message = write(open_incident())
    record(message, DeliveryOutcome.REFUSED, now)
    assert list_pending() == {("Disk 1", SMS), ("Disk 1", ContactType.EMAIL)}
    send_and_report_failure(message, now)
    assert list_pending() == {("Disk 1", SMS)}

    record(message, DeliveryOutcome.REPORTED_FAILED, now)

    assert list_pending() == {("Disk 1", ContactType.EMAIL)}
    assert Attempt.select().where(Attempt.outcome == AttemptOutcome.SENT).count() == 1
