"""The filter for incidents, its pages, and the list of all incidents."""

from datetime import timedelta

import pytest

from models.domain.enums import AccountRole
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.tables.incidents import Incident
from models.tables.postmortems import Postmortem, PostmortemIncident
from models.tables.teams import Priority
from tests.support.offenders import list_offenders

FILTER = "/api/incidents/filter/"


@pytest.fixture
def incident(world, now):
    """incident(status=2, ...): a new incident, one minute later than the previous one."""

    def make(**values) -> Incident:
        number = Incident.select().count() + 1
        at = now + timedelta(minutes=number)
        known = {
            "unique_id": make_short_id(), "account": world.account, "incident_number": number,
            "incident_key": make_short_id(), "service": world.service, "team": world.team,
            "title": f"No. {number}", "status": 1, "urgency": 1, "creation_date": at, "run_started_at": at,
        }  # fmt: skip
        return Incident.create(**{**known, **values})

    return make


@pytest.fixture
def list_numbers(ask):
    """list_numbers({"status": 0}): the numbers of the matching incidents."""

    def find(body: dict, **more) -> list[int]:
        answer = ask("POST", FILTER, body, **more)
        assert answer.status_code == 200, answer.json
        return [incident["incident_number"] for incident in answer.json["results"]]

    return find


def test_the_status_is_a_filter_with_the_default_triggered(incident, list_numbers):
    for status in (1, 2, 3):
        incident(status=status)

    assert list_numbers({}) == [1]
    assert [list_numbers({"status": status}) for status in ("-1", 0, 1, 2.0, 3)] == [
        [1, 2],
        [1, 2, 3],
        [1],
        [2],
        [3],
    ]


def test_every_filter_field_limits_the_list(incident, list_numbers, world, now):
    priority = Priority.create(unique_id=make_uuid(), team=world.team, name="Urgent", creation_date=now)
    incident(team_priority=priority, assigned_to=world.bob, escalation_policy=world.policy)
    incident(team=world.charlies_team, service=None)
    only_first = [
        {"team_ids": [world.team.unique_id]},
        {"service_ids": [world.service.unique_id]},
        {"user_ids": [world.bob.username]},
        {"priority_ids": [priority.unique_id]},
        {"priority_name": "uRGENT"},
        {"escalation_policy_ids": [world.policy.unique_id]},
        {"to_date": (now + timedelta(minutes=2)).isoformat()},
        {"all_teams": 0},
    ]
    nothing = [
        {"tag_ids": [make_uuid()]}, {"postmortem_filter": 1}, {"sla_ids": ["x"]}, {"priority_name": "urg%"},
        {"from_date": "2026-03-05"}, {"to_date": "2026-03-04"}, {"team_ids": ["\x00' or 1=1"]},
    ]  # fmt: skip
    no_limit = [
        {"team_ids": []}, {"from_date": [], "to_date": []}, {"from_date": "", "user_ids": None},
        {"postmortem_filter": -1}, {"postmortem_filter": "0"}, {"all_teams": 1}, {"unknown": 1},
        {"from_date": "2026-03-04"}, {"from_date": "2026-03-04T12:00:00"}, {"priority_name": ""},
    ]  # fmt: skip

    assert [body for body in only_first if list_numbers(body) != [1]] == []
    assert [body for body in nothing if list_numbers(body) != []] == []
    assert [body for body in no_limit if list_numbers(body) != [1, 2]] == []


def test_date_limits_are_exclusive(incident, list_numbers, now):
    incident()
    at = (now + timedelta(minutes=1)).isoformat()

    assert list_numbers({"from_date": at}) == list_numbers({"to_date": at}) == []


WRONG = [
    {"status": 4}, {"status": "open"}, {"all_teams": 2}, {"team_ids": "x"}, {"team_ids": [7]},
    {"team_ids": {}}, {"from_date": "tomorrow"}, {"from_date": 5}, {"from_date": ["x"]},
    {"to_date": "0001-01-01T00:00:00+14:00"}, {"postmortem_filter": 2}, [],
]  # fmt: skip


def test_an_invalid_filter_is_refused(ask):
    def check(wrong):
        assert ask("POST", FILTER, wrong).status_code == 400

    assert list_offenders(check, WRONG, str) == []


def test_pages_have_links_and_the_last_page_has_no_next(ask, list_numbers, incident):
    for _ in range(12):
        incident()

    first = ask("POST", FILTER, {}).json
    second = ask("POST", f"{FILTER}?page=2&page_size=10", {}).json

    link = "https://tocsin.example.org/api/incidents/filter/?page={}&page_size=10"
    assert (first["count"], first["previous"], first["next"]) == (None, None, link.format(2))
    assert (second["previous"], second["next"], len(second["results"])) == (link.format(1), None, 2)
    assert ask("POST", f"{FILTER}?page=3", {}).status_code == 404


