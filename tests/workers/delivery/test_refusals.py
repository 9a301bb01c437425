"""A relay that refuses everybody loses no message; an address that is refused alone is given up."""

from datetime import timedelta

import pytest

from models.contacts.messages import create_invitation, create_test_message
from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus
from models.domain.reasons import make_reason
from models.reports.alert_trace import build_trace
from models.tables.accounts import User
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, alert, deliver_to
from workers.delivery import deliver, outbox
from workers.delivery.attempts import DeliveryOutcome

__all__ = ["deliver_to"]

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
REFUSED = make_reason("smtp_refuses_recipient", answer="550 5.7.1 no")
REFUSE_ALL = {"RCPT": "550 5.7.1 no"}


@pytest.fixture
def send(now, deliver_to):
    """send(relay, since, until): send what is due each second between these seconds."""

    def send(box, since: int, until: int | None = None, step: int = 1) -> list[str]:
        deliver_to(box.port)
        for seconds in range(since, (until if until is not None else since) + 1, step):
            deliver.send_due(MAIL, now + seconds * SECOND)
        return [to for to, _ in box.mails]

    return send


@pytest.fixture
def work_contact(world):
    """Alice's rules use another address than her own one."""
    address = "work@example.org"
    contacts = ContactMethod.update(value=address, verified_value=address, name="Work")
    contacts.where(ContactMethod.user == world.alice).execute()


def states(table):
    return [row.state for row in table.select().order_by(table.id)]


def page_bob(world, now):
    """Store a message to another address."""
    create_test_message(ContactMethod.get(ContactMethod.user == world.bob), "Alice", now)


def test_no_message_is_lost_by_a_relay_that_refuses_everybody_for_a_while(world, now, send):
    for number in range(52):
        alert(world, now, entity=f"db{number}")
    with relay(dict(REFUSE_ALL)) as box:
        assert send(box, 0, 20) == []
        assert states(Notification) == [NotificationStatus.PENDING] * 52
        box.responses.clear()
        assert len(send(box, 21, 60)) == 52

    ids = [mail["Message-ID"] for _, mail in box.mails]
    assert sorted(ids) == sorted(f"<{message.message_id}@example.org>" for message in Message.select())
    assert states(Notification) == [NotificationStatus.SENT] * 52


def test_an_address_that_is_refused_while_another_is_accepted_is_given_up(world, now, send):
    alert(world, now)
    with relay({"RCPT alice@example.org": "550 5.7.1 no"}) as box:
        send(box, 0)
        assert Message.get_by_id(1).state == MessageStatus.PENDING
        page_bob(world, now)
        assert send(box, 1, 60) == ["bob@example.org"]

    permanent = REFUSED.add(make_reason("refusal_permanent"))
    assert (Notification.get().state, Notification.get().outcome) == (NotificationStatus.FAILED, permanent)


def test_a_message_that_was_accepted_at_the_end_of_the_refusals_is_no_evidence(world, now, send):
    """The relay may have recovered between the two attempts."""
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 14)
        page_bob(world, now)
        box.responses = {"RCPT alice@example.org": "550 5.7.1 no"}
        send(box, 14, 20)
        assert Message.get_by_id(1).state == MessageStatus.PENDING
        box.responses.clear()
        assert send(box, 21, 60) == ["bob@example.org", "alice@example.org"]


def test_a_message_to_the_same_address_is_no_evidence(world, now, send):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0)
        contact = ContactMethod.create(
            unique_id="c2", user=world.bob, name="Shared", contact_type=1, value="Alice@Example.org",
            creation_date=now,
        )  # fmt: skip
        create_test_message(contact, "Alice", now)
        box.responses = {"RCPT alice@example.org": "550 5.7.1 no"}
        assert send(box, 1, 60) == ["Alice@Example.org"]

    assert Message.get_by_id(1).state == MessageStatus.PENDING


