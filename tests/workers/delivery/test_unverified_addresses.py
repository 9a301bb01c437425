"""An address that is not verified gets few messages, and nobody is left without a notification."""

from datetime import timedelta

import pytest

from models.contacts import contact_codes
from models.contacts.messages import create_invitation
from models.domain.enums import IncidentStatus, MessageKind, MessageStatus, NotificationStatus
from models.domain.message_limits import UNVERIFIED_LIMIT
from models.domain.reasons import make_reason
from models.people import provisioning
from models.reports.alert_trace import build_trace
from models.tables.accounts import User
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, alert, deliver_to
from workers.delivery import deliver

__all__ = ["deliver_to"]

DAILY_LIMIT = UNVERIFIED_LIMIT.most

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def box(deliver_to):
    with relay() as box:
        deliver_to(box.port)
        yield box


@pytest.fixture
def page(world, now):
    """page(count, at): alerts that each notify Alice, sent at this time."""

    def page(count, at):
        for number in range(count):
            alert(world, now, entity=f"{at} {number}", message=f"Disk {number} at {at}")
        deliver.send_due(MAIL, at + SECOND)

    return page


@pytest.fixture
def unverified(world):
    """Alice's own address is not verified, neither as such nor as a contact."""
    User.update(verified_email=None).where(User.id == world.alice.id).execute()
    ContactMethod.update(verified_value=None).where(ContactMethod.user == world.alice).execute()


def add_contact(world, now, value="stranger@example.net"):
    """Replace Alice's contact by one that is not verified."""
    query = ContactMethod.update(value=value, verified_value=None, name="Home")
    query.where(ContactMethod.user == world.alice).execute()
    return ContactMethod.get(ContactMethod.user == world.alice)


def recipients(box):
    return [to for to, _ in box.mails]


# --- contacts --------------------------------------------------------------------------------------


def test_a_page_for_a_contact_that_is_not_verified_goes_to_the_own_address(world, now, box):
    add_contact(world, now)
    alert(world, now)
    deliver.send_due(MAIL, now)

    first, second = Notification.select().order_by(Notification.id)
    assert recipients(box) == ["alice@example.org"]
    why = make_reason("contact_not_verified").add(make_reason("user_email_instead"))
    assert (first.state, first.outcome) == (NotificationStatus.FAILED, why)
    assert second.reason == first.reason.add(make_reason("unverified_elsewhere", contact="Home"))
    assert "Home is not verified, so this goes to" in box.mails[0][1].get_content()
    assert "The contact is not verified" in str(build_trace(Receipt.get()))
    assert [attempt.message_id for attempt in Attempt.select()] == [second.message_id]


def test_a_changed_value_is_not_verified(world, now, box):
    contacts = ContactMethod.update(value="stranger@example.net")
    contacts.where(ContactMethod.user == world.alice).execute()
    alert(world, now)
    deliver.send_due(MAIL, now)

    assert recipients(box) == ["alice@example.org"]


def test_a_contact_gets_its_code_and_after_it_the_pages(world, now, box):
    contact = add_contact(world, now)
    contact_codes.send_code(contact, "Alice", now)
    deliver.send_due(MAIL, now)
    ((to, mail),) = box.mails
    code = mail["Subject"].split()[-1]
    assert (to, len(code), code.isdigit()) == ("stranger@example.net", 6, True)
    assert code in mail.get_content()

    assert contact_codes.enter_code(contact, code, now)
    alert(world, now)
    deliver.send_due(MAIL, now + SECOND)
    assert recipients(box) == ["stranger@example.net"] * 2


def test_a_code_that_is_no_longer_valid_is_not_sent(world, now, box):
    contact = add_contact(world, now)
    contact_codes.send_code(contact, "Alice", now)
    deliver.send_due(MAIL, now + contact_codes.LIFE)

    assert (box.mails, Message.get().state) == ([], MessageStatus.CANCELLED)


# --- the user's own address ------------------------------------------------------------------------


def test_a_verified_address_has_no_limit(page, now, box):
    page(DAILY_LIMIT + 5, now)

    assert len(box.mails) == DAILY_LIMIT + 5


def test_the_case_of_a_verified_address_does_not_count(page, now, box, world):
    User.update(verified_email=world.alice.email.upper()).where(User.id == world.alice.id).execute()

    page(DAILY_LIMIT + 5, now)

    assert len(box.mails) == DAILY_LIMIT + 5


def test_a_verified_contact_stays_verified_as_the_own_address(page, now, box, world, unverified):
    query = ContactMethod.update(value=world.alice.email, verified_value=world.alice.email)
    query.where(ContactMethod.user == world.alice).execute()

    page(DAILY_LIMIT + 5, now)

    assert len(box.mails) == DAILY_LIMIT + 5


def test_an_own_address_that_is_not_verified_gets_ten_messages_and_then_one_a_day(page, now, box, unverified):
    page(DAILY_LIMIT + 5, now)
    assert len(box.mails) == DAILY_LIMIT
    page(20, now + HOUR)
    deliver.send_due(MAIL, now + DAY)
    assert len(box.mails) == DAILY_LIMIT
    assert Notification.select().where(Notification.state == NotificationStatus.PENDING).count() == 25

    deliver.send_due(MAIL, now + DAY + SECOND)
    assert len(box.mails) == DAILY_LIMIT + 1
    assert "25 incidents" in box.mails[-1][1]["Subject"]
    assert Notification.select().where(Notification.state == NotificationStatus.SENT).count() == 35


def test_an_endless_storm_gives_one_more_message_a_day(page, now, box, unverified):
    for hours in range(0, 72, 2):
        page(2, now + hours * HOUR)

    assert len(box.mails) <= 3 * (DAILY_LIMIT + 1)


def test_the_message_of_the_day_contains_only_open_incidents(page, now, box, unverified):
    page(DAILY_LIMIT + 2, now)
    last = Incident.select().order_by(Incident.id.desc()).get()
    Incident.update(status=IncidentStatus.RESOLVED).where(Incident.id == last.id).execute()
    deliver.send_due(MAIL, now + DAY + SECOND)

    assert box.mails[-1][1]["Subject"].startswith(f"[Checkout] #{DAILY_LIMIT + 1} ")


def test_the_trace_says_why_a_page_waits_for_the_message_of_the_day(page, now, box, unverified):
    page(DAILY_LIMIT + 1, now)

    moved = Message.get(Message.state == MessageStatus.CANCELLED)
    limit = make_reason("daily_limit", limit=DAILY_LIMIT)
    assert moved.outcome == limit.add(make_reason("moved_to_daily"))
    daily = Message.get(Message.kind == MessageKind.DAILY)
    assert (daily.next_attempt_at, daily.outcome) == (
        now + DAY + SECOND,
        make_reason("not_sent_yet").add(limit),
    )


def test_the_pages_of_a_contact_with_the_own_address_count_too(page, now, box, world, unverified):
    ContactMethod.update(value="Alice@example.org").where(ContactMethod.user == world.alice).execute()
    page(DAILY_LIMIT + 5, now)

    assert len(box.mails) == DAILY_LIMIT


def test_an_invited_person_gets_the_invitation_and_pages(world, now, box):
    dora = provisioning.create_user(world.account, "dora@example.org", 3, now)
    create_invitation(dora, "Alice", now)
    deliver.send_due(MAIL, now)

    assert recipients(box) == ["dora@example.org"]
