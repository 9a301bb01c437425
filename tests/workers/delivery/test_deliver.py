"""A pending notification is sent once, and only while its reason applies; each attempt is recorded."""

import hashlib
import json
import threading
from datetime import timedelta

import pytest

from models.domain.effects import Author, ChangeSet
from models.domain.enums import (
    AuthorKind,
    IncidentStatus,
    MessageStatus,
    NotificationKind,
    NotificationStatus,
)
from models.domain.reasons import make_reason
from models.load.lane import lock_incident
from models.load.oncall_config import load_people
from models.store.store import connection
from models.tables.accounts import User
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod, NotificationRule
from models.write.apply import apply
from pipeline import incidents
from runtime.settings import load
from tests.support.alerts import accept
from tests.support.polling import wait_until
from tests.support.relays import hang, relay, start_silent_server
from tests.support.scenarios.delivery import MAIL, alert, channel, deliver_to, move
from tests.support.scenarios.timers import set_policy
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.delivery.outbox import CLAIM, handle_clock_set_back
from workers.delivery.render import render_message
from workers.delivery.transport.relay_gate import PAUSE_S, RelayGate

__all__ = ["deliver_to"]

# The domain of the sender, in the ids of threads.
SENDER = hashlib.blake2b(b"example.org", digest_size=6).hexdigest()


SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
TAKEN = make_reason("smtp_accepted", code=250)


def assign(incident, person, by, now):
    with deliver.store().write_transaction():
        whom = load_people([person.username])[person.username]
        context = lock_incident(incident.id, Author(AuthorKind.USER, by.first_name, user=by.id), now)
        effects = incidents.assign(context, whom)
        apply(ChangeSet(effects=list(effects)))


def list_outcomes():
    return [(one.outcome, one.detail) for one in Attempt.select().order_by(Attempt.id)]


def test_a_message_is_sent_once(world, now, deliver_to):
    with relay() as box:
        deliver_to(box.port)
        incident = alert(world, now)
        for _ in range(3):
            deliver.send_due(MAIL, now)

    ((to, mail),) = box.mails
    notification, message = Notification.get(), Message.get()
    assert to == "alice@example.org"
    assert mail["Subject"] == "[Checkout] #1 Disk full on db1 (critical)"
    assert mail["Message-ID"] == f"<{message.message_id}@example.org>"
    assert "https://tocsin.example.org/i/" in mail.get_content()
    assert mail.get_content().rstrip().endswith(f"\ntrace_id: {Receipt.get().trace_id}")
    assert (message.state, message.attempts, message.claimed_until) == (MessageStatus.SENT, 1, None)
    assert (notification.state, notification.outcome) == (NotificationStatus.SENT, TAKEN)
    assert list_outcomes() == [("sent", TAKEN)]
    assert incident.status == IncidentStatus.TRIGGERED


def send_mails(deliver_to, at):
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, at)
    return [mail for _, mail in box.mails]


def test_a_mail_is_text_and_html_and_belongs_to_the_thread_of_its_incident(world, now, deliver_to):
    incident = alert(world, now, message="<b>Disk</b> full & {{ 7 * 7 }}")
    (mail,) = send_mails(deliver_to, now + SECOND)

    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    assert "&lt;b&gt;Disk&lt;/b&gt; full &amp; {{ 7 * 7 }}" in mail.get_html()
    thread = f"<incident-{incident.unique_id}@{SENDER}.invalid>"
    assert (mail["In-Reply-To"], mail["References"]) == (None, thread)
    assert (mail["Importance"], mail["X-Priority"]) == ("high", "1")


def test_a_mail_names_other_people_who_are_notified(world, now, deliver_to):
    incident = alert(world, now)
    own = Notification.get()
    for person, state in (
        (world.bob, NotificationStatus.SENT),
        (world.charlie, NotificationStatus.CANCELLED),
    ):
        Notification.create(
            key=f"of {person.username}", incident=incident, user=person, kind=own.kind, reason=own.reason,
            not_before=now, message=own.message, state=state,
        )  # fmt: skip
    (mail,) = send_mails(deliver_to, now + SECOND)

    assert "Also notified: Bob" in " ".join(mail.get_body(("plain",)).get_content().split())
    assert "Charlie" not in mail.get_body(("plain",)).get_content()


