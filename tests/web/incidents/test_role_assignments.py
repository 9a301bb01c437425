"""People and their roles in an incident."""

import pytest

from models.store.ids import make_uuid
from models.tables.accounts import ConfigVersion
from models.tables.incidents import IncidentAssignment
from models.tables.teams import IncidentRole
from tests.support.offenders import list_offenders

ROLES = "/api/tocsin/incidents/1/roles/"
NO_SUCH_ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def roles(ask, world, now):
    """The IDs of two roles of the team, by title; an incident exists."""
    ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id})
    scribe = IncidentRole.create(unique_id=make_uuid(), team=world.team, title="Scribe", creation_date=now)
    leader = IncidentRole.get(IncidentRole.team == world.team, IncidentRole.title != "Scribe")
    return {"scribe": scribe.unique_id, "leader": leader.unique_id}


@pytest.fixture
def read_role_log(ask):
    """read_role_log(): the entries about roles in the timeline of the incident."""

    def read_log():
        entries = ask("GET", "/api/tocsin/incidents/1/timeline/?page_size=100").json["results"]
        return [each["reason"] for each in entries if each["what"].startswith("role_")]

    return read_log


def test_a_person_gets_a_role(ask, world, roles, read_role_log):
    made = ask("POST", ROLES, {"role": roles["scribe"], "user": world.bob.username})

    assert made.status_code == 201
    assert made.json == {
        "creation_date": made.json["creation_date"],
        "unique_id": made.json["unique_id"],
        "role": roles["scribe"],
        "role_title": "Scribe",
        "user": world.bob.username,
        "user_name": "Bob",
    }
    assert read_role_log() == ["Role Scribe given to Bob by Alice."]


def test_a_second_person_replaces_the_first(ask, world, roles, read_role_log):
    for role, user in (("scribe", "bob"), ("leader", "bob"), ("scribe", "charlie"), ("scribe", "charlie")):
        body = {"role": roles[role], "user": getattr(world, user).username}
        assert ask("POST", ROLES, body).status_code == 201

    assigned = {(each["role_title"], each["user_name"]) for each in ask("GET", ROLES).json}
    assert assigned == {("Scribe", "Charlie"), ("Incident Commander", "Bob")}
    assert read_role_log() == [
        "Role Scribe given to Bob by Alice.",
        "Role Incident Commander given to Bob by Alice.",
        "Role Scribe given to Charlie by Alice.",
    ]


def test_a_role_assignment_is_deleted(ask, world, roles, read_role_log):
    made = ask("POST", ROLES, {"role": roles["scribe"], "user": world.bob.username}).json
    path = f"{ROLES}{made['unique_id']}/"

    assert ask("DELETE", path, who="bob").status_code == 204
    assert ask("DELETE", path).status_code == 404
    assert ask("GET", ROLES).json == []
    assert read_role_log()[-1] == "Role Scribe taken from Bob by Bob."


def test_a_deletion_of_a_role_deletes_its_assignments(ask, world, roles):
    ask("POST", ROLES, {"role": roles["scribe"], "user": world.bob.username})
    IncidentRole.delete().where(IncidentRole.unique_id == roles["scribe"]).execute()

    assert ask("GET", ROLES).json == []


WRONG_ASSIGNMENTS = [
    ("role", {"role": None}), ("role", {"role": ""}), ("role", {"role": NO_SUCH_ID}),
    ("role", {"role": 7}),
    ("user", {"user": ""}), ("user", {"user": "bob"}), ("user", {"user": {"username": None}}),
]  # fmt: skip


def test_an_invalid_role_assignment_is_refused(ask, world, roles):
    def check(case):
        field, wrong = case
        body = {"role": roles["scribe"], "user": world.bob.username, **wrong}
        refused = ask("POST", ROLES, body, scheme="Token")

        assert (refused.status_code, set(refused.json["errors"])) == (400, {field})
        assert not IncidentAssignment.select().exists()

    assert list_offenders(check, WRONG_ASSIGNMENTS) == []


def test_a_removed_user_gets_no_role(ask, world, roles, now):
    world.bob.removed_at = now
    world.bob.save()

    assert ask("POST", ROLES, {"role": roles["scribe"], "user": world.bob.username}).status_code == 400


def test_a_role_assignment_does_not_change_the_configuration(ask, world, roles):
    before = ConfigVersion.get(ConfigVersion.account == world.account).version
    ask("POST", ROLES, {"role": roles["scribe"], "user": world.bob.username})

    assert ConfigVersion.get(ConfigVersion.account == world.account).version == before
