"""A message of high urgency that cannot be sent goes to the next contact, and then to the next person."""

from datetime import timedelta

import pytest

from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus
from models.domain.reasons import make_reason, write_clause
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Message, Notification
from models.tables.services import Integration
from models.tables.users import ContactMethod, NotificationRule
from tests.support.delivery.http_channels import HttpChannel, add_channel, add_contact, alert_at, start_inbox
from tests.support.relays import hang, relay, start_silent_server
from tests.support.scenarios.delivery import MAIL, deliver_to
from tests.support.scenarios.delivery import channel as mail_channel
from tests.support.scenarios.timers import set_policy
from workers.delivery import deliver

__all__ = ["deliver_to"]

PUSH, PHONE = 190, 191
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.fixture
def channels(monkeypatch, deliver_to):
    """The servers of a push service and of a phone service, and a mail relay."""
    with start_inbox() as push, start_inbox() as phone, relay() as box:
        deliver_to(box.port)
        push.runtime = add_channel(monkeypatch, PUSH, HttpChannel(push.url, 1))
        phone.runtime = add_channel(monkeypatch, PHONE, HttpChannel(phone.url, 1))
        yield push, phone, box


def use_contacts(user, *rules):
    """Replace the rules of a user by these: (channel, value, delay in minutes)."""
    NotificationRule.delete().where(NotificationRule.user == user).execute()
    return [add_contact(user, *rule) for rule in rules]


def send_all(at):
    deliver.fail_over_late(at)
    for _ in range(3):
        for channel in (PUSH, PHONE, MAIL):
            deliver.send_due(channel, at)


def send_for(now, seconds, step=5):
    for passed in range(0, seconds + 1, step):
        send_all(now + passed * SECOND)


def list_paths(inbox):
    return [path for path, _ in inbox.taken]


def test_a_contact_that_cannot_be_used_makes_a_later_rule_due_now(world, now, channels):
    push, phone, box = channels
    contact, _ = use_contacts(world.alice, (PUSH, "a", 0), (PHONE, "b", 10))
    ContactMethod.update(verified_value=None).where(ContactMethod.id == contact.id).execute()
    alert_at(world, now)
    send_all(now)

    assert (list_paths(push), list_paths(phone), box.mails) == ([], ["/b"], [])
    first, second = Notification.select().order_by(Notification.id)
    assert first.state == NotificationStatus.FAILED
    assert make_reason("next_contact_instead") in (first.outcome, *first.outcome.more)
    assert "The message to Contact a could not be sent" in write_clause(second.reason)
    send_for(now, 11 * 60, 60)
    assert list_paths(phone) == ["/b"]


def test_the_own_address_is_notified_after_the_last_contact(world, now, channels):
    push, phone, box = channels
    use_contacts(world.alice, (PUSH, "a", 0), (PHONE, "b", 10))
    ContactMethod.update(verified_value=None).where(ContactMethod.contact_type.in_([PUSH, PHONE])).execute()
    alert_at(world, now)
    send_all(now)

    assert (push.taken, phone.taken, [to for to, _ in box.mails]) == ([], [], ["alice@example.org"])


def test_a_provider_that_fails_makes_a_later_rule_due_after_a_minute(world, now, channels):
    push, phone, _ = channels
    push.status = 503
    use_contacts(world.alice, (PUSH, "a", 0), (PHONE, "b", 10))
    alert_at(world, now)
    send_for(now, 10)
    assert phone.taken == []
    send_for(now + 15 * SECOND, 45)

    assert list_paths(phone) == ["/b"]
    # The first contact is still tried, and accepts the message later.
    push.status = 200
    push.runtime.gate.record_success()
    send_for(now + 2 * MINUTE, 180)
    assert (list_paths(push), list_paths(phone)) == (["/a"], ["/b"])


