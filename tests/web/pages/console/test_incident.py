"""The page of one incident: what it shows, its actions, and what happens if somebody else is faster."""

import itertools
import re
from html import unescape

import pytest

from models.domain.enums import IncidentStatus
from models.store.ids import make_uuid
from models.tables.incidents import Incident, IncidentNote, IncidentResponder, IncidentTag, IncidentTask
from models.tables.teams import IncidentRole, Tag
from tests.support.offenders import list_offenders

PATH = "/incidents/1/"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"


def read_seen(page) -> str:
    """Return what the page says that it shows, as its forms send it."""
    return unescape(re.search(r'name="seen" value="([^"]*)"', page.text)[1])


def load() -> Incident:
    return Incident.get(Incident.incident_number == 1)


@pytest.fixture
def browser(sign_in, open_incident):
    """Alice's browser with the page of an open incident."""
    open_incident(
        payload={"labels": {"host": "db1"}},
        urls=[{"link_url": "https://runbook.example.org/disk", "link_text": "Runbook"}],
    )
    found = sign_in("alice")
    found.get(PATH)
    return found


def test_the_page_shows_alerts_timeline_and_who_is_notified(browser):
    for words in (
        "Disk full on db1", "Checkout", "host: db1", "https://runbook.example.org/disk", "triggered",
        "Escalation step 1", "/why/", "Acknowledge", "Resolve",
    ):  # fmt: skip
        assert words in browser.last.text


@pytest.mark.parametrize(
    ("act", "status"), [("acknowledge", IncidentStatus.ACKNOWLEDGED), ("resolve", IncidentStatus.RESOLVED)]
)
def test_a_button_changes_the_status_in_the_name_of_the_person(browser, act, status):
    answer = browser.post(PATH, act=act, seen=read_seen(browser.last))

    assert answer.status_code == 303
    assert load().status == status
    assert f"{act.capitalize()}d by Alice on a page of Tocsin." in browser.follow().text


def test_a_second_click_changes_nothing_and_shows_both_versions(browser):
    seen = read_seen(browser.last)
    browser.post(PATH, act="acknowledge", seen=seen)
    answer = browser.post(PATH, act="acknowledge", seen=seen)

    assert answer.status_code == 409
    assert "triggered</td><td><b>acknowledged</b>" in answer.text
    assert "Do it anyway" not in answer.text


def test_somebody_else_was_faster_and_the_page_shows_both_versions(browser, sign_in):
    seen = read_seen(browser.last)
    bob = sign_in("bob")
    bob.get(PATH)
    bob.post(PATH, act="edit", title="Disk of db1 is full", summary="", urgency="1", seen=read_seen(bob.last))
    answer = browser.post(PATH, act="edit", title="Disk", summary="", urgency="1", seen=seen)

    assert answer.status_code == 409
    assert "Disk full on db1</td><td><b>Disk of db1 is full</b>" in answer.text
    assert load().title == "Disk of db1 is full"


def test_the_person_can_do_it_anyway(browser, sign_in):
    seen = read_seen(browser.last)
    bob = sign_in("bob")
    bob.get(PATH)
    bob.post(PATH, act="acknowledge")
    page = browser.post(PATH, act="edit", title="Disk", summary="", urgency="1", seen=seen)
    browser.post(PATH, act="edit", title="Disk", summary="", urgency="1", seen=read_seen(page))

    assert load().title == "Disk"


def test_a_note_needs_no_present_version(browser, sign_in):
    sign_in("bob").post(PATH, act="acknowledge")
    browser.post(PATH, act="note", note=HOSTILE, seen=read_seen(browser.last))
    text = browser.follow().text

    assert IncidentNote.get().note == HOSTILE
    note = browser.get(PATH).text.partition('id="notes-head"')[2]
    assert "&middot; Alice</p>" in note
    assert "<script>alert" not in text
    assert "<img" not in text


def test_somebody_else_is_paged(browser, world):
    answer = browser.post(PATH, act="page", target=f"person:{world.bob.username}", message="Please help")

    assert "notifies" in answer.headers["Location"]
    assert IncidentResponder.get().user_id == world.bob.id


def test_the_incident_is_reassigned(browser, world):
    browser.post(PATH, act="reassign", target=f"person:{world.bob.username}", reason="On site")

    assert load().assigned_to_id == world.bob.id


def test_an_acknowledged_incident_is_snoozed_and_the_snooze_ends(browser):
    browser.post(PATH, act="acknowledge")
    browser.post(PATH, act="snooze", minutes="60")
    assert load().snoozed_till is not None

    browser.post(PATH, act="unsnooze")
    assert load().snoozed_till is None


def test_a_triggered_incident_cannot_be_snoozed(browser):
    answer = browser.post(PATH, act="snooze", minutes="60")

    assert answer.status_code == 400
    assert "The incident was not changed" in answer.text


def test_tags_are_added_and_removed(browser, world, now):
    tag = Tag.create(unique_id=make_uuid(), team=world.team, name="database", color="red", creation_date=now)
    browser.post(PATH, act="tag", team_tag=tag.unique_id)
    assert "database" in browser.follow().text

    browser.post(PATH, act="untag", row=IncidentTag.get().unique_id)
    assert IncidentTag.select().count() == 0


