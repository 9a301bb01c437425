"""The list of incidents: filters, polls, and actions on several incidents."""

import re

import pytest

from bench.servers.plans import collect_statements
from models.domain.enums import IncidentStatus
from models.store.ids import make_uuid
from models.tables.accounts import CustomRole, User
from models.tables.incidents import Incident, IncidentTag
from models.tables.teams import Priority, Tag, TeamMember
from tests.support.schedules.stored import layer
from tests.support.schedules.stored import schedule as add_schedule

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
# The session with its person, and the list.
POLL_STATEMENTS = 2


def get_status(number: int) -> IncidentStatus:
    return IncidentStatus(Incident.get(Incident.incident_number == number).status)


def poll(browser, etag: str):
    return browser.get("/", **{"If-None-Match": etag, "X-Requested-With": "fetch"})


def test_the_title_counts_open_incidents_and_the_newest_is_first(sign_in, open_incident):
    open_incident("Disk full")
    open_incident("Queue long")
    text = sign_in("bob").get("/").text

    assert "<title>(2) Incidents - Tocsin</title>" in text
    assert text.index("Queue long") < text.index("Disk full")


def test_texts_of_senders_are_shown_as_they_are(sign_in, open_incident):
    open_incident(HOSTILE)
    text = sign_in("alice").get("/").text

    assert "<script>alert" not in text
    assert "<img" not in text
    assert "{{7*7}}" in text


def test_an_incident_is_shown_with_service_person_priority_and_tags(sign_in, open_incident, world):
    row = open_incident("Disk full")
    now = row.creation_date
    priority = Priority.create(team=world.team, name="P1", unique_id=make_uuid(), creation_date=now)
    Incident.update(assigned_to=world.alice, team_priority=priority).where(Incident.id == row.id).execute()
    for name in ("database", "night"):
        tag = Tag.create(team=world.team, name=name, unique_id=make_uuid(), creation_date=now)
        IncidentTag.create(incident=row, team_tag=tag, unique_id=make_uuid(), creation_date=now)
    text = sign_in("bob").get("/").text.partition("Disk full")[2]

    places = [text.index(word) for word in (world.service.name, "Alice", "P1", "database", "night")]
    assert all(place > 0 for place in places)
    assert text.index("database") < text.index("night")


def test_the_filter_offers_what_the_person_may_read(sign_in, world):
    for name, expected in (("bob", True), ("charlie", False)):
        text = sign_in(name).get("/").text
        assert (f'<option value="{world.team.unique_id}">' in text) is expected
        assert (f'<option value="{world.service.unique_id}">' in text) is expected


def test_an_unchanged_list_is_answered_with_304_and_two_statements(sign_in, open_incident):
    open_incident()
    browser = sign_in("bob")
    etag = browser.get("/").headers["ETag"]

    with collect_statements() as statements:
        answer = poll(browser, etag)

    assert (answer.status_code, answer.data) == (304, b"")
    assert len(statements) == POLL_STATEMENTS


@pytest.mark.parametrize("act", ["acknowledge", "resolve"])
def test_a_poll_shows_what_somebody_else_did(sign_in, open_incident, act):
    open_incident()
    bob, alice = sign_in("bob"), sign_in("alice")
    etag = bob.get("/").headers["ETag"]
    alice.get("/")
    alice.post("/", act=act, incident="1")

    assert poll(bob, etag).status_code == 200


def test_a_poll_after_the_end_of_the_session_is_401(browser):
    assert browser.get("/incidents/1/", **{"X-Requested-With": "fetch"}).status_code == 401


def test_one_form_acknowledges_many_incidents(sign_in, open_incident):
    for message in ("One", "Two", "Three"):
        open_incident(message)
    browser = sign_in("bob")
    browser.get("/")
    answer = browser.post("/", act="acknowledge", incident=["1", "3"])

    assert answer.headers["Location"].startswith("/?done=2+incidents+acknowledged.&proof=")
    assert "2 incidents acknowledged." in browser.follow().text
    assert [get_status(number).name for number in (1, 2, 3)] == ["ACKNOWLEDGED", "TRIGGERED", "ACKNOWLEDGED"]


def test_the_page_says_how_many_incidents_somebody_else_changed_before(sign_in, open_incident):
    open_incident()
    browser = sign_in("bob")
    browser.get("/")
    browser.post("/", act="acknowledge", incident="1")
    answer = browser.post("/", act="acknowledge", incident="1")

    assert "somebody+else+was+faster%3A+1" in answer.headers["Location"]


