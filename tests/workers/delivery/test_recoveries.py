"""The contacts that were notified of an incident get its resolution, each once, except by phone."""

from datetime import timedelta

import pytest

from models.domain.enums import ContactType, IncidentStatus, NotificationKind
from models.tables.accounts import User
from models.tables.notifications import Notification
from models.tables.users import NotificationRule
from tests.support.delivery.http_channels import HttpChannel, add_channel, add_contact, alert_at, start_inbox
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, deliver_to, move
from workers.delivery import deliver

__all__ = ["deliver_to"]

PUSH, PHONE = 190, ContactType.PHONE
MINUTE = timedelta(minutes=1)


@pytest.fixture
def channels(monkeypatch, deliver_to):
    """The servers of a push service and of a phone service, and a mail relay."""
    with start_inbox() as push, start_inbox() as phone, relay() as box:
        deliver_to(box.port)
        add_channel(monkeypatch, PUSH, HttpChannel(push.url))
        add_channel(monkeypatch, PHONE, HttpChannel(phone.url))
        yield push, phone, box


def open_and_resolve(world, now, *contacts):
    """Open an incident that notifies Alice through these contacts only, and resolve it."""
    NotificationRule.delete().where(NotificationRule.user == world.alice).execute()
    for channel, value in contacts:
        add_contact(world.alice, channel, value)
    incident = alert_at(world, now)
    send_all(now)
    move(incident, IncidentStatus.RESOLVED, world.bob, now + 14 * MINUTE)
    send_all(now + 15 * MINUTE)
    send_all(now + 30 * MINUTE)


def send_all(at):
    for channel in (PUSH, PHONE, MAIL):
        deliver.send_due(channel, at)


def test_each_notified_contact_gets_the_resolution_once(world, now, channels):
    push, phone, box = channels
    open_and_resolve(world, now, (PUSH, "a"), (PUSH, "b"), (PHONE, "c"), (MAIL, "alice@example.org"))

    assert sorted(path for path, _ in push.taken) == ["/a", "/a", "/b", "/b"]
    assert push.taken[-1][1] == "[Checkout] #1 Disk full on db1: resolved after 14 min"
    assert len(phone.taken) == 1
    assert [mail.get_content().startswith("Resolved after 14 min.") for _, mail in box.mails] == [False, True]


def test_who_got_only_a_call_gets_a_mail(world, now, channels):
    _, phone, box = channels
    open_and_resolve(world, now, (PHONE, "c"))

    assert (len(phone.taken), [to for to, _ in box.mails]) == (1, ["alice@example.org"])


def test_two_contacts_with_one_address_get_one_mail(world, now, channels):
    _, _, box = channels
    open_and_resolve(world, now, (MAIL, "alice@example.org"), (MAIL, "Alice@example.org"))

    recoveries = Notification.select().where(Notification.kind == NotificationKind.RECOVERY)
    assert (recoveries.count(), len(box.mails)) == (1, 3)


def test_a_user_can_switch_it_off_for_all_channels(world, now, channels):
    push, _, box = channels
    User.update(recovery_mails=False).where(User.id == world.alice.id).execute()
    open_and_resolve(world, now, (PUSH, "a"))

    assert (len(push.taken), box.mails) == (1, [])
