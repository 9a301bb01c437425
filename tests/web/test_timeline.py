"""The history of an incident, from what its rows say."""

from datetime import timedelta

import pytest

from models import recorder
from models.enums import ContactType, RuleAction
from models.incidents import Incident
from models.notices import Notice
from models.users import ContactMethod
from tests.relays import relay
from tests.rules import action, add_rule
from tests.workers.test_deliver import posted
from tests.workers.test_rules import come
from web.shapes import moment
from workers import deliver, timers

__all__ = ["posted"]

TIMELINE = "/api/tocsin/incidents/1/timeline/"
SECOND = timedelta(seconds=1)


@pytest.fixture
def told(ask):
    """told(): the whole history."""
    return lambda: ask("GET", f"{TIMELINE}?page_size=100").json["results"]


def test_all_that_happened_is_told_in_order(ask, world, now, posted, told):
    add_rule(world, action(RuleAction.ADD_NOTE, "look at {{entity_id}}"))
    alert = come(world, now)
    with relay() as box:
        posted(box.port)
        deliver.drain(ContactType.EMAIL, now + SECOND)
    ask("PATCH", "/api/incidents/1/", {"status": 2}, who="bob")

    entries = told()
    assert [(each["kind"], each["what"]) for each in entries] == [
        ("log", "opened"), ("log", "escalated"), ("note", "noted"), ("notice", "sent"),
        ("log", "acknowledged"),
    ]  # fmt: skip
    assert [moment(each["at"]) for each in entries] == sorted(moment(each["at"]) for each in entries)
    opened, _, noted, sent, acknowledged = entries
    assert opened["actor"] == {"kind": "alert", "name": None, "username": None}
    assert opened["alert"] == alert.unique_id
    assert (noted["reason"], noted["actor"]) == ("look at db1", None)
    assert acknowledged["actor"] == {"kind": "user", "name": "Bob", "username": world.bob.username}
    assert sent["reason"].startswith("named by step 1")
    notice = sent["notice"]
    assert (notice["person"], notice["channel"], notice["state"]) == ("Alice", "email", "sent")
    assert [(each["outcome"], moment(each["at"])) for each in notice["attempts"]] == [("sent", now + SECOND)]


def test_who_was_told_is_there_and_where_is_not(ask, world, now, posted):
    come(world, now)
    with relay({"RCPT": "550 <alice@example.org> is unknown"}) as box:
        posted(box.port)
        deliver.drain(ContactType.EMAIL, now + SECOND)

    text = ask("GET", TIMELINE).text
    assert '"refused"' in text
    assert [each.value for each in ContactMethod.select() if each.value in text] == []


def test_a_notice_is_history_once_it_was_tried_and_keeps_its_place(world, now, posted, told):
    come(world, now)
    assert [each for each in told() if each["kind"] == "notice"] == []

    with relay({"RCPT": "450 later"}) as box:
        posted(box.port)
        deliver.drain(ContactType.EMAIL, now + SECOND)
    tried = next(each for each in told() if each["kind"] == "notice")
    with relay() as box:
        posted(box.port)
        deliver.drain(ContactType.EMAIL, now + timedelta(minutes=5))
    sent = next(each for each in told() if each["kind"] == "notice")

    assert (tried["what"], sent["what"]) == ("pending", "sent")
    assert tried["notice"]["next_try"] is not None
    assert moment(tried["at"]) == moment(sent["at"]) == now + SECOND
    assert [each["outcome"] for each in sent["notice"]["attempts"]] == ["retry", "sent"]


def test_a_notice_that_was_owed_no_more_says_why(world, now, told):
    come(world, now)
    come(world, now + timedelta(minutes=1), level="resolved")
    void = next(each for each in told() if each["kind"] == "notice")

    assert (void["what"], void["notice"]["attempts"]) == ("void", [])
    assert void["notice"]["outcome"] == "resolved by alert resolved"
    assert moment(void["at"]) == now + timedelta(minutes=1, milliseconds=1)


def test_what_timers_do_is_told(world, now, told):
    world.service.auto_resolve_timeout = 600
    world.service.save()
    come(world, now)
    timers.run_due(now + timedelta(minutes=10))

    resolved = next(each for each in told() if each["what"] == "resolved")
    assert (resolved["actor"]["kind"], moment(resolved["at"])) == ("timer", now + timedelta(minutes=10))


def test_it_comes_page_by_page(ask, world, now):
    come(world, now)
    for number in range(4):
        ask("PATCH", "/api/incidents/1/", {"title": f"Title {number}"})
    whole = ask("GET", f"{TIMELINE}?page_size=100").json
    pages = [ask("GET", f"{TIMELINE}?page_size=2&page={number}").json for number in (1, 2, 3)]

    assert whole["count"] == len(whole["results"]) == 6
    assert [each for page in pages for each in page["results"]] == whole["results"]
    assert (pages[0]["previous"], pages[2]["next"]) == (None, None)
    assert pages[0]["next"].endswith("/api/tocsin/incidents/1/timeline/?page=2&page_size=2")
    assert ask("GET", f"{TIMELINE}?page_size=2&page=4").status_code == 404


def test_the_recorder_tells_the_same_of_its_notices(world, now, told):
    alert = come(world, now)
    come(world, now + timedelta(minutes=1), level="resolved")
    (incident,) = recorder.story(alert.receipt)["incidents"]
    mine = next(each["notice"] for each in told() if each["kind"] == "notice")

    (theirs,) = incident["deliveries"]
    assert {name: theirs[name] for name in ("person", "kind", "state", "outcome")} == {
        name: mine[name] for name in ("person", "kind", "state", "outcome")
    }
    assert Notice.select().count() == Incident.select().count() == 1