def test_a_mail_about_low_urgency_is_not_marked(world, now, deliver_to):
    incident = alert(world, now)
    Incident.update(urgency=0).where(Incident.id == incident.id).execute()
    (mail,) = send_mails(deliver_to, now + SECOND)

    assert (mail["Importance"], mail["X-Priority"]) == (None, None)


def test_a_mail_shows_where_the_problem_began_its_links_and_who_is_next(world, now, deliver_to):
    set_policy(world, (0, world.alice), (1, world.bob), name="Nights")
    User.update(time_zone="Europe/Berlin").where(User.id == world.alice.id).execute()
    body = {
        "alerts": [
            {
                "labels": {"alertname": "Disk full", "instance": "db1"},
                "annotations": {"runbook_url": "https://runbook.example.org/disk"},
                "startsAt": "2026-03-04T11:57:00Z",
            }
        ]
    }
    accept(world, now, source="prometheus", body=json.dumps(body).encode())
    process_lane.run(world.service.id)
    (mail,) = send_mails(deliver_to, now)
    text = " ".join(mail.get_content().split())

    for words in (
        "Began: Wed 4 Mar 2026, 12:57:00 CET (Europe/Berlin), by the clock of the source",
        "Received: Wed 4 Mar 2026, 13:00:00 CET (Europe/Berlin)",
        "Next, in 1 min: Bob",
        "instance: db1",
        "Runbook https://runbook.example.org/disk",
    ):
        assert words in text
    assert '<a href="https://runbook.example.org/disk">Runbook</a>' in mail.get_html()


def test_the_statements_of_a_mail_do_not_depend_on_its_incidents(world, now, deliver_to, statements):
    def count(alerts, name):
        items = [{"labels": {"alertname": f"{name} {n}"}, "fingerprint": f"{name}{n}"} for n in range(alerts)]
        accept(world, now, source="prometheus", body=json.dumps({"alerts": items}).encode())
        process_lane.run(world.service.id)
        row = Message.select().order_by(Message.id.desc()).get().id
        with statements() as seen:
            render_message(row, "https://tocsin.example.org", now)
        return len(seen)

    count(2, "first")

    assert count(3, "a") == count(40, "b")
    # A mail about one incident explains it; the configuration is loaded once.
    assert count(1, "c") >= count(1, "d") <= 13


def test_alerts_of_one_request_share_a_message_that_lists_each(world, now, deliver_to):
    with relay() as box:
        deliver_to(box.port)
        alerts = [{"labels": {"alertname": f"Disk {n}"}, "fingerprint": f"db{n}"} for n in range(50)]
        accept(world, now, source="prometheus", body=json.dumps({"alerts": alerts}).encode())
        process_lane.run(world.service.id)
        deliver.send_due(MAIL, now + SECOND)

    ((_, mail),) = box.mails
    assert mail["Subject"].startswith("[Checkout] 50 incidents: Disk 0, Disk 1")
    assert mail.get_content().count("https://tocsin.example.org/i/") == 50
    assert Notification.select().where(Notification.state == NotificationStatus.SENT).count() == 50


def test_a_new_assignee_of_an_acknowledged_incident_is_notified(world, now, deliver_to):
    with relay() as box:
        deliver_to(box.port)
        incident = alert(world, now)
        move(incident, IncidentStatus.ACKNOWLEDGED, world.alice, now)
        assign(incident, world.bob, world.alice, now)
        deliver.send_due(MAIL, now + SECOND)

    assert [to for to, _ in box.mails] == ["bob@example.org"]


def test_a_notification_is_not_sent_before_its_time(world, now, deliver_to):
    alert(world, now)
    Message.update(next_attempt_at=now + 60 * SECOND).execute()
    with relay() as box:
        deliver_to(box.port)
        assert deliver.send_due(MAIL, now + 59 * SECOND) == 0
        assert deliver.send_due(MAIL, now + 60 * SECOND) == 1

    assert len(box.mails) == 1


