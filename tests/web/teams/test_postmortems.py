"""Postmortems of a team."""

from datetime import timedelta

import pytest

from models.tables.accounts import ConfigVersion, User
from models.tables.incidents import Incident
from models.tables.postmortems import Postmortem, PostmortemIncident
from tests.support.offenders import list_offenders


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/postmortem/"


@pytest.fixture
def incidents(ask, world) -> list[str]:
    """Two incidents of Alice's team."""
    body = {"title": "Disk full", "service": world.service.unique_id}
    return [ask("POST", "/api/incidents/", body).json["unique_id"] for _ in range(2)]


@pytest.fixture
def body(world, incidents) -> dict:
    return {"author": world.bob.username, "incidents": [{"incident": incidents[0]}], "title": "The disk"}


def list_incidents(answer) -> list[str]:
    return [each["incident"] for each in answer.json["incidents"]]


def test_a_postmortem_has_more_fields_in_retrieval_than_in_the_answer_to_a_write(
    ask, path, body, incidents, world
):
    made = ask("POST", path, body)
    read = ask("GET", f"{path}{made.json['unique_id']}/").json

    expected = {
        "author": world.bob.username, "author_name": "Bob", "status": "", "title": "The disk",
        "postmortem_data": "", "download_status": 0,
    }  # fmt: skip
    assert {name: made.json[name] for name in expected} == expected
    assert list_incidents(made) == [incidents[0]]
    shown = {"unique_id": incidents[0], "title": "Disk full", "incident_number": 1}
    incident_id = made.json["incidents"][0]["unique_id"]
    assert read["incidents"] == [{"unique_id": incident_id, "incident": shown}]
    assert read["amazon_link"] is None
    assert read["creation_date"] == read["updated_at"]
    assert ask("GET", path).json == [read]


@pytest.mark.parametrize(
    "form",
    [
        lambda unique_id: unique_id,
        lambda unique_id: {"incident": unique_id},
        lambda unique_id: {"incident": {"unique_id": unique_id, "title": "x", "incident_number": 7}},
    ],
    ids=["id", "named", "whole"],
)
def test_incidents_can_be_given_in_three_forms(ask, path, body, incidents, form):
    body["incidents"] = [form(unique_id) for unique_id in (*incidents, incidents[0])]

    assert list_incidents(ask("POST", path, body)) == incidents


def test_an_incident_that_stays_keeps_its_id(ask, path, body, incidents):
    made = ask("POST", path, body).json
    one = f"{path}{made['unique_id']}/"

    more = ask("PATCH", one, {"incidents": [incidents[1], incidents[0]]})
    assert list_incidents(more) == incidents
    assert more.json["incidents"][0] == made["incidents"][0]

    fewer = ask("PATCH", one, {"incidents": more.json["incidents"][1:]})
    assert fewer.json["incidents"] == more.json["incidents"][1:]
    assert list_incidents(ask("PATCH", one, {"incidents": []})) == []


def test_a_missing_field_stays_unchanged(ask, path, body, incidents, world):
    made = ask("POST", path, {**body, "status": "Pending", "postmortem_data": "<p>x</p>"}).json
    one = f"{path}{made['unique_id']}/"

    assert ask("PATCH", one, {"title": "y"}).json == {**made, "title": "y"}
    required = {"author": world.bob.username, "incidents": made["incidents"]}
    assert ask("PUT", one, required).json == {**made, "title": "y"}
    assert ask("PUT", one, {"title": "z"}).status_code == 400
    assert ask("PUT", one, {"title": "z"}, scheme="Token").json == {**made, "title": "z"}


def test_an_update_sets_its_date(ask, path, body, now):
    one = f"{path}{ask('POST', path, body).json['unique_id']}/"
    Postmortem.update(updated_at=now - timedelta(days=1), creation_date=now - timedelta(days=1)).execute()

    ask("PATCH", one, {"status": "Done"})

    incident_id = Postmortem.get()
    assert incident_id.creation_date == now - timedelta(days=1)
    assert incident_id.updated_at > incident_id.creation_date


WRONG_POSTMORTEMS = [
    {"author": ""}, {"author": "nobody"}, {"author": 7}, {"incidents": "x"}, {"incidents": [7]},
    {"incidents": [{}]}, {"incidents": [""]}, {"incidents": [{"incident": None}]},
    {"incidents": ["2222222222222222222222"]}, {"incidents": [[]]}, {"incidents": ["x"] * 101},
    {"download_status": 5}, {"download_status": -1}, {"title": "x" * 256}, {"postmortem_data": []},
    {"postmortem_data": "x" * (256 * 1024 + 1)},
]  # fmt: skip


def test_an_invalid_postmortem_is_refused(ask, path, body):
    def check(wrong):
        refused = ask("POST", path, {**body, **wrong}, scheme="Token")

        assert refused.status_code == 400
        assert [field.partition(".")[0] for field in refused.json["errors"]] == list(wrong)
        assert Postmortem.select().count() == 0

    assert list_offenders(check, WRONG_POSTMORTEMS, lambda wrong: str(wrong)[:40]) == []


def test_incidents_of_another_team_are_refused(ask, path, body, world):
    theirs = f"/api/account/teams/{world.charlies_team.unique_id}"
    policy = ask("GET", f"{theirs}/escalation_policies/").json[0]["unique_id"]
    service = {"escalation_policy": policy, "sla": "", "team_priority": ""}
    service = ask("POST", f"{theirs}/services/", service).json["unique_id"]
    foreign = ask("POST", "/api/incidents/", {"title": "Theirs", "service": service}).json["unique_id"]

    refused = ask("POST", path, {**body, "incidents": [foreign]}, scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["incidents.0"])


def test_the_author_must_be_a_member_of_the_account(ask, path, body, world, now):
    assert ask("POST", path, {**body, "author": world.mallory.username}).status_code == 400
    assert ask("POST", path, {**body, "author": world.charlie.username}).status_code == 201
    User.update(removed_at=now).where(User.id == world.charlie.id).execute()
    assert ask("POST", path, {**body, "author": world.charlie.username}).status_code == 400


def test_a_refused_update_changes_nothing(ask, path, body, incidents):
    one = f"{path}{ask('POST', path, body).json['unique_id']}/"
    before = ask("GET", one).json

    assert ask("PATCH", one, {"title": "y", "incidents": [incidents[1], "x"]}).status_code == 400
    assert ask("GET", one).json == before


def test_a_deletion_of_a_postmortem_removes_it_from_incidents(ask, path, body):
    one = f"{path}{ask('POST', path, body).json['unique_id']}/"

    assert ask("DELETE", one).status_code == 204
    assert (PostmortemIncident.select().count(), Incident.select().count()) == (0, 2)
    assert ask("GET", one).status_code == 404


def test_a_postmortem_does_not_raise_the_version_of_the_configuration(ask, path, body):
    before = [row.version for row in ConfigVersion.select()]

    one = f"{path}{ask('POST', path, body).json['unique_id']}/"
    ask("PATCH", one, {"title": "y"})
    ask("DELETE", one)

    assert [row.version for row in ConfigVersion.select()] == before
