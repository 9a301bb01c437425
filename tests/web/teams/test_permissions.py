"""What a team lets all members of the account do."""

import pytest

from models.tables.accounts import ConfigVersion
from web.http.permissions import TEAM_PERMISSIONS


@pytest.fixture
def path(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/permissions/"


def test_they_go_by_the_teams_own_id(ask, path, world):
    assert ask("GET", path).json == {"unique_id": world.team.unique_id, "account_permissions": []}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_they_are_given_back_as_they_were_given_each_once(ask, path, method):
    sent_permissions = ["tag_read", "incident_write", "tag_read", "service_read"]

    answer = ask(method, path, {"unique_id": "ignored", "account_permissions": sent_permissions})

    assert answer.json["account_permissions"] == ["tag_read", "incident_write", "service_read"]
    assert ask("GET", path).json == answer.json


def test_all_of_them_may_be_given_at_once(ask, path):
    assert ask("PUT", path, {"account_permissions": list(TEAM_PERMISSIONS)}).json["account_permissions"] == [
        *TEAM_PERMISSIONS
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        ["tags_read"], ["tag_write"], [""], [None], [7], [["tag_read"]], "tag_read", {"tag_read": True}, 7,
        ["tag_read\x00x"], ["tag_read"] * 101,
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_other_names_are_refused(ask, path, wrong):
    refused = ask("PUT", path, {"account_permissions": wrong}, scheme="Token")

    assert refused.status_code == 400
    assert all(field.startswith("account_permissions") for field in refused.json["errors"])
    assert ask("GET", path).json["account_permissions"] == []


def test_a_put_says_which_and_a_patch_need_not(ask, path):
    ask("PUT", path, {"account_permissions": ["tag_read"]})

    assert ask("PUT", path, {}).status_code == 400
    assert ask("PATCH", path, {}).json["account_permissions"] == ["tag_read"]


@pytest.mark.parametrize("nothing", [[], None, ""])
def test_a_team_is_private_when_it_lets_nobody_in(ask, path, world, nothing):
    team = f"/api/account/teams/{world.team.unique_id}/"
    ask("PUT", path, {"account_permissions": ["team_read"]})
    assert ask("GET", team).json["private"] is False

    assert ask("PUT", path, {"account_permissions": nothing}).json["account_permissions"] == []
    assert ask("GET", team).json["private"] is True


def test_what_is_given_counts_at_once_and_no_longer_than_it_is(ask, path, world):
    tags = f"/api/account/teams/{world.team.unique_id}/tags/"
    assert ask("GET", tags, who="charlie").status_code == 403

    ask("PUT", path, {"account_permissions": ["tag_read"]})
    assert ask("GET", tags, who="charlie").status_code == 200
    assert ask("POST", tags, {"name": "x"}, who="charlie").status_code == 403

    ask("PUT", path, {"account_permissions": []})
    assert ask("GET", tags, who="charlie").status_code == 403


def test_nobody_opens_a_team_but_its_managers(ask, path):
    everything = {"account_permissions": list(TEAM_PERMISSIONS)}

    for who, status in (("bob", 403), ("charlie", 403), ("mallory", 404)):
        assert ask("PUT", path, everything, who=who).status_code == status
    assert ask("GET", path, who="bob").json["account_permissions"] == []


def test_lanes_learn_of_it(ask, path):
    """Whether other teams may attach a policy is configuration."""
    before = ConfigVersion.select().order_by(ConfigVersion.id).first().version

    ask("PUT", path, {"account_permissions": ["escalation_policy_attach"]})

    assert ConfigVersion.select().order_by(ConfigVersion.id).first().version == before + 1
