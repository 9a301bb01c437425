"""The timeline of an incident, built from its rows."""

from datetime import timedelta

import pytest

from models.domain.enums import ContactType
from models.reports import alert_trace
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.users import ContactMethod
from tests.support.relays import relay
from tests.support.rules import RuleAction, action, add_rule
from tests.support.scenarios.delivery import deliver_to
from tests.support.scenarios.processed_alerts import process_alert
from web.http.fields import parse_moment
from workers.delivery import deliver
from workers.timers import fire

__all__ = ["deliver_to"]

TIMELINE = "/api/tocsin/incidents/1/timeline/"
SECOND = timedelta(seconds=1)


@pytest.fixture
def read_timeline(ask):
    """read_timeline(): all entries of the timeline."""
    return lambda: ask("GET", f"{TIMELINE}?page_size=100").json["results"]


def test_all_entries_are_listed_in_order(ask, world, now, deliver_to, read_timeline):
    add_rule(world, action(RuleAction.ADD_NOTE, "look at {{entity_id}}"))
    alert = process_alert(world, now)
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(ContactType.EMAIL, now + SECOND)
    ask("PATCH", "/api/incidents/1/", {"status": 2}, who="bob")

    entries = read_timeline()
    assert [(each["kind"], each["what"]) for each in entries] == [
        ("log", "opened"), ("log", "escalated"), ("note", "noted"), ("notification", "sent"),
        ("log", "acknowledged"),
    ]  # fmt: skip
    assert [parse_moment(each["at"]) for each in entries] == sorted(
        parse_moment(each["at"]) for each in entries
    )
    opened, _, noted, sent, acknowledged = entries
    assert opened["actor"] == {"kind": "alert", "name": None, "username": None}
    assert (opened["alert"], opened["trace_id"]) == (alert.unique_id, alert.receipt.trace_id)
    assert (noted["trace_id"], sent["trace_id"], acknowledged["trace_id"]) == (None, None, None)
    assert (noted["reason"], noted["actor"]) == ("look at db1", None)
    assert acknowledged["actor"] == {"kind": "user", "name": "Bob", "username": world.bob.username}
    assert acknowledged["reason"] == "Acknowledged by Bob by the interface."
    assert sent["reason"] == "Named by step 1 of policy Default Escalation Policy."
    notification = sent["notification"]
    assert (notification["person"], notification["channel"], notification["state"]) == (
        "Alice",
        "email",
        "sent",
    )
    assert [(each["outcome"], parse_moment(each["at"])) for each in notification["attempts"]] == [
        ("sent", now + SECOND)
    ]


def test_a_notification_shows_the_person_without_the_address(ask, world, now, deliver_to):
    process_alert(world, now)
    with relay({"RCPT": "550 <alice@example.org> is unknown"}) as box:
        deliver_to(box.port)
        deliver.send_due(ContactType.EMAIL, now + SECOND)

    text = ask("GET", TIMELINE).text
    assert '"refused"' in text
    assert [each.value for each in ContactMethod.select() if each.value in text] == []


def test_a_notification_is_listed_from_its_first_attempt_and_keeps_its_position(
    world, now, deliver_to, read_timeline
):
    process_alert(world, now)
    assert [each for each in read_timeline() if each["kind"] == "notification"] == []

    with relay({"RCPT": "450 later"}) as box:
        deliver_to(box.port)
        deliver.send_due(ContactType.EMAIL, now + SECOND)
    attempt_entry = next(each for each in read_timeline() if each["kind"] == "notification")
    with relay() as box:
        deliver_to(box.port)
        deliver.send_due(ContactType.EMAIL, now + timedelta(minutes=5))
    sent = next(each for each in read_timeline() if each["kind"] == "notification")

    assert (attempt_entry["what"], sent["what"]) == ("pending", "sent")
    assert attempt_entry["notification"]["next_attempt_at"] is not None
    assert parse_moment(attempt_entry["at"]) == parse_moment(sent["at"]) == now + SECOND
    assert [each["outcome"] for each in sent["notification"]["attempts"]] == ["retry", "sent"]


def test_a_cancelled_notification_shows_its_reason(world, now, read_timeline):
    process_alert(world, now)
    process_alert(world, now + timedelta(minutes=1), level="resolved")
    cancelled = next(each for each in read_timeline() if each["kind"] == "notification")

    assert (cancelled["what"], cancelled["notification"]["attempts"]) == ("cancelled", [])
    assert cancelled["notification"]["outcome"] == "An alert (resolved) had resolved the incident."
    assert parse_moment(cancelled["at"]) == now + timedelta(minutes=1, milliseconds=1)


def test_the_actions_of_timers_are_listed(world, now, read_timeline):
    world.service.auto_resolve_timeout = 600
    world.service.save()
    process_alert(world, now)
    fire.fire_due(now + timedelta(minutes=10))

    resolved = next(each for each in read_timeline() if each["what"] == "resolved")
    assert (resolved["actor"]["kind"], parse_moment(resolved["at"])) == ("timer", now + timedelta(minutes=10))


def test_the_timeline_is_listed_page_by_page(ask, world, now):
    process_alert(world, now)
    for number in range(4):
        ask("PATCH", "/api/incidents/1/", {"title": f"Title {number}"})
    full_page = ask("GET", f"{TIMELINE}?page_size=100").json
    pages = [ask("GET", f"{TIMELINE}?page_size=2&page={number}").json for number in (1, 2, 3)]

    assert full_page["count"] == len(full_page["results"]) == 6
    assert [each for page in pages for each in page["results"]] == full_page["results"]
    assert (pages[0]["previous"], pages[2]["next"]) == (None, None)
    assert pages[0]["next"].endswith("/api/tocsin/incidents/1/timeline/?page=2&page_size=2")
    assert ask("GET", f"{TIMELINE}?page_size=2&page=4").status_code == 404


def test_the_alert_trace_shows_the_same_notifications(world, now, read_timeline):
    alert = process_alert(world, now)
    process_alert(world, now + timedelta(minutes=1), level="resolved")
    (incident,) = alert_trace.build_trace(alert.receipt)["incidents"]
    mine = next(each["notification"] for each in read_timeline() if each["kind"] == "notification")

    (theirs,) = incident["deliveries"]
    assert {name: theirs[name] for name in ("person", "kind", "state", "outcome")} == {
        name: mine[name] for name in ("person", "kind", "state", "outcome")
    }
    assert Notification.select().count() == Incident.select().count() == 1