def test_the_query_overrides_the_body(list_numbers, ask, incident):
    for _ in range(3):
        incident()

    assert list_numbers({"page": 2, "page_size": 2}) == [3]
    first = ask("POST", f"{FILTER}?page=1", {"page": 3, "page_size": "1"}).json["results"]
    assert [incident["incident_number"] for incident in first] == [1]


@pytest.mark.parametrize("page", ["0", "-1", "x", "1.5", "9" * 30, "٢"])
def test_an_invalid_page_is_not_found(ask, page):
    assert ask("POST", f"{FILTER}?page={page}", {}).status_code == 404


def test_a_page_has_at_most_a_hundred_incidents(ask, incident):
    for _ in range(101):
        incident()

    assert len(ask("POST", FILTER, {"page_size": 1000}).json["results"]) == 100
    assert len(ask("POST", FILTER, {"page_size": "x"}).json["results"]) == 10


def test_a_member_sees_the_incidents_of_the_team(incident, list_numbers):
    incident()

    assert list_numbers({}, who="bob") == [1]
    assert list_numbers({}, who="charlie") == []


def test_the_list_of_all_has_a_count_and_accepts_a_body(ask, incident):
    for status in (1, 2, 3):
        incident(status=status)

    listed = ask("GET", "/api/incidents/?page_size=2", {"status": "x", "team_id": 7}, scheme="Token").json

    assert (listed["count"], len(listed["results"])) == (3, 2)
    assert listed["next"] == "https://tocsin.example.org/api/incidents/?page=2&page_size=2"


def test_a_user_without_a_name_is_shown_by_the_start_of_the_address(ask, incident, world, now):
    dora = provisioning.create_user(world.account, "dora@example.org", AccountRole.USER, now)
    incident(assigned_to=dora)

    assert ask("GET", "/api/incidents/1/").json["assigned_to_name"] == "dora"


def test_a_filter_list_has_at_most_a_thousand_values(ask):
    assert ask("POST", FILTER, {"team_ids": ["x"] * 1000}).status_code == 200
    assert ask("POST", FILTER, {"team_ids": ["x"] * 1001}).status_code == 400


def test_incidents_are_filtered_by_postmortem(incident, list_numbers, world, now):
    first = incident()
    incident()
    postmortem = Postmortem.create(
        unique_id=make_uuid(), team=world.team, author=world.bob, creation_date=now, updated_at=now
    )
    PostmortemIncident.create(unique_id=make_uuid(), postmortem=postmortem, incident=first)

    assert [list_numbers({"postmortem_filter": postmortem_filter}) for postmortem_filter in (-1, 0, 1)] == [
        [1, 2],
        [2],
        [1],
    ]


def test_a_priority_of_another_account_matches_no_incident(incident, list_numbers, world, now):
    Priority.create(unique_id=make_uuid(), team=world.mallorys_team, name="P1", creation_date=now)
    incident()

    assert list_numbers({"priority_name": "P1"}) == []


def test_the_list_of_all_accepts_the_filter_names_of_older_clients(ask, incident, world):
    incident(status=2)
    incident(team=world.charlies_team, service=None)

    def list_numbers_of_all(query="", body=None):
        listed = ask("GET", f"/api/incidents/{query}", body, scheme="Token").json
        return [one["incident_number"] for one in listed["results"]]

    team = world.team.unique_id
    assert list_numbers_of_all(body={"status": 2}) == list_numbers_of_all("?status=2") == [1]
    assert (
        list_numbers_of_all(body={"team_id": [team]})
        == list_numbers_of_all(f"?team_ids={team}&team_id={team}")
        == [1]
    )
    assert (
        list_numbers_of_all(body={"page": 2, "page_size": 1})
        == list_numbers_of_all("?page=2&page_size=1")
        == [2]
    )
    assert list_numbers_of_all("?status=x&from_date=y&all_teams=7", {"service_ids": 3}) == [1, 2]


@pytest.mark.parametrize("body", [b"{", b"[1]", b"7", b"null", b'"x"', b"<x/>", b"\xff"])
def test_the_list_of_all_accepts_any_body(ask, body):
    headers = {"Content-Type": "application/json"}

    assert ask("GET", "/api/incidents/", data=body, headers=headers).status_code == 200
