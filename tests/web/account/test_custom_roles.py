"""Custom roles and their assignment."""

import threading

import pytest

from models.store.store import connection
from models.tables.accounts import CustomRole, User
from tests.support.offenders import list_offenders

ROLES = "/api/account/customroles/"


@pytest.fixture
def role(ask) -> str:
    body = {"name": "Reader", "permissions": ["tag_read"]}
    return ask("POST", ROLES, body).json["unique_id"]


def test_permissions_are_stored_as_sent(ask):
    body = {"name": "Reader", "description": "Reads", "permissions": ["tag_read", "sla_read"]}

    made = ask("POST", ROLES, body, scheme="Token").json

    assert made == {"unique_id": made["unique_id"], "name": "Reader", "description": "Reads"}
    assert ask("GET", f"{ROLES}{made['unique_id']}/").json == {
        **made,
        "permissions": ["tag_read", "sla_read"],
    }


WRONG_ROLES = [
    {}, {"name": "x"}, {"permissions": ["root"]}, {"permissions": ["escalation_policy_attach"]},
    {"permissions": "tag_read"}, {"permissions": [None]}, {"permissions": ["tag_read"] * 101},
    {"permissions": [], "name": "x" * 256},
]  # fmt: skip


def test_invalid_roles_are_refused(ask):
    def check(wrong):
        assert ask("POST", ROLES, wrong).status_code == 400
        assert CustomRole.select().count() == 0

    assert list_offenders(check, WRONG_ROLES, str) == []


def test_role_names_are_unique_in_an_account(ask, role):
    body = {"name": "Reader", "permissions": []}
    assert ask("POST", ROLES, body).status_code == 400
    assert ask("POST", ROLES, body, who="mallory").status_code == 201

    other = ask("POST", ROLES, {**body, "name": "Other"}).json["unique_id"]
    assert ask("PATCH", f"{ROLES}{other}/", {"name": "Reader"}).status_code == 400
    assert ask("PATCH", f"{ROLES}{role}/", {"name": "Reader"}).status_code == 200


def test_one_of_two_simultaneous_roles_with_the_same_name_is_refused(ask, app, world):
    start, statuses = threading.Barrier(2), []

    def make():
        headers = {"Authorization": f"Bearer {world.tokens['alice']}"}
        start.wait()
        with connection():
            answer = app.test_client().post(ROLES, json={"name": "Twin", "permissions": []}, headers=headers)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [201, 400]


def test_an_update_keeps_missing_fields(ask, role):
    ask("PUT", f"{ROLES}{role}/", {"permissions": ["sla_read"]})
    ask("PATCH", f"{ROLES}{role}/", {"description": "More"})

    shown = ask("GET", f"{ROLES}{role}/").json
    assert (shown["name"], shown["description"], shown["permissions"]) == ("Reader", "More", ["sla_read"])
    assert ask("PUT", f"{ROLES}{role}/", {"name": "x"}).status_code == 400
    assert ask("PUT", f"{ROLES}{role}/", {"name": "x"}, scheme="Token").status_code == 200


def test_a_role_is_assigned_removed_and_deleted(ask, world, role):
    path = f"/api/account/users/{world.charlie.username}/customroles/"
    tags = f"/api/account/teams/{world.team.unique_id}/tags/"

    assigned = ask("POST", path, {"custom_role": role})
    assert assigned.status_code == 201
    assert assigned.json == {
        "user": world.charlie.username, "custom_role": role, "custom_role_details": {"name": "Reader"},
    }  # fmt: skip
    assert ask("GET", path, who="charlie").json == assigned.json
    assert ask("GET", tags, who="charlie").status_code == 200

    none = {"user": world.charlie.username, "custom_role": None, "custom_role_details": {}}
    for nothing in (None, ""):
        assert ask("POST", path, {"custom_role": role}).json["custom_role"] == role
        assert ask("POST", path, {"custom_role": nothing}).json == none
    assert ask("GET", tags, who="charlie").status_code == 403

    ask("POST", path, {"custom_role": role})
    assert ask("DELETE", f"{ROLES}{role}/").status_code == 204
    assert ask("GET", path).json == none
    assert ask("GET", tags, who="charlie").status_code == 403


@pytest.mark.parametrize(
    "wrong", [{}, {"custom_role": "x"}, {"custom_role": 7}, {"custom_role": []}], ids=str
)
def test_invalid_assignments_are_refused(ask, world, wrong):
    path = f"/api/account/users/{world.charlie.username}/customroles/"

    assert ask("POST", path, wrong).status_code == 400


def test_a_role_of_another_account_is_refused(ask, world):
    theirs = ask("POST", ROLES, {"name": "x", "permissions": []}, who="mallory").json["unique_id"]
    path = f"/api/account/users/{world.charlie.username}/customroles/"

    assert ask("POST", path, {"custom_role": theirs}).status_code == 400
    assert User.get_by_id(world.charlie.id).custom_role is None


def test_a_member_cannot_assign_a_role_to_itself(ask, world, role):
    """This holds also for a member whose custom role has the permission member_write."""
    path = f"/api/account/users/{world.charlie.username}/customroles/"
    CustomRole.update(permissions=["member_write"]).execute()
    ask("POST", path, {"custom_role": role})

    assert ask("POST", path, {"custom_role": role}, who="charlie").status_code == 403
    assert ask("POST", ROLES, {"name": "x", "permissions": []}, who="charlie").status_code == 403
    assert ask("GET", ROLES, who="charlie").status_code == 200
    assert ask("GET", ROLES, who="bob").status_code == 403