def test_a_refusal_of_the_message_is_permanent_if_the_relay_accepts_other_messages(world, now, send):
    alert(world, now)
    page_bob(world, now)
    with relay({"DATA": "554 5.7.1 no"}) as box:
        send(box, 0, 60)
        Message.update(state=MessageStatus.SENT, done_at=now + 30 * SECOND).where(
            Message.user == world.bob
        ).execute()
        send(box, 61, 300, step=60)

    assert Message.get_by_id(1).state == MessageStatus.FAILED


def test_a_refusal_of_the_sender_is_never_permanent(world, now, send):
    alert(world, now)
    page_bob(world, now)
    with relay({"MAIL": "554 5.7.1 no"}) as box:
        send(box, 0, 60)
        Message.update(state=MessageStatus.SENT, done_at=now + 30 * SECOND).where(
            Message.user == world.bob
        ).execute()
        send(box, 61, 3000, step=60)
        assert Message.get_by_id(1).state == MessageStatus.PENDING
        box.responses.clear()
        assert "alice@example.org" in send(box, 3001, 3120)


def test_the_message_is_retried_after_an_hour_while_the_incident_is_triggered(world, now, send):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 26 * 3600, step=30)
        assert Message.get_by_id(1).state == MessageStatus.PENDING
        assert Attempt.select().count() < 400
        box.responses.clear()
        assert send(box, 26 * 3600, 27 * 3600, step=30) == ["alice@example.org"]


def test_the_retries_end_when_somebody_acknowledges(world, now, send):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 2 * 3600, step=5)
        Incident.update(status=IncidentStatus.ACKNOWLEDGED).execute()
        box.responses.clear()
        assert send(box, 2 * 3600, 3 * 3600, step=5) == []

    assert (Message.get_by_id(1).state, Notification.get().outcome) == (
        MessageStatus.CANCELLED,
        make_reason("is_acknowledged"),
    )


# --- a contact and the user's own e-mail address ---------------------------------------------------


def test_the_own_address_is_tried_in_turn_and_only_one_message_is_sent(world, now, send, work_contact):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        for second in range(50):
            send(box, second)
            due = Message.select().where(Message.state == 0, Message.next_attempt_at <= now + HOUR / 10)
            assert due.count() == 1
        tried = [row.message_id for row in Attempt.select().order_by(Attempt.id)]
        assert tried == [1, 2, 1, 2, 1, 2]
        box.responses.clear()
        assert send(box, 50, 2000) == ["work@example.org"]

    assert states(Message) == [MessageStatus.SENT, MessageStatus.CANCELLED]
    assert states(Notification) == [NotificationStatus.SENT, NotificationStatus.CANCELLED]
    assert list(Notification.select())[1].outcome == make_reason("contact_accepted")


def test_a_contact_that_is_refused_is_given_up_when_the_own_address_accepts(world, now, send, work_contact):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 6)
        box.responses = {"RCPT work@example.org": "550 5.7.1 no"}
        assert send(box, 7, 2000) == ["alice@example.org"]

    first, second = Notification.select().order_by(Notification.id)
    assert (first.state, second.state) == (NotificationStatus.FAILED, NotificationStatus.SENT)
    assert first.outcome == REFUSED.add(make_reason("user_email_instead"))
    assert states(Message) == [MessageStatus.FAILED, MessageStatus.SENT]


def test_an_own_address_that_is_given_up_leaves_the_contact(world, now, send, work_contact):
    User.update(email="not an address", verified_email="not an address").where(
        User.id == world.alice.id
    ).execute()
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 20)
        assert states(Message) == [MessageStatus.PENDING, MessageStatus.FAILED]
        box.responses.clear()
        assert send(box, 21, 60) == ["work@example.org"]


def test_the_own_address_is_also_tried_if_a_contact_fails_for_an_hour(world, now, send, work_contact):
    alert(world, now)
    with relay({"RCPT work@example.org": "450 4.7.1 later"}) as box:
        assert send(box, 0, 3599, step=5) == []
        assert send(box, 3600, 3800, step=5) == ["alice@example.org"]

    assert states(Notification) == [NotificationStatus.FAILED, NotificationStatus.SENT]


