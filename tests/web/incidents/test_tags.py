"""The tags of an incident."""

import pytest

from models.store.ids import make_uuid
from models.store.store import connection
from models.tables.incidents import IncidentTag
from models.tables.teams import Tag
from tests.support.alert_sequences import run_parallel
from tests.support.scenarios.incident_log import list_log_reasons

TAGS = "/api/incidents/1/tags/"


@pytest.fixture
def tag(ask, world, now):
    """A tag of the team; incident 1 exists."""
    ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id})
    return Tag.create(unique_id=make_uuid(), team=world.team, name="database", color="red", creation_date=now)


def test_a_tag_is_added_and_shown_by_its_incident(ask, tag):
    made = ask("POST", TAGS, {"team_tag": tag.unique_id}, who="bob")

    assert made.status_code == 201
    assert (made.json["incident"], made.json["name"], made.json["color"]) == (1, "database", "red")
    assert made.json["team_tag"] == made.json["tag_id"] == tag.unique_id
    assert ask("GET", TAGS).json == ask("GET", "/api/incidents/1/").json["tags"] == [made.json]


def test_a_tag_is_found_by_its_own_id_or_by_that_of_the_teams_tag(ask, tag):
    made = ask("POST", TAGS, {"team_tag": tag.unique_id}).json

    assert ask("GET", f"{TAGS}{tag.unique_id.upper()}/").json == made
    assert ask("GET", f"{TAGS}{made['unique_id']}/").json == made
    assert ask("DELETE", f"{TAGS}{tag.unique_id}/").status_code == 204
    assert ask("GET", f"{TAGS}{made['unique_id']}/").status_code == 404
    assert ask("POST", TAGS, {"team_tag": tag.unique_id}).status_code == 201


def test_the_same_tag_twice_is_refused(ask, tag):
    responses = [ask("POST", TAGS, {"team_tag": tag.unique_id}, scheme="Token") for _ in range(2)]

    assert [answer.status_code for answer in responses] == [201, 400]
    assert responses[1].json["errors"] == {"team_tag": ["The incident already has this tag."]}


def test_one_of_two_concurrent_requests_is_refused(app, world, tag):
    statuses = []

    def add_tag():
        with connection():
            answer = app.test_client().post(
                TAGS,
                json={"team_tag": tag.unique_id},
                headers={"Authorization": f"Bearer {world.tokens['alice']}"},
            )
        statuses.append(answer.status_code)

    run_parallel([add_tag] * 4)

    assert sorted(statuses) == [201, 400, 400, 400]
    assert IncidentTag.select().count() == 1


def test_a_tag_of_another_team_is_refused(ask, tag, world, now):
    other = Tag.create(unique_id=make_uuid(), team=world.charlies_team, name="x", color="", creation_date=now)

    for wrong in (other.unique_id, make_uuid(), "", None, 7, "x"):
        assert ask("POST", TAGS, {"team_tag": wrong}).status_code == 400
    assert ask("POST", TAGS, {}).status_code == 400


def test_the_timeline_has_each_change(ask, tag):
    ask("POST", TAGS, {"team_tag": tag.unique_id}, who="bob")
    ask("DELETE", f"{TAGS}{tag.unique_id}/")

    reasons = [str(reason) for reason in list_log_reasons("tagged")]
    assert reasons == ["Tag database added by Bob.", "Tag database removed by Alice."]


def test_a_tag_is_replaced_by_another_only_once(ask, tag, world, now):
    other = Tag.create(unique_id=make_uuid(), team=world.team, name="disk", color="", creation_date=now)
    made = ask("POST", TAGS, {"team_tag": tag.unique_id}).json

    changed = ask("PATCH", f"{TAGS}{made['unique_id']}/", {"team_tag": other.unique_id}).json
    assert (changed["unique_id"], changed["name"]) == (made["unique_id"], "disk")

    ask("POST", TAGS, {"team_tag": tag.unique_id})
    assert ask("PUT", f"{TAGS}{made['unique_id']}/", {"team_tag": tag.unique_id}).status_code == 400
    assert ask("PATCH", f"{TAGS}{made['unique_id']}/", {}).json == changed
