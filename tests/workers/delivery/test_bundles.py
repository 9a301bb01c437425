"""A contact gets a limited number of messages; the rest is in one bundle, and nothing is lost."""

import json
from datetime import timedelta

import pytest

from models.domain.enums import ContactType, IncidentStatus, MessageKind, MessageStatus, NotificationStatus
from models.domain.message_limits import MESSAGE_LIMITS
from models.domain.reasons import make_reason, write_clause
from models.reports.alert_trace import describe_notification
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from tests.support.alerts import accept
from tests.support.delivery.http_channels import HttpChannel, add_channel, add_contact, alert_at, start_inbox
from tests.support.scenarios.bundles import LIMIT, PUSH, deliver_to, inbox
from tests.support.scenarios.timers import set_policy
from workers.alerts import process_lane
from workers.delivery import deliver, fail_over

__all__ = ["deliver_to", "inbox"]

PHONE = ContactType.PHONE
SECOND_CHANNEL = 191
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def list_texts(inbox):
    return [text for _, text in inbox.taken]


def test_what_exceeds_the_limit_is_in_one_bundle(world, now, inbox):
    for number in range(LIMIT.most + 12):
        alert_at(world, now + (number - 60) * SECOND, f"db{number}", f"Disk {number}")
    deliver.send_due(PUSH, now)
    assert len(inbox.taken) == LIMIT.most
    bundle = Message.get(Message.kind == MessageKind.BUNDLE)
    limit = make_reason("message_limit", limit=LIMIT.most, minutes=5)
    assert bundle.outcome == make_reason("not_sent_yet").add(limit)
    assert bundle.next_attempt_at == now + LIMIT.window
    deliver.send_due(PUSH, now + LIMIT.window - SECOND)
    assert len(inbox.taken) == LIMIT.most
    deliver.send_due(PUSH, now + LIMIT.window)

    assert list_texts(inbox)[LIMIT.most :] == ["[Checkout] 12 more incidents: Disk 10, Disk 11, Disk 12"]
    assert {row.state for row in Notification.select()} == {NotificationStatus.SENT}


def test_a_resolve_before_the_bundle_is_sent_cancels_its_notification(world, now, inbox):
    for number in range(LIMIT.most + 2):
        alert_at(world, now + (number - 60) * SECOND, f"db{number}", f"Disk {number}")
    deliver.send_due(PUSH, now)
    last = Incident.select().order_by(Incident.id.desc()).get()
    Incident.update(status=IncidentStatus.RESOLVED).where(Incident.id == last.id).execute()
    deliver.send_due(PUSH, now + LIMIT.window)

    # One is left, so the message is about this one, with its buttons.
    assert list_texts(inbox)[-1].startswith(f"[Checkout] #{LIMIT.most + 1} Disk")
    assert Notification.get(Notification.incident == last).state == NotificationStatus.CANCELLED


@pytest.fixture
def second_inbox(world, monkeypatch):
    """The server of Alice's second contact. Its rule has a delay of an hour."""
    with start_inbox() as second_inbox:
        add_channel(monkeypatch, SECOND_CHANNEL, HttpChannel(second_inbox.url))
        add_contact(world.alice, SECOND_CHANNEL, "b", 60)
        yield second_inbox


def send_both(at):
    deliver.fail_over_late(at)
    for channel in (PUSH, SECOND_CHANNEL):
        deliver.send_due(channel, at)


def get_contact(channel):
    return ContactMethod.get(ContactMethod.contact_type == channel)


def use_up_limit(world, now):
    for number in range(LIMIT.most):
        alert_at(world, now, f"first{number}")
    deliver.send_due(PUSH, now)
    Incident.update(status=IncidentStatus.RESOLVED).execute()


def test_what_a_limit_holds_back_goes_to_the_next_contact_after_a_minute(world, now, inbox, second_inbox):
    use_up_limit(world, now)
    alert_at(world, now + SECOND, "db1", "Disk 1")
    for passed in (1, 30, 60):
        send_both(now + passed * SECOND)
    assert second_inbox.taken == []
    last = Incident.select().order_by(Incident.id.desc()).get()
    held = Notification.get(Notification.incident == last, Notification.contact == get_contact(PUSH))
    expected = "not sent to Alice by test 190 in a bundle yet: the contact got 10 messages within 5 minutes"
    assert describe_notification(held) == expected
    send_both(now + 61 * SECOND)

    (text,) = list_texts(second_inbox)
    assert "Disk 1" in text
    sent = Message.get(Message.channel == SECOND_CHANNEL, Message.state == MessageStatus.SENT)
    why = Notification.get(Notification.message == sent).reason
    assert "has got as many messages as its limit allows" in write_clause(why)
    # The first contact gets its bundle, too, when it may.
    send_both(now + LIMIT.window)
    assert "Disk 1" in list_texts(inbox)[-1]
    assert len(second_inbox.taken) == 1


def test_what_joins_a_bundle_that_was_late_goes_to_the_next_contact_at_once(world, now, inbox, second_inbox):
    use_up_limit(world, now)
    alert_at(world, now, "db1", "Disk 1")
    send_both(now)
    send_both(now + MINUTE)
    assert len(second_inbox.taken) == 1
    at = now + 2 * MINUTE
    alert_at(world, at, "db2", "Disk 2")
    send_both(at)
    send_both(at + SECOND)

    assert Message.select().where(Message.kind == MessageKind.BUNDLE).count() == 1
    assert ["Disk 1" in text for text in list_texts(second_inbox)] == [True, False]
    assert "Disk 2" in list_texts(second_inbox)[1]