def test_an_acknowledged_incident_cancels_both_messages(world, now, send, work_contact):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 20)
        Incident.update(status=IncidentStatus.ACKNOWLEDGED).execute()
        box.responses.clear()
        assert send(box, 21, 120) == []

    assert states(Message) == [MessageStatus.CANCELLED] * 2


# --- messages without notifications, and reasons ---------------------------------------------------


def test_a_refused_test_message_is_not_retried(world, now, send):
    page_bob(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0)

    assert (Message.get_by_id(1).state, Message.get_by_id(1).outcome) == (MessageStatus.FAILED, REFUSED)


def test_a_refused_invitation_is_retried_for_an_hour(world, now, send):
    create_invitation(world.bob, "Alice", now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0, 3599, step=5)
        assert Message.get_by_id(1).state == MessageStatus.PENDING
        send(box, 3600, 3800, step=5)

    assert Message.get_by_id(1).state == MessageStatus.FAILED


def test_the_alert_trace_says_that_the_relay_may_refuse_everybody(world, now, send, work_contact):
    alert(world, now)
    with relay(dict(REFUSE_ALL)) as box:
        send(box, 0)

    first, second = Message.select().order_by(Message.id)
    in_turn = make_reason("addresses_in_turn")
    pending = make_reason("not_sent_yet").add(REFUSED, make_reason("refusal_not_proven"), in_turn)
    assert (first.outcome, second.outcome) == (pending, pending)
    trace = str(build_trace(Receipt.get())["incidents"][0]["deliveries"])
    assert "The relay may refuse everybody, so the address is tried again." in trace
    assert "in turn until one of them accepts" in trace


@pytest.mark.parametrize("first", [DeliveryOutcome.SENT, DeliveryOutcome.REFUSED])
def test_a_first_attempt_that_is_recorded_after_its_claim_expired_knows_the_other_address(
    world, now, store, work_contact, first
):
    """Another worker has claimed the message meanwhile, and recorded a refusal."""
    alert(world, now)
    claims = [claim(store, at) for at in (now, now + outbox.CLAIM)]
    record(store, claims[1], now + outbox.CLAIM, DeliveryOutcome.REFUSED)
    assert states(Message) == [MessageStatus.PENDING] * 2
    record(store, claims[0], now, first)

    message, alternate = Message.select().order_by(Message.id)
    assert (message.attempts, message.first_attempt_at) == (2, now + outbox.CLAIM)
    assert alternate.instead_of_id == message.id
    if first is DeliveryOutcome.SENT:
        assert states(Message) == [MessageStatus.SENT, MessageStatus.CANCELLED]
        assert states(Notification) == [NotificationStatus.SENT, NotificationStatus.CANCELLED]
    else:
        # Only one of the two is due.
        assert alternate.next_attempt_at <= now + outbox.CLAIM < message.next_attempt_at


def test_a_first_attempt_ends_the_other_address_after_another_worker_gave_the_contact_up(
    world, now, store, work_contact
):
    """The contact was not verified then: this is no attempt."""
    alert(world, now)
    claims = [claim(store, at) for at in (now, now + outbox.CLAIM)]
    record(store, claims[1], now + outbox.CLAIM, DeliveryOutcome.UNVERIFIED)
    record(store, claims[0], now, DeliveryOutcome.SENT)

    assert states(Message) == [MessageStatus.FAILED, MessageStatus.CANCELLED]


def claim(store, at):
    with store.write_transaction():
        return outbox.claim(MAIL, Message.get().account_id, at)


def record(store, claimed, at, outcome):
    included = (Notification.get(Notification.message == claimed.row).id,)
    with store.write_transaction():
        outbox.record_attempt(outbox.DeliveryAttempt(claimed, at, outcome, REFUSED, 1, included))