def test_incidents_are_merged_into_the_oldest(sign_in, open_incident):
    first, second = open_incident("One"), open_incident("Two")
    browser = sign_in("bob")
    browser.get("/")
    browser.post("/", act="merge", incident=["2", "1"])

    assert Incident.get_by_id(second.id).parent_id == first.id
    assert "1 incident merged into #1." in browser.follow().text


@pytest.mark.parametrize(
    "form", [{}, {"incident": "1"}, {"incident": "1", "act": "explode"}, {"act": "merge"}]
)
def test_a_form_without_sense_is_refused_with_a_reason(sign_in, open_incident, form):
    open_incident()
    browser = sign_in("bob")
    browser.get("/")
    answer = browser.post("/", **form)

    assert answer.status_code == 400
    assert "The incidents were not changed" in answer.text


def test_an_incident_of_another_team_is_not_changed(sign_in, open_incident):
    open_incident()
    browser = sign_in("charlie")
    browser.get("/")

    assert browser.post("/", act="resolve", incident="1").status_code == 404
    assert get_status(1) is IncidentStatus.TRIGGERED


def test_charlie_does_not_see_incidents_of_another_team(sign_in, open_incident):
    open_incident("Secret")

    assert "Secret" not in sign_in("charlie").get("/").text


def test_the_filter_is_in_the_address(sign_in, open_incident, world):
    open_incident("Disk full")
    browser = sign_in("alice")

    assert "Disk full" in browser.get(f"/?status=1&team_ids={world.team.unique_id}").text
    assert "Disk full" not in browser.get("/?status=3").text
    assert "Disk full" not in browser.get(f"/?team_ids={world.charlies_team.unique_id}").text


@pytest.mark.parametrize(
    ("query", "status"), [("status=x", 400), ("from_date=yesterday", 400), ("page=0", 404)]
)
def test_a_wrong_filter_is_refused(sign_in, query, status):
    assert sign_in("alice").get(f"/?{query}").status_code == status


def test_more_incidents_need_no_more_statements(sign_in, open_incident):
    browser = sign_in("alice")

    def count() -> int:
        with collect_statements() as statements:
            assert browser.get("/").status_code == 200
        return len(statements)

    open_incident("First")
    count()
    few = count()
    for number in range(9):
        open_incident(f"Disk {number} full")

    assert count() == few


def test_the_list_shows_level_alerts_and_who_is_next(sign_in, open_incident, world):
    open_incident("Disk full")
    text = sign_in("bob").get("/").text.partition("<tbody>")[2]

    assert '<tr class="critical">' in text
    assert '<td class="alerts number">1</td>' in text
    # Her mail is not sent yet.
    assert re.search(r'<td class="next">\s*(<b>Alice</b>|<span class="bad-text">nobody</span>)', text)


def test_above_the_list_stands_who_is_on_call_and_gaps_come_first(sign_in, world):
    add_schedule(world.team, layer(world.bob, name="Backup"), name="Database")
    add_schedule(world.team, name="Nights")
    strip = sign_in("bob").get("/").text.partition('id="strip"')[2].partition("</ul>")[0]

    assert strip.index("Nobody is on call") < strip.index("Bob")


def test_the_tabs_count_what_is_open(sign_in, open_incident):
    open_incident("One")
    open_incident("Two")
    browser = sign_in("bob")
    browser.get("/")
    browser.post("/", act="acknowledge", incident="1")
    tabs = browser.get("/?status=1").text.partition('id="tabs"')[2].partition("</nav>")[0]

    counts = dict(re.findall(r'>(\w+) <span class="number">(\d+)', tabs))
    assert counts == {"Open": "2", "Triggered": "1", "Acknowledged": "1"}
    assert re.search(r'aria-current="page">Triggered', tabs)


def test_who_may_not_act_gets_no_buttons_and_reads_who_may(sign_in, open_incident, world, now):
    open_incident("Disk full")
    role = CustomRole.create(
        unique_id=make_uuid(), account=world.account, name="Reader", creation_date=now,
        permissions=["incident_read"],
    )  # fmt: skip
    TeamMember.delete().where(TeamMember.user == world.bob).execute()
    User.update(custom_role=role).where(User.id == world.bob.id).execute()
    text = sign_in("bob").get("/").text

    assert "Disk full" in text
    assert "Members of their teams can acknowledge and resolve them." in text
    assert 'name="act"' not in text
    assert "New incident" not in text