def test_tasks_are_added_and_done(browser):
    browser.post(PATH, act="task", title="Free some space")
    browser.post(PATH, act="task_status", row=IncidentTask.get().unique_id, status="2")

    assert IncidentTask.get().status == 2


def test_a_role_is_given_and_ends(browser, world):
    role = IncidentRole.get(IncidentRole.team == world.team)
    browser.post(PATH, act="role", role=role.unique_id, user=world.bob.username)

    assert f"{role.title}: Bob" in browser.follow().text


def test_incidents_are_merged_and_separated(browser, open_incident):
    second = open_incident("Two")
    browser.post(PATH, act="merge", incidents="#2")
    assert Incident.get_by_id(second.id).parent_id == load().id

    browser.post(PATH, act="unmerge", incidents="2")
    assert Incident.get_by_id(second.id).parent_id is None


WITHOUT_SENSE = [
    {}, {"act": "explode"}, {"act": "note"}, {"act": "page"}, {"act": "page", "target": "person:x"},
    {"act": "snooze", "minutes": "-1"}, {"act": "merge", "incidents": "1"}, {"act": "edit", "title": ""},
    {"act": "edit", "title": "x", "urgency": "9"}, {"act": "tag", "team_tag": "x"},
]  # fmt: skip


def test_a_form_without_sense_is_refused_with_a_reason(browser):
    def check(form):
        answer = browser.post(PATH, **form)

        assert answer.status_code == 400
        assert "The incident was not changed" in answer.text
        assert load().title == "Disk full on db1"

    assert list_offenders(check, WITHOUT_SENSE, str) == []


@pytest.mark.parametrize("seen", ["", "{", "[]", "x" * 20_000])
def test_a_broken_version_is_no_version(browser, seen):
    assert browser.post(PATH, act="acknowledge", seen=seen).status_code == 303


def test_an_expired_session_leads_back_to_the_page_of_the_form(browser):
    browser.client.set_cookie("__Host-tocsin-session", "ended", domain="tocsin.example.org", secure=True)
    answer = browser.post(PATH, csrf="x", act="acknowledge", back=PATH)

    assert answer.headers["Location"] == "/sign-in/?next=/incidents/1/"
    assert load().status == IncidentStatus.TRIGGERED


def test_an_unchanged_incident_is_answered_with_304(browser):
    etag = browser.get(PATH).headers["ETag"]
    assert browser.get(PATH, **{"If-None-Match": etag}).status_code == 304

    browser.post(PATH, act="note", note="Looking")
    assert browser.get(PATH, **{"If-None-Match": etag}).status_code == 200


def test_an_incident_is_opened_by_hand(browser, world):
    answer = browser.post("/incidents/new/", service=world.service.unique_id, title="By hand", urgency="1")

    assert answer.headers["Location"] == "/incidents/2/"
    assert "By hand" in browser.follow().text


def test_a_new_incident_without_a_title_is_refused_and_keeps_the_form(browser, world):
    answer = browser.post("/incidents/new/", service=world.service.unique_id, summary="Much text")

    assert answer.status_code == 400
    assert 'name="title" value="" required aria-invalid="true"><span class="at-field">' in answer.text
    assert "Much text" in answer.text


@pytest.mark.parametrize("value", ["[" * 1_000 + "]" * 1_000, "5", "{}"])
def test_what_a_form_has_seen_can_be_anything(browser, value):
    seen = f'{{"Status": {value}, "Title": {value}}}'
    answer = browser.post(PATH, act="edit", title="Disk", seen=seen)

    assert answer.status_code in (303, 409)


PATHS = ["/", "/incidents/1/", "/incidents/1/postmortem/", "/why/", "/mine/"]
PROOFS = ["", "&proof=", "&proof=" + "0" * 32, "&proof=%C3%A9"]


def test_a_page_says_only_what_this_session_has_done(browser):
    def check(case):
        path, proof = case
        page = browser.get(f"{path}?done=Call+555-0100+for+help{proof}")

        assert page.status_code == 200
        assert "555-0100" not in page.text

    assert list_offenders(check, itertools.product(PATHS, PROOFS)) == []


def test_the_proof_of_another_text_or_session_is_none(browser, sign_in):
    browser.post(PATH, act="note", note="Looking")
    address = browser.last.headers["Location"]

    assert "The note was added." in browser.follow().text
    assert "The task was added." not in browser.get(address.replace("note", "task")).text
    assert "The note was added." not in sign_in("bob").get(address).text


def test_the_timeline_has_the_text_of_a_note(browser):
    browser.post(PATH, act="note", note="Looks like <b>the backup</b>", seen=read_seen(browser.last))
    timeline = browser.follow().text.partition('id="timeline"')[2].partition("</section>")[0]

    assert "Alice noted:" in timeline
    assert "Looks like &lt;b&gt;the backup&lt;/b&gt;" in timeline


def test_a_refused_form_comes_back_as_it_was_filled_in_with_the_text_beside_the_field(browser):
    text = browser.post(PATH, act="edit", title="", summary="The disk is <old>", urgency="0").text
    form = text.partition('id="d-edit" open')[2].partition("</details>")[0]

    assert 'name="title" value="" required aria-invalid="true"><span class="at-field">' in form
    assert "The disk is &lt;old&gt;" in form
    assert '<option value="0" selected>low' in form
    # Another form of the page has a field of the same name.
    assert text.count('aria-invalid="true"') == 1
