"""Teams and their members."""

import pytest

from models.store.ids import make_uuid
from models.tables.accounts import ConfigVersion, CustomRole, User
from models.tables.teams import EscalationPolicy, Team, TeamMember
from tests.support.offenders import list_offenders

TEAMS = "/api/account/teams/"


@pytest.fixture
def path(world) -> str:
    return f"{TEAMS}{world.team.unique_id}/"


def test_a_new_team_has_its_creator_as_manager_a_role_and_a_policy(ask, world):
    made = ask("POST", TEAMS, {"name": "Search"})

    assert made.status_code == 201
    assert [member["user"]["username"] for member in made.json["members"]] == [world.alice.username]
    assert [role["title"] for role in made.json["roles"]] == ["Incident Commander"]
    assert made.json["private"] is False
    team = Team.get(Team.unique_id == made.json["unique_id"])
    assert EscalationPolicy.select().where(EscalationPolicy.team == team).count() == 1


def test_only_owners_and_admins_create_and_delete_teams(ask, path):
    assert ask("POST", TEAMS, {"name": "Search"}, who="bob").status_code == 403
    assert ask("DELETE", path, who="bob").status_code == 403
    assert ask("DELETE", path).status_code == 204
    assert ask("GET", path).status_code == 404


def test_a_member_sees_own_and_public_teams_and_an_owner_sees_all(ask, world):
    assert [team["name"] for team in ask("GET", TEAMS, who="bob").json] == ["Payments", "Billing"]
    Team.update(account_permissions=[]).execute()
    assert [team["name"] for team in ask("GET", TEAMS, who="bob").json] == ["Payments"]
    assert [team["name"] for team in ask("GET", TEAMS).json] == ["Payments", "Billing"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_put_and_patch_rename_a_team(ask, path, method):
    assert ask(method, path, {"name": "Money"}).json["name"] == "Money"


def test_put_requires_the_name_unless_a_published_client_sends_it(ask, path):
    assert ask("PUT", path, {}).status_code == 400
    assert ask("PUT", path, {}, scheme="Token").status_code == 200
    assert ask("PATCH", path, {}).json["name"] == "Payments"


WRONG_NAMES = ["", " ", "\x00", None, 7, [], "x" * 256]


def test_an_invalid_name_is_refused(ask):
    def check(name):
        refused = ask("POST", TEAMS, {"name": name}, scheme="Token")

        assert refused.status_code == 400
        assert list(refused.json["errors"]) == ["name"]
        assert refused.json["detail"] == "This request can not be processed."

    assert list_offenders(check, WRONG_NAMES) == []


def test_nul_in_a_name_is_removed(ask):
    assert ask("POST", TEAMS, {"name": "a\x00b"}).json["name"] == "ab"


def test_members_are_written_by_username_and_read_as_objects(ask, world, path):
    added = ask("POST", f"{path}members/", {"user": world.charlie.username, "role": "1"})
    member = f"{path}members/{added.json['unique_id']}/"

    assert added.status_code == 201
    assert added.json["user"] == world.charlie.username
    assert ask("GET", member).json["user"]["email"] == "charlie@example.org"
    assert ask("PATCH", member, {"role": 2}).json["role"] == 2
    assert ask("DELETE", member.rstrip("/")).status_code == 204
    assert ask("GET", member).status_code == 404


def test_a_user_cannot_be_added_to_a_team_twice(ask, world, path):
    assert ask("POST", f"{path}members/", {"user": world.bob.username}).status_code == 400
    assert TeamMember.select().where(TeamMember.team == world.team).count() == 2


def test_the_user_of_a_membership_cannot_be_changed(ask, world, path):
    member = TeamMember.get(TeamMember.team == world.team, TeamMember.user == world.bob)
    body = {"user": world.charlie.username, "role": 1}

    assert ask("PUT", f"{path}members/{member.unique_id}/", body).status_code == 400


def test_each_change_raises_the_version_of_the_configuration(ask, world, path):
    def version() -> int:
        return ConfigVersion.get(ConfigVersion.account == world.account).version

    before = version()
    ask("PATCH", path, {"name": "Money"})
    changed = version()
    ask("PATCH", path, {"name": ""})

    assert changed == before + 1
    assert version() == changed


def test_only_managers_and_admins_change_managers(ask, world, now):
    """A custom role with the permission to write members does not make a user a manager."""
    role = CustomRole.create(
        unique_id=make_uuid(),
        account=world.account,
        name="x",
        permissions=["member_write"],
        creation_date=now,
    )
    User.update(custom_role=role).where(User.id == world.charlie.id).execute()
    path = f"/api/account/teams/{world.team.unique_id}/members/"
    alice, bob = (member["unique_id"] for member in ask("GET", path).json)
    made = ask("POST", path, {"user": world.charlie.username}).json["unique_id"]

    for method, one, body in (
        ("PATCH", made, {"role": 1}),
        ("PATCH", bob, {"role": 1}),
        ("PATCH", alice, {"role": 2}),
        ("DELETE", alice, None),
    ):
        assert ask(method, f"{path}{one}/", body, who="charlie").status_code == 403
    assert ask("DELETE", f"{path}{bob}/", who="charlie").status_code == 204
    assert ask("POST", path, {"user": world.bob.username, "role": 1}, who="charlie").status_code == 403
    assert ask("PATCH", f"{path}{made}/", {"role": 1}).status_code == 200
    assert ask("PATCH", f"{path}{alice}/", {"role": 2}, who="charlie").status_code == 200