# --- only notifications that still apply: invariant 8 (design, section 2) --------------------------


@pytest.mark.parametrize("to", [IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED])
def test_a_notification_of_a_changed_incident_is_cancelled(world, now, deliver_to, to):
    with relay() as box:
        deliver_to(box.port)
        move(alert(world, now), to, world.bob, now)
        deliver.send_due(MAIL, now)

    assert box.mails == []
    assert (Notification.get().state, Message.get().state) == (
        NotificationStatus.CANCELLED,
        MessageStatus.CANCELLED,
    )
    assert Notification.get().outcome == make_reason(to.name.lower(), by="Bob")
    assert not Attempt.select().exists()


def test_a_pending_notification_of_a_resolved_incident_is_not_sent(world, now, deliver_to):
    incident = alert(world, now)
    Incident.update(status=IncidentStatus.RESOLVED).where(Incident.id == incident.id).execute()
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert box.mails == []
    assert (Notification.get().state, Notification.get().outcome) == (
        NotificationStatus.CANCELLED,
        make_reason("is_resolved"),
    )


def test_a_message_lists_only_incidents_that_are_still_open(world, now, deliver_to):
    for number in range(3):
        accept(world, now, message=f"Disk {number}", alert_type="critical", entity_id=f"db{number}")
    process_lane.run(world.service.id)
    Incident.update(status=IncidentStatus.ACKNOWLEDGED).where(Incident.title == "Disk 1").execute()
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now + SECOND)

    assert box.mails[0][1]["Subject"] == "[Checkout] 2 incidents: Disk 0, Disk 2"
    assert [n.state for n in Notification.select().order_by(Notification.id)] == [1, 2, 1]


def test_an_incident_resolved_while_connecting_is_not_sent(world, now, deliver_to, monkeypatch):
    incident = alert(world, now)
    with relay() as box:
        runtime = deliver_to(box.port)
        conn = runtime.channel.create_connection()
        opened = conn.open

        def open_slowly() -> bool:
            move(incident, IncidentStatus.RESOLVED, world.bob, now)
            return opened()

        monkeypatch.setattr(deliver, "RENDERED_FOR_S", 0.0)
        monkeypatch.setattr(conn, "open", open_slowly)
        monkeypatch.setattr(runtime.channel, "create_connection", lambda: conn)
        deliver.send_due(MAIL, now)

    assert box.mails == []
    assert Notification.get().outcome == make_reason("resolved", by="Bob")


def test_a_message_is_rendered_once_if_the_connection_opens_at_once(world, now, deliver_to, monkeypatch):
    alert(world, now)
    rendered: list[int] = []

    def render(message: int, *rest):
        rendered.append(message)
        return render_message(message, *rest)

    monkeypatch.setattr(deliver, "render_message", render)
    monkeypatch.setattr(deliver, "RENDERED_FOR_S", 60.0)
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert len(box.mails) == len(rendered) == 1


def test_a_removed_person_gets_no_message(world, now, deliver_to):
    alert(world, now)
    User.update(removed_at=now).where(User.id == world.alice.id).execute()
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert box.mails == []
    assert Notification.get().outcome == make_reason("person_removed")


def test_the_users_own_address_replaces_a_deleted_contact(world, now, deliver_to):
    alert(world, now)
    ContactMethod.delete().where(ContactMethod.user == world.alice).execute()
    User.update(email="alice@example.com").where(User.id == world.alice.id).execute()
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert [to for to, _ in box.mails] == ["alice@example.com"]


# --- relays that refuse messages -------------------------------------------------------------------


