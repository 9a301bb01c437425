"""Tags of a team, and the incidents with these tags."""

from datetime import timedelta

import pytest

from models.store.ids import make_short_id, make_uuid
from models.tables.incidents import Incident, IncidentTag
from models.tables.teams import Tag

FILTER = "/api/incidents/filter/"


@pytest.fixture
def tags(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/tags/"


@pytest.fixture
def create_tagged(world, now):
    """create_tagged(1, tag, ...): incident number 1 with these tags, added in this order."""

    def make(number: int, *tags_given: Tag) -> Incident:
        incident = Incident.create(
            unique_id=make_short_id(), account=world.account, incident_number=number,
            incident_key=make_short_id(), service=world.service, team=world.team, title="Disk", status=1,
            urgency=1, creation_date=now + timedelta(minutes=number), run_started_at=now,
        )  # fmt: skip
        for place, tag in enumerate(tags_given):
            at = now + timedelta(seconds=place)
            IncidentTag.create(unique_id=make_uuid(), incident=incident, team_tag=tag, creation_date=at)
        return incident

    return make


def create_tag(world, now, name="database", color="red") -> Tag:
    return Tag.create(unique_id=make_uuid(), team=world.team, name=name, color=color, creation_date=now)


def test_a_tag_is_created_changed_and_deleted(ask, tags):
    made = ask("POST", tags, {"name": "database", "color": "geekblue", "team": "ignored"}).json
    one = f"{tags}{made['unique_id']}/"

    assert (made["name"], made["color"]) == ("database", "geekblue")
    assert ask("PUT", one, {"color": "red"}).json == {**made, "color": "red"}
    assert ask("PATCH", one, {"name": "storage"}).json["name"] == "storage"
    assert [each["unique_id"] for each in ask("GET", tags).json] == [made["unique_id"]]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


def test_the_team_of_a_tag_is_a_number_except_for_published_clients(ask, tags, world):
    made = ask("POST", tags, {"name": "x"}, scheme="Token").json

    assert isinstance(made["team"], int)
    assert isinstance(ask("GET", tags).json[0]["team"], int)
    assert ask("GET", tags, scheme="Token").json[0]["team"] == world.team.unique_id


def test_an_incident_shows_its_tags_oldest_first(ask, world, now, create_tagged):
    first, second = create_tag(world, now), create_tag(world, now, "network", "blue")
    create_tagged(1, first, second)

    shown = ask("GET", "/api/incidents/1/").json["tags"]

    mark = IncidentTag.get(IncidentTag.team_tag == first)
    assert [each["name"] for each in shown] == ["database", "network"]
    assert shown[0] == {
        "unique_id": mark.unique_id,
        "incident": 1,
        "team_tag": first.unique_id,
        "tag_id": first.unique_id,
        "name": "database",
        "color": "red",
        "creation_date": "2026-03-04T12:00:00.000000Z",
    }


def test_lists_of_incidents_show_tags(ask, world, now, create_tagged):
    tag = create_tag(world, now)
    create_tagged(1)
    create_tagged(2, tag)

    for answer in (ask("POST", FILTER, {}), ask("GET", "/api/incidents/")):
        shown = [[each["name"] for each in one["tags"]] for one in answer.json["results"]]
        assert shown == [[], ["database"]]


def test_incidents_are_found_by_any_of_their_tags(ask, world, now, create_tagged):
    first, second = create_tag(world, now), create_tag(world, now)
    create_tagged(1, first)
    create_tagged(2, first, second)
    create_tagged(3, second)
    create_tagged(4)

    def list_found(*ids: str) -> list[int]:
        body = ask("POST", FILTER, {"tag_ids": list(ids)}).json
        return [one["incident_number"] for one in body["results"]]

    assert list_found(first.unique_id) == [1, 2]
    assert list_found(second.unique_id, first.unique_id) == [1, 2, 3]
    assert list_found() == [1, 2, 3, 4]
    assert list_found(make_uuid(), "x") == []


def test_a_deletion_of_a_tag_removes_it_from_incidents(ask, tags, world, now, create_tagged):
    create_tagged(1, create_tag(world, now))

    assert ask("DELETE", f"{tags}{Tag.get().unique_id}/").status_code == 204
    assert ask("GET", "/api/incidents/1/").json["tags"] == []
