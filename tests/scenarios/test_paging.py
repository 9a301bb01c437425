"""Timelines of a night from the view of the person on call."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from models.tables.services import Service
from models.tables.users import NotificationRule
from runtime.settings import load
from tests.support.rules import RuleAction, action, add_rule
from tests.support.scenarios.timers import set_policy
from tests.support.web.apps import get_app

BERLIN = ZoneInfo("Europe/Berlin")


def test_the_next_step_notifies_if_nobody_acknowledges(timeline, world):
    set_policy(world, (0, world.alice), (10, world.bob))
    timeline.alert("Disk full on db1")
    assert timeline.mails() == [("alice", "[Checkout] #1 Disk full on db1 (critical)")]

    timeline.after(minutes=9, seconds=59)
    assert timeline.mails() == []

    timeline.after(seconds=1)
    assert timeline.mails() == [("bob", "[Checkout] #1 Disk full on db1 (critical)")]


def test_a_repeated_alert_notifies_nobody_twice(timeline, world):
    for _ in range(10):
        timeline.alert("Disk full on db1")
        timeline.after(minutes=1)

    assert timeline.mails() == [("alice", "[Checkout] #1 Disk full on db1 (critical)")]


def test_a_resolve_before_the_second_step_cancels_the_step(timeline, world):
    set_policy(world, (0, world.alice), (10, world.bob))
    timeline.alert("Disk full on db1")
    timeline.after(minutes=5)
    timeline.alert("Disk full on db1", "resolved")
    timeline.after(hours=5)

    assert timeline.mails() == [
        ("alice", "[Checkout] #1 Disk full on db1 (critical)"),
        ("alice", "[Checkout] #1 Disk full on db1 (critical): resolved after 5 min"),
    ]
    assert timeline.incident().status == 3


def test_an_acknowledgement_by_link_stops_the_escalation(timeline, world, home):
    set_policy(world, (0, world.alice), (10, world.bob))
    # The web page uses the real time of this machine.
    timeline.now = datetime.now(UTC)
    timeline.alert("Disk full on db1")
    client = get_app(load({"TOCSIN_HOME": str(home)})).test_client()
    client.get(timeline.link())
    assert timeline.incident().status == 1

    client.post(timeline.link(), data={"act": "acknowledge"})
    timeline.after(hours=5)

    assert [person for person, _ in timeline.mails()] == ["alice"]
    assert (timeline.incident().status, timeline.incident().assigned_to) == (2, world.alice)


def test_an_acknowledgement_that_times_out_restarts_the_escalation(timeline, world):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=1800).execute()
    timeline.alert("Disk full on db1")
    timeline.after(minutes=1)
    timeline.alert("on it", "acknowledged")
    timeline.after(minutes=29)
    assert [person for person, _ in timeline.mails()] == ["alice"]

    timeline.after(minutes=1)
    assert [person for person, _ in timeline.mails()] == ["alice"]


def test_a_delayed_notification_is_cancelled_by_an_acknowledgement(timeline, world):
    NotificationRule.update(start_delay=15).where(NotificationRule.user == world.alice).execute()
    timeline.alert("Disk full on db1", entity="db1")
    timeline.alert("Disk full on db2", entity="db2")
    timeline.after(minutes=5)
    timeline.alert("on it", "acknowledged", entity="db1")
    timeline.after(minutes=10)

    assert timeline.mails() == [("alice", "[Checkout] #2 Disk full on db2 (critical)")]


@pytest.mark.parametrize(
    "begin",
    [
        datetime(2026, 3, 29, 1, 55, tzinfo=BERLIN),
        datetime(2026, 10, 25, 2, 55, tzinfo=BERLIN),
        datetime(2026, 6, 1, 2, 55, tzinfo=BERLIN),
    ],
    ids=["clocks go forward", "clocks go back", "an ordinary night"],
)
def test_delays_count_elapsed_time_over_clock_changes(timeline, world, begin):
    set_policy(world, (0, world.alice), (10, world.bob), (75, world.alice))
    timeline.now = begin.astimezone(UTC)
    timeline.alert("Disk full on db1")
    received = {0: timeline.mails()}
    for minute in range(1, 120):
        timeline.after(minutes=1)
        received[minute] = timeline.mails()

    assert {minute: mails[0][0] for minute, mails in received.items() if mails} == {
        0: "alice",
        10: "bob",
        75: "alice",
    }


def test_each_person_is_notified_once_after_an_outage_of_a_night(timeline, world):
    set_policy(world, (0, world.alice), (10, world.bob), (20, world.alice, world.bob), repeat_policy=2)
    timeline.box.mails.clear()
    timeline.alert("Disk full on db1")
    assert [person for person, _ in timeline.mails()] == ["alice"]

    # No process runs for eight hours; then one pass finds everything overdue.
    timeline.now = timeline.now.replace(hour=20)
    timeline._run_due()

    assert sorted(person for person, _ in timeline.mails()) == ["alice", "bob"]


HOSTILE = [
    "NUL \x00 and BEL \x07 in db1",
    "lines\r\nBcc: everybody@example.org\r\n\r\nin db1",
    "\u202etxet sdrawkcab\u2066 in db1\u200f",
    "x" * 65536,
    "caf\u00e9 \U0001f525 \u6f22\u5b57 on db1",
    "{{7*7}} %s %(x)s <script>alert(1)</script> ${jndi}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=["nul", "header", "bidi", "64 KiB", "beyond ASCII", "code"])
def test_an_unusual_alert_still_notifies(timeline, text):
    timeline.alert(text, summary=text)

    ((address, mail),) = timeline.box.mails
    assert address == "alice@example.org"
    assert mail["Bcc"] is None
    assert str(mail["Subject"]).strip().startswith("[Checkout] #1 ")
    content = mail.get_content()
    assert not set("\x00\x07\u202e\u2066\u200f") & set(content)
    assert "https://tocsin.example.org/i/" in content


def test_the_delay_of_a_rule_also_delays_later_steps(timeline, world):
    """Contract 4.2: the run starts later, and the second step acts ten minutes after that start."""
    set_policy(world, (0, world.alice), (10, world.bob))
    add_rule(world, action(RuleAction.DELAY_NOTIFICATIONS, value="300"))
    timeline.alert("Disk full on db1")

    timeline.after(minutes=4, seconds=59)
    assert timeline.mails() == []
    timeline.after(seconds=1)
    assert [person for person, _ in timeline.mails()] == ["alice"]
    timeline.after(minutes=9, seconds=59)
    assert timeline.mails() == []
    timeline.after(seconds=1)
    assert [person for person, _ in timeline.mails()] == ["bob"]