def test_messages_that_a_hung_provider_is_not_even_asked_for_go_elsewhere_too(
    world, now, channels, monkeypatch
):
    _, phone, _ = channels
    with start_silent_server(hang) as dead:
        add_channel(monkeypatch, PUSH, HttpChannel(f"http://127.0.0.1:{dead.port}", 0.05))
        use_contacts(world.alice, (PUSH, "a", 0), (PHONE, "b", 10))
        for number in range(6):
            alert_at(world, now, f"db{number}")
        send_for(now, 60)

        assert len(phone.taken) == 6
    assert (
        Message.select().where(Message.channel == PUSH, Message.state == MessageStatus.PENDING).count() == 6
    )


def test_a_rule_that_has_no_notification_yet_gets_one(world, now, channels):
    _, phone, _ = channels
    (contact,) = use_contacts(world.alice, (PUSH, "a", 0))
    ContactMethod.update(verified_value=None).where(ContactMethod.id == contact.id).execute()
    alert_at(world, now)
    add_contact(world.alice, PHONE, "b", 5)
    send_all(now)
    send_for(now, 600, 60)

    assert list_paths(phone) == ["/b"]


def test_low_urgency_goes_only_to_the_own_address(world, now, channels):
    _, phone, box = channels
    Integration.update(default_urgency=0).execute()
    NotificationRule.delete().where(NotificationRule.user == world.alice).execute()
    contact = add_contact(world.alice, PUSH, "a", 0, urgency=0)
    add_contact(world.alice, PHONE, "b", 10, urgency=0)
    ContactMethod.update(verified_value=None).where(ContactMethod.id == contact.id).execute()
    incident = alert_at(world, now)
    assert incident.urgency == 0
    send_all(now)

    assert (phone.taken, len(box.mails)) == ([], 1)


def refuse_alice(world, channels):
    """Alice has one contact that cannot be used, and her own address cannot be used either."""
    use_contacts(world.alice, (PUSH, "a", 0))
    ContactMethod.update(verified_value=None).where(ContactMethod.contact_type == PUSH).execute()
    User.update(email="älice@example.org").where(User.id == world.alice.id).execute()


def test_the_next_step_is_taken_early_if_nobody_of_the_step_can_be_notified(world, now, channels):
    use_contacts(world.bob, (PHONE, "bob", 0))
    set_policy(world, (0, world.alice), (15, world.bob), (20, world.charlie), name="Nights")
    refuse_alice(world, channels)
    with relay(utf8=False) as box:
        deliver._runtimes[MAIL].channel = mail_channel(box.port)
        incident = alert_at(world, now)
        send_all(now + SECOND)

        assert list_paths(channels[1]) == ["/bob"]
        bobs = Notification.get(Notification.user == world.bob)
        assert "The next step is taken early, because nobody of escalation" in write_clause(bobs.reason)
        texts = [str(row.reason) for row in IncidentLog.select().order_by(IncidentLog.id)]
        assert any("taken early" in text for text in texts)
        stored = Incident.get_by_id(incident.id)
        assert stored.next_step == 2
        # The step after it keeps its distance of five minutes.
        assert stored.run_started_at == now + SECOND - 15 * MINUTE


def test_the_next_step_is_not_early_if_another_person_of_the_step_was_notified(world, now, channels):
    use_contacts(world.bob, (PHONE, "bob", 0))
    set_policy(world, (0, world.alice, world.bob), (15, world.charlie), name="Nights")
    refuse_alice(world, channels)
    with relay(utf8=False) as box:
        deliver._runtimes[MAIL].channel = mail_channel(box.port)
        incident = alert_at(world, now)
        send_all(now + SECOND)

    assert Incident.get_by_id(incident.id).next_step == 1


def test_an_acknowledged_incident_has_no_early_step(world, now, channels):
    set_policy(world, (0, world.alice), (15, world.bob), name="Nights")
    incident = alert_at(world, now)
    Incident.update(status=IncidentStatus.ACKNOWLEDGED).where(Incident.id == incident.id).execute()
    Notification.update(state=NotificationStatus.FAILED).execute()

    enqueued = []
    deliver.take_steps_early(Message.get().id, now, enqueued.append)

    assert enqueued == []
