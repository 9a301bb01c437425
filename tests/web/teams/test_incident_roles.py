"""The roles of a team."""

import pytest

from models.tables.teams import IncidentRole
from tests.support.offenders import list_offenders


@pytest.fixture
def roles(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}/roles/"


def test_a_role_is_created_changed_and_deleted(ask, roles, world):
    made = ask("POST", roles, {"title": " Scribe ", "team": "ignored"}).json
    one = f"{roles}{made['unique_id']}/"

    assert (made["title"], made["description"], made["rank"], "team" in made) == ("Scribe", "", 1, False)
    assert ask("GET", one).json == {**made, "team": world.team.unique_id}
    assert ask("PUT", one, {"title": "Clerk", "rank": "0"}).json == {**made, "title": "Clerk", "rank": 0}
    assert ask("PATCH", one, {"description": "Writes"}).json["title"] == "Clerk"
    assert [role["title"] for role in ask("GET", roles).json] == ["Incident Commander", "Clerk"]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


def test_an_answer_about_a_team_has_its_roles(ask, roles, world):
    ask("POST", roles, {"title": "Scribe"})

    shown = ask("GET", f"/api/account/teams/{world.team.unique_id}/").json["roles"]

    assert shown == ask("GET", roles).json


def test_a_put_needs_the_title_unless_a_published_client_sends_it(ask, roles, world):
    one = f"{roles}{IncidentRole.get(IncidentRole.team == world.team).unique_id}/"

    assert ask("PUT", one, {"rank": 2}).status_code == 400
    assert ask("PUT", one, {"rank": 2}, scheme="Token").json["rank"] == 2


WRONG_ROLES = [
    {"title": ""}, {"title": None}, {"title": 7}, {"title": "x" * 256}, {"rank": -1}, {"rank": 11},
    {"rank": None}, {"rank": 1.5}, {"rank": "high"}, {"description": {}}, {"description": "x" * 20_000},
]  # fmt: skip


def test_an_invalid_role_is_refused(ask, roles):
    def check(wrong):
        refused = ask("POST", roles, {"title": "Scribe", **wrong}, scheme="Token")

        assert refused.status_code == 400
        assert list(refused.json["errors"]) == list(wrong)
        assert IncidentRole.select().where(IncidentRole.title == "Scribe").count() == 0

    assert list_offenders(check, WRONG_ROLES, lambda wrong: str(wrong)[:30]) == []