def test_a_bundle_of_the_only_contact_waits_and_the_next_person_is_notified_early(world, now, inbox):
    """A mail in place of the bundle would wake nobody."""
    add_contact(world.bob, PUSH, "b")
    set_policy(world, (0, world.alice), (30, world.bob))
    use_up_limit(world, now)
    alert_at(world, now, "db1", "Disk 1")
    for minutes in (0, 1, 2):
        alert_at(world, now + minutes * MINUTE, f"other{minutes}")
        deliver.send_due(PUSH, now + minutes * MINUTE)
        deliver.fail_over_late(now + minutes * MINUTE)
        deliver.send_due(PUSH, now + minutes * MINUTE)

    assert Message.select().where(Message.kind == MessageKind.BUNDLE).count() == 1
    mails = Message.select().where(Message.channel == ContactType.EMAIL)
    assert {row.user for row in mails} == {world.bob}
    assert [path for path, _ in inbox.taken[LIMIT.most :]].count("/b") > 0
    deliver.send_due(PUSH, now + LIMIT.window)
    assert list_texts(inbox)[-1].startswith("[Checkout] 4 more incidents")


def test_of_a_large_bundle_only_the_newest_incidents_go_to_the_next_contact(
    world, now, inbox, second_inbox, monkeypatch
):
    monkeypatch.setattr(fail_over, "BUNDLED_LIMIT", 3)
    for number in range(LIMIT.most + 8):
        alert_at(world, now + (number - 20) * SECOND, f"db{number}", f"Disk {number}")
    send_both(now)
    send_both(now + MINUTE)

    sent = [text.partition("Disk ")[2].split()[0] for text in list_texts(second_inbox)]
    assert sent == [str(LIMIT.most + number) for number in (5, 6, 7)]
    send_both(now + LIMIT.window)
    assert "8 more incidents" in list_texts(inbox)[-1]


def test_a_storm_gives_a_bounded_number_of_messages_and_loses_no_notification(world, now, inbox):
    sent = 0
    for second in range(0, 60, 10):
        names = [
            {"labels": {"alertname": f"Disk {second} {n}"}, "fingerprint": f"{second} {n}"} for n in range(50)
        ]
        for start in range(0, 50, 2):
            items = [{**name, "status": "firing"} for name in names[start : start + 2]]
            accept(
                world, now + second * SECOND, source="prometheus", body=json.dumps({"alerts": items}).encode()
            )
            process_lane.run(world.service.id)
        deliver.send_due(PUSH, now + second * SECOND)
    sent = len(inbox.taken)
    for minute in range(1, 20):
        deliver.send_due(PUSH, now + minute * MINUTE)

    assert (sent, len(inbox.taken)) == (LIMIT.most, LIMIT.most + 1)
    assert Notification.select().count() == 300
    assert {row.state for row in Notification.select()} == {NotificationStatus.SENT}
    delivered = {row.message_id for row in Attempt.select().where(Attempt.outcome == "sent")}
    assert {row.message_id for row in Notification.select()} == delivered


def test_five_thousand_messages_of_one_person_become_eleven(world, now, inbox):
    incident = alert_at(world, now)
    first, message = Notification.get(), Message.get()
    rows = range(5_000)
    Message.insert_many(
        [
            {"message_id": f"m{n}", "account": message.account_id, "user": message.user_id,
             "contact": message.contact_id, "channel": PUSH, "created_at": now, "next_attempt_at": now}
            for n in rows
        ]
    ).execute()  # fmt: skip
    of_name = {row.message_id: row.id for row in Message.select(Message.id, Message.message_id)}
    Notification.insert_many(
        [
            {"key": f"{first.key}:{n}", "incident": incident.id, "user": first.user_id, "kind": first.kind,
             "contact": first.contact_id, "reason": first.reason, "not_before": now,
             "message": of_name[f"m{n}"]}
            for n in rows
        ]
    ).execute()  # fmt: skip
    deliver.send_due(PUSH, now)
    deliver.send_due(PUSH, now + LIMIT.window)

    assert len(inbox.taken) == LIMIT.most + 1
    assert Notification.select().where(Notification.state == NotificationStatus.SENT).count() == 5_001
    assert Message.select().where(Message.state == MessageStatus.PENDING).count() == 0


def test_other_contacts_and_people_have_limits_of_their_own(world, now, inbox):
    other = add_contact(world.alice, PUSH, "b")
    for number in range(LIMIT.most + 1):
        alert_at(world, now, f"db{number}", f"Disk {number}")
    deliver.send_due(PUSH, now)

    paths = [path for path, _ in inbox.taken]
    assert (paths.count("/a"), paths.count("/b")) == (LIMIT.most, LIMIT.most)
    assert {row.contact_id for row in Message.select().where(Message.kind == MessageKind.BUNDLE)} >= {
        other.id
    }


def test_messages_at_the_rate_of_the_limit_are_not_bundled(world, now, inbox):
    for number in range(3 * LIMIT.most):
        at = now + number * LIMIT.window / LIMIT.most
        alert_at(world, at, f"db{number}", f"Disk {number}")
        deliver.send_due(PUSH, at)

    assert len(inbox.taken) == 3 * LIMIT.most
    assert not Message.select().where(Message.kind == MessageKind.BUNDLE).exists()


def test_calls_are_rare_and_programs_get_much():
    counts = {kind: limit.most / (limit.window / MINUTE) for kind, limit in MESSAGE_LIMITS.items()}

    assert min(counts, key=counts.get) == PHONE
    assert max(counts.values()) == 60