def test_a_message_is_retried_after_a_temporary_error(world, now, deliver_to):
    alert(world, now)
    with relay({"RCPT": "451 4.7.1 greylisted"}) as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)
        deliver.send_due(MAIL, now + 4 * SECOND)
        assert (Message.get().state, Message.get().attempts) == (MessageStatus.PENDING, 1)
        assert Notification.get().state == NotificationStatus.PENDING
        box.responses.clear()
        deliver.send_due(MAIL, now + 5 * SECOND)

    assert len(box.mails) == 1
    assert list_outcomes() == [
        ("retry", make_reason("smtp_refuses_recipient", answer="451 4.7.1 greylisted")),
        ("sent", TAKEN),
    ]


def test_a_message_of_an_acknowledged_incident_fails_with_a_reason_after_an_hour(world, now, deliver_to):
    alert(world, now)
    Notification.update(kind=NotificationKind.ASSIGNMENT).execute()
    Incident.update(status=IncidentStatus.ACKNOWLEDGED).execute()
    with relay({"RCPT": "451 later"}) as box:
        deliver_to(box.port)
        for seconds in range(0, 3700, 5):
            deliver.send_due(MAIL, now + seconds * SECOND)

    message = Message.get()
    last = Attempt.select().order_by(Attempt.id.desc()).get()
    assert message.state == MessageStatus.FAILED
    assert last.at - now >= timedelta(minutes=30)
    assert Notification.get().outcome == message.outcome
    refused = make_reason("smtp_refuses_recipient", answer="451 later")
    assert message.outcome == make_reason("given_up", attempts=message.attempts).add(refused)


def test_the_users_own_address_is_notified_if_a_contact_refuses(world, now, deliver_to):
    contacts = ContactMethod.update(value="old@example.org", verified_value="old@example.org", name="Work")
    contacts.where(ContactMethod.user == world.alice).execute()
    alert(world, now)
    with relay({"RCPT old@example.org": "550 5.1.1 unknown"}) as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    first, second = Notification.select().order_by(Notification.id)
    assert [to for to, _ in box.mails] == ["alice@example.org"]
    assert (first.state, second.state) == (NotificationStatus.FAILED, NotificationStatus.SENT)
    refused = make_reason("smtp_refuses_recipient", answer="550 5.1.1 unknown")
    assert first.outcome == refused.add(make_reason("user_email_instead"))
    assert second.reason == first.reason.add(make_reason("refused_elsewhere", contact="Work"))
    assert second.contact is None


def test_two_contacts_that_refuse_notify_the_users_own_address_once(world, now, deliver_to):
    contacts = ContactMethod.update(value="old@example.org", verified_value="old@example.org")
    contacts.where(ContactMethod.user == world.alice).execute()
    other = ContactMethod.create(
        unique_id="c2", user=world.alice, name="Other", contact_type=1, value="older@example.org",
        verified_value="older@example.org",
        creation_date=now,
    )  # fmt: skip
    NotificationRule.create(unique_id="r2", user=world.alice, contact=other, urgency=1, creation_date=now)
    alert(world, now)
    refusing = {"RCPT old@example.org": "550 no", "RCPT older@example.org": "550 no"}
    with relay(refusing) as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now)

    assert [to for to, _ in box.mails] == ["alice@example.org"]


def test_a_notification_without_a_relay_names_the_missing_setting(world, now):
    deliver.configure(load({}))
    alert(world, now)
    deliver.send_due(MAIL, now)

    assert (Notification.get().state, Message.get().state) == (
        NotificationStatus.FAILED,
        MessageStatus.FAILED,
    )
    assert Notification.get().outcome == make_reason("not_configured", problem="set TOCSIN_SMTP_HOST")
    assert not Attempt.select().exists()


# --- workers that are killed, and concurrent workers -----------------------------------------------


def test_a_message_of_a_killed_worker_is_sent_after_its_claim(world, now, deliver_to):
    alert(world, now)
    with relay() as box:
        deliver_to(box.port)
        Message.update(claimed_until=now + CLAIM).execute()
        assert deliver.send_due(MAIL, now + CLAIM - SECOND) == 0
        assert deliver.send_due(MAIL, now + CLAIM) == 1

    assert len(box.mails) == 1


