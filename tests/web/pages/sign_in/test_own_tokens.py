"""The page on which people manage their API tokens."""

import re

import pytest

from models.tables.accounts import Token

PATH = "/me/tokens/"


def test_a_person_creates_a_token_and_revokes_it(sign_in, ask, world):
    browser = sign_in("bob")

    page = browser.post(PATH, name="laptop", days="90")
    text = re.search(r"<code>(\S+)</code>", page.text)[1]
    headers = {"Authorization": f"Bearer {text}"}
    assert ask("GET", "/api/user/profile/", who=None, headers=headers).status_code == 200
    assert text not in browser.get(PATH).text

    row = Token.get(Token.name == "laptop")
    assert browser.post(f"{PATH}{row.unique_id}/revoke/").status_code == 303
    assert ask("GET", "/api/user/profile/", who=None, headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"name": ""}, "Name"), ({"name": "x" * 300}, "Name"), ({"name": "x", "days": "1000000000"}, "Days")],
)
def test_a_refused_form_says_why(sign_in, fields, reason):
    page = sign_in("bob").post(PATH, **{"days": "90", **fields})

    assert page.status_code == 400
    assert f"{reason}: " in page.text


@pytest.mark.parametrize("who", ["charlie", "mallory", "alice"])
def test_nobody_revokes_the_token_of_another_person_here(sign_in, world, who):
    row = Token.get(Token.user == world.bob)

    assert sign_in(who).post(f"{PATH}{row.unique_id}/revoke/").status_code == 404
    assert Token.get_by_id(row.id).revoked_at is None
