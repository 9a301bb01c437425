"""What all members of the account may do with objects of a team."""

import pytest

from models.tables.accounts import ConfigVersion
from tests.support.offenders import list_offenders
from web.http.permissions import TEAM_PERMISSIONS


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/permissions/"


def test_permissions_have_the_id_of_the_team(ask, path, world):
    assert ask("GET", path).json == {"unique_id": world.team.unique_id, "account_permissions": []}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_permissions_are_answered_in_their_order_without_duplicates(ask, path, method):
    sent_permissions = ["tag_read", "incident_write", "tag_read", "service_read"]

    answer = ask(method, path, {"unique_id": "ignored", "account_permissions": sent_permissions})

    assert answer.json["account_permissions"] == ["tag_read", "incident_write", "service_read"]
    assert ask("GET", path).json == answer.json


def test_all_permissions_can_be_set_in_one_request(ask, path):
    assert ask("PUT", path, {"account_permissions": list(TEAM_PERMISSIONS)}).json["account_permissions"] == [
        *TEAM_PERMISSIONS
    ]


WRONG_PERMISSIONS = [
    ["tags_read"], ["tag_write"], [""], [None], [7], [["tag_read"]], "tag_read", {"tag_read": True}, 7,
    ["tag_read\x00x"], ["tag_read"] * 101,
]  # fmt: skip


def test_an_unknown_permission_is_refused(ask, path):
    def check(wrong):
        refused = ask("PUT", path, {"account_permissions": wrong}, scheme="Token")

        assert refused.status_code == 400
        assert all(field.startswith("account_permissions") for field in refused.json["errors"])
        assert ask("GET", path).json["account_permissions"] == []

    assert list_offenders(check, WRONG_PERMISSIONS, lambda value: str(value)[:20]) == []


def test_a_put_needs_the_permissions_and_a_patch_does_not(ask, path):
    ask("PUT", path, {"account_permissions": ["tag_read"]})

    assert ask("PUT", path, {}).status_code == 400
    assert ask("PATCH", path, {}).json["account_permissions"] == ["tag_read"]


@pytest.mark.parametrize("nothing", [[], None, ""])
def test_a_team_without_permissions_is_private(ask, path, world, nothing):
    team = f"/api/account/teams/{world.team.unique_id}/"
    ask("PUT", path, {"account_permissions": ["team_read"]})
    assert ask("GET", team).json["private"] is False

    assert ask("PUT", path, {"account_permissions": nothing}).json["account_permissions"] == []
    assert ask("GET", team).json["private"] is True


def test_a_permission_is_effective_immediately_and_until_it_is_removed(ask, path, world):
    tags = f"/api/account/teams/{world.team.unique_id}/tags/"
    assert ask("GET", tags, who="charlie").status_code == 403

    ask("PUT", path, {"account_permissions": ["tag_read"]})
    assert ask("GET", tags, who="charlie").status_code == 200
    assert ask("POST", tags, {"name": "x"}, who="charlie").status_code == 403

    ask("PUT", path, {"account_permissions": []})
    assert ask("GET", tags, who="charlie").status_code == 403


def test_only_managers_change_the_permissions_of_a_team(ask, path):
    everything = {"account_permissions": list(TEAM_PERMISSIONS)}

    for who, status in (("bob", 403), ("charlie", 403), ("mallory", 404)):
        assert ask("PUT", path, everything, who=who).status_code == status
    assert ask("GET", path, who="bob").json["account_permissions"] == []


def test_a_change_raises_the_version_of_the_configuration(ask, path):
    """The permission to attach a policy is configuration that lanes read."""
    before = ConfigVersion.select().order_by(ConfigVersion.id).first().version

    ask("PUT", path, {"account_permissions": ["escalation_policy_attach"]})

    assert ConfigVersion.select().order_by(ConfigVersion.id).first().version == before + 1