def test_a_message_that_was_sent_but_not_recorded_is_sent_again(world, now, deliver_to, monkeypatch):
    alert(world, now)
    with relay() as box:
        deliver_to(box.port)
        with monkeypatch.context() as patched:
            patched.setattr(deliver, "record_attempt", kill_worker)
            with pytest.raises(KeyboardInterrupt):
                deliver.send_due(MAIL, now)
        deliver.send_due(MAIL, now + CLAIM)

    first, second = (mail["Message-ID"] for _, mail in box.mails)
    assert first == second
    assert Notification.get().state == NotificationStatus.SENT


def kill_worker(*_):
    raise KeyboardInterrupt


def test_many_workers_send_each_message_once(world, now, deliver_to):
    for number in range(20):
        alert(world, now, entity=f"db{number}")
    with relay() as box:
        deliver_to(box.port)
        threads = [threading.Thread(target=drain_once, args=(now,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        deliver.send_due(MAIL, now + SECOND)

    assert len(box.mails) == len({mail["Message-ID"] for _, mail in box.mails}) == 20


def drain_once(now):
    with connection():
        deliver.send_due(MAIL, now + SECOND)


# --- the clock is set (on SQLite, the clock of the host) -------------------------------------------


def test_a_clock_set_forward_does_not_send_a_message_in_flight_twice(world, now, deliver_to, monkeypatch):
    alert(world, now)
    with relay() as box:
        runtime = deliver_to(box.port)
        conn = runtime.channel.create_connection()
        opened = conn.open

        def open_slowly() -> bool:
            monkeypatch.setattr(runtime.channel, "create_connection", channel(box.port).create_connection)
            other = threading.Thread(target=drain_once, args=(now + HOUR,))
            other.start()
            other.join()
            return opened()

        monkeypatch.setattr(conn, "open", open_slowly)
        monkeypatch.setattr(runtime.channel, "create_connection", lambda: conn)
        deliver.send_due(MAIL, now)

    assert len(box.mails) == 1


def test_a_due_message_is_still_due_after_the_clock_was_set_back(world, now, deliver_to):
    alert(world, now)
    with deliver.store().write_transaction():
        handle_clock_set_back(now, now - HOUR)
    with relay() as box:
        deliver_to(box.port)
        assert deliver.send_due(MAIL, now - HOUR) == 1

    assert len(box.mails) == 1


def test_a_later_message_is_not_due_after_the_clock_was_set_back(world, now):
    alert(world, now)
    Message.update(next_attempt_at=now + SECOND).execute()
    with deliver.store().write_transaction():
        handle_clock_set_back(now, now - HOUR)

    assert Message.get().next_attempt_at == now + SECOND


def test_a_claim_expires_in_time_after_the_clock_was_set_back(world, now, deliver_to):
    alert(world, now)
    Message.update(claimed_until=now + CLAIM).execute()
    with deliver.store().write_transaction():
        handle_clock_set_back(now, now - HOUR)
    with relay() as box:
        deliver_to(box.port)
        assert deliver.send_due(MAIL, now - HOUR + CLAIM - SECOND) == 0
        assert deliver.send_due(MAIL, now - HOUR + CLAIM) == 1

    assert len(box.mails) == 1


def test_a_message_that_cannot_be_rendered_does_not_stop_others(world, now, deliver_to, monkeypatch):
    alert(world, now, entity="db1")
    alert(world, now, entity="db2")
    bad = Message.select().order_by(Message.id).get().id
    real = deliver.render_message

    def fail_on_first(row, *rest):
        if row == bad:
            raise ZeroDivisionError
        return real(row, *rest)

    monkeypatch.setattr(deliver, "render_message", fail_on_first)
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(MAIL, now + SECOND)

    assert len(box.mails) == 1
    error = make_reason("internal_error", error="ZeroDivisionError")
    assert Message.get_by_id(bad).outcome == make_reason("not_sent_yet").add(error)


# --- a relay that is down --------------------------------------------------------------------------


def test_all_messages_are_sent_after_a_hanging_relay_is_back(world, now, deliver_to):
    for number in range(6):
        alert(world, now, entity=f"db{number}")
    later, steady = now + SECOND, [0.0]
    with start_silent_server(hang) as dead:
        runtime = deliver_to(dead.port, deadline_s=0.1)
        runtime.gate = RelayGate(clock=lambda: steady[0])
        worked_on = [deliver.send_due(MAIL, later) for _ in range(6)]
        assert worked_on == [1, 1, 1, 0, 0, 0]
        # The server may accept the last connection after the client has left.
        wait_until(lambda: dead.taken == 3)
    with relay() as box:
        runtime.channel = channel(box.port)
        assert deliver.send_due(MAIL, later + 60 * SECOND) == 0
        steady[0] = PAUSE_S
        assert deliver.send_due(MAIL, later + 60 * SECOND) == 6

    assert len(box.mails) == 6
    assert [a.outcome for a in Attempt.select()].count("retry") == 3
    assert Attempt.select().order_by(Attempt.id).get().detail == make_reason("relay_silent", within="0.1")


# --- recovery mails --------------------------------------------------------------------------------


def open_and_resolve(world, now, deliver_to, by):
    incident = alert(world, now)
    send_mails(deliver_to, now)
    move(incident, IncidentStatus.RESOLVED, by, now + 14 * 60 * SECOND)
    return incident


def test_whoever_was_notified_gets_one_mail_when_the_incident_is_resolved(world, now, deliver_to):
    incident = open_and_resolve(world, now, deliver_to, world.bob)
    mails = send_mails(deliver_to, now + HOUR) + send_mails(deliver_to, now + 2 * HOUR)

    (mail,) = mails
    assert mail["Subject"] == "[Checkout] #1 Disk full on db1 (critical)"
    assert mail.get_content().startswith("Resolved after 14 min.")
    assert (mail["To"], mail["Importance"]) == ("alice@example.org", None)
    assert mail["References"] == f"<incident-{incident.unique_id}@{SENDER}.invalid>"
    assert "You:      were notified of the incident\n" in mail.get_content().replace("\r\n", "\n")


def test_who_was_not_notified_gets_no_mail_when_the_incident_is_resolved(world, now, deliver_to):
    move(alert(world, now), IncidentStatus.RESOLVED, world.bob, now)

    assert send_mails(deliver_to, now + HOUR) == []


def test_a_user_can_switch_off_recovery_mails(world, now, deliver_to):
    User.update(recovery_mails=False).where(User.id == world.alice.id).execute()
    open_and_resolve(world, now, deliver_to, world.bob)

    assert send_mails(deliver_to, now + HOUR) == []


def test_a_reopened_incident_cancels_its_recovery_and_has_another_one(world, now, deliver_to):
    incident = open_and_resolve(world, now, deliver_to, world.bob)
    move(incident, IncidentStatus.TRIGGERED, world.bob, now + HOUR)
    again = send_mails(deliver_to, now + HOUR)
    move(incident, IncidentStatus.RESOLVED, world.bob, now + 2 * HOUR)
    end = send_mails(deliver_to, now + 2 * HOUR)

    assert {str(mail["Subject"]) for mail in (*again, *end)} == {"[Checkout] #1 Disk full on db1 (critical)"}
    assert [mail.get_content().startswith("Resolved") for mail in (*again, *end)] == [False, True]


def test_incidents_that_are_resolved_at_once_share_a_recovery_mail(world, now, deliver_to):
    def alert_group(status):
        names = ({"labels": {"alertname": f"Disk {n}"}, "fingerprint": f"{n}"} for n in range(5))
        items = [{**name, "status": status} for name in names]
        accept(world, now, source="prometheus", body=json.dumps({"alerts": items}).encode())
        process_lane.run(world.service.id)
        return send_mails(deliver_to, now + SECOND)

    ((opened,), (resolved,)) = alert_group("firing"), alert_group("resolved")

    assert opened["Subject"].startswith("[Checkout] 5 incidents: ")
    assert resolved["Subject"].startswith("[Checkout] 5 incidents are resolved: ")
