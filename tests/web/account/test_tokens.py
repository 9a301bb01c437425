"""Tokens over the interface: only their owner creates them; their owner and admins list and revoke them."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import AccountRole
from models.people import provisioning
from models.store.ids import digest
from models.tables.accounts import Token, User
from web.account import tokens

OWN = "/api/tocsin/tokens/"
# Far in the future, and in the form that answers have.
LATER = "2099-12-31T00:00:00Z"


def build_path(user: User, token: dict | None = None) -> str:
    return f"/api/tocsin/users/{user.username}/tokens/" + (f"{token['unique_id']}/" if token else "")


def get_status(ask, token: str) -> int:
    return ask("GET", OWN, who=None, headers={"Authorization": f"Bearer {token}"}).status_code


@pytest.fixture
def create(ask):
    """create(who, **values): create a token of this person and return the answer."""

    def create(who: str = "bob", **values) -> dict:
        created = ask("POST", OWN, {"name": "laptop", **values}, who=who)
        assert created.status_code == 201, created.json
        return created.json

    return create


@pytest.fixture
def admin(world, now) -> dict[str, str]:
    """Return the headers of an admin who is not the owner."""
    user = provisioning.create_user(world.account, "dora@example.org", AccountRole.ADMIN, now)
    return {"Authorization": f"Bearer {provisioning.issue_token(user, 'test', now)}"}


def test_a_new_token_acts_as_its_creator_and_is_shown_once(ask, world, create):
    created = create("bob", name="laptop", expires_at=LATER)

    assert created.keys() == {
        "unique_id",
        "name",
        "user",
        "created_at",
        "expires_at",
        "last_used_at",
        "token",
    }
    assert (created["user"], created["expires_at"]) == (world.bob.username, LATER)
    headers = {"Authorization": f"Bearer {created['token']}"}
    profile = ask("GET", "/api/user/profile/", who=None, headers=headers).json
    assert profile["username"] == world.bob.username
    assert Token.get(Token.name == "laptop").digest == digest(created["token"])
    for path in (build_path(world.bob), build_path(world.bob, created), OWN):
        shown = ask("GET", path, who="bob")
        assert "laptop" in shown.text
        assert (created["token"] in shown.text, '"token"' in shown.text) == (False, False)


def test_nobody_creates_a_token_for_another_person(ask, world, create):
    """Not even an admin: the path has no place for a person, and a person in the body is ignored."""
    for body in ({"user": world.bob.username}, {"username": world.bob.username}):
        assert create("alice", **body)["user"] == world.alice.username
    assert ask("POST", build_path(world.bob), {"name": "x"}, who="alice").status_code == 405
    assert Token.select().where(Token.user == world.bob).count() == 1


def test_the_owner_renames_a_token_and_gives_it_an_expiry(ask, world, create):
    created = create()
    path = build_path(world.bob, created)

    changed = ask("PATCH", path, {"name": "old laptop", "expires_at": LATER}, who="bob")

    assert (changed.json["name"], changed.json["expires_at"]) == ("old laptop", LATER)
    assert get_status(ask, created["token"]) == 200
    assert ask("PATCH", path, {"expires_at": None}, who="bob").json["expires_at"] is None


@pytest.mark.parametrize("value", ["2020-01-01T00:00:00Z", "soon", 5])
def test_an_expiry_in_the_past_is_refused(ask, world, create, value):
    path = build_path(world.bob, create())

    refused = ask("PATCH", path, {"expires_at": value}, who="bob")

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["expires_at"])
    assert ask("POST", OWN, {"name": "x", "expires_at": value}, who="bob").status_code == 400


def test_a_token_needs_a_name(ask):
    assert ask("POST", OWN, {}, who="bob").status_code == 400
    assert ask("POST", OWN, {"name": " "}, who="bob").status_code == 400


def test_a_revoked_token_stops_at_once_and_leaves_the_list(ask, world, create):
    created = create()
    path = build_path(world.bob, created)

    assert ask("DELETE", path, who="bob").status_code == 204

    assert get_status(ask, created["token"]) == 401
    assert [row["name"] for row in ask("GET", build_path(world.bob), who="bob").json] == ["test"]
    assert ask("DELETE", path, who="bob").status_code == 404
    assert ask("PATCH", path, {"expires_at": LATER}, who="bob").status_code == 404


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize("value", [None, "", "2099-12-31T00:00:01Z"])
def test_a_token_cannot_give_itself_a_later_expiry(ask, world, create, method, value):
    """A thief with the token could otherwise keep it for ever."""
    created = create(expires_at=LATER)
    itself = {"Authorization": f"Bearer {created['token']}"}
    body = {"name": "laptop", "expires_at": value}

    refused = ask(method, build_path(world.bob, created), body, who=None, headers=itself)

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["expires_at"])
    assert ask("GET", build_path(world.bob, created), who="bob").json["expires_at"] == LATER


def test_a_token_may_rename_itself_and_end_itself_earlier(ask, world, create):
    created = create(expires_at=LATER)
    itself = {"Authorization": f"Bearer {created['token']}"}
    path = build_path(world.bob, created)

    for body in ({"name": "old"}, {"expires_at": LATER}, {"expires_at": "2099-01-01T00:00:00Z"}):
        assert ask("PATCH", path, body, who=None, headers=itself).status_code == 200
    shown = ask("GET", path, who="bob").json
    assert (shown["name"], shown["expires_at"]) == ("old", "2099-01-01T00:00:00Z")


def test_an_expired_token_cannot_be_prolonged(ask, world, create):
    created = create()
    past = datetime.now(UTC) - timedelta(seconds=1)
    Token.update(expires_at=past).where(Token.name == "laptop").execute()

    assert ask("PATCH", build_path(world.bob, created), {"expires_at": LATER}, who="bob").status_code == 404
    assert "laptop" not in ask("GET", build_path(world.bob), who="bob").text


def test_an_admin_lists_and_revokes_the_tokens_of_members(ask, world, create, admin):
    created = create()
    path = build_path(world.bob, created)

    listed = ask("GET", build_path(world.bob), who=None, headers=admin)

    assert [row["name"] for row in listed.json] == ["test", "laptop"]
    assert created["token"] not in listed.text
    assert ask("PATCH", path, {"expires_at": LATER}, who=None, headers=admin).status_code == 200
    assert ask("DELETE", path, who=None, headers=admin).status_code == 204
    assert get_status(ask, created["token"]) == 401


def test_an_admin_sees_but_does_not_revoke_the_tokens_of_the_owner(ask, world, create, admin):
    created = create("alice")
    path = build_path(world.alice, created)

    assert ask("GET", path, who=None, headers=admin).status_code == 200
    assert ask("DELETE", path, who=None, headers=admin).status_code == 403
    assert ask("PATCH", path, {"expires_at": LATER}, who=None, headers=admin).status_code == 403
    assert get_status(ask, created["token"]) == 200


def test_a_member_sees_no_tokens_of_others(ask, world, create):
    created = create()
    for who, status in (("charlie", 403), ("mallory", 404)):
        for method in ("GET", "PATCH", "DELETE"):
            assert ask(method, build_path(world.bob, created), {}, who=who).status_code == status
        assert ask("GET", build_path(world.bob), who=who).status_code == status
    assert get_status(ask, created["token"]) == 200


def test_the_list_of_the_account_has_all_tokens_for_admins_and_else_the_own_ones(ask, world, create):
    create("bob")
    everybody = {world.alice.username, world.bob.username, world.charlie.username}

    assert {row["user"] for row in ask("GET", OWN).json["results"]} == everybody
    assert [row["name"] for row in ask("GET", OWN, who="bob").json["results"]] == ["laptop", "test"]
    assert {row["user"] for row in ask("GET", OWN, who="bob").json["results"]} == {world.bob.username}
    page = ask("GET", f"{OWN}?page_size=2")
    assert (len(page.json["results"]), page.json["next"] is None) == (2, False)


def test_a_token_has_no_more_rights_than_its_user(ask, world, create):
    """Also not when the rights of the user shrink after its creation."""
    User.update(role=AccountRole.ADMIN).where(User.id == world.charlie.id).execute()
    created = create("charlie")
    headers = {"Authorization": f"Bearer {created['token']}"}
    path = build_path(world.bob)
    assert ask("GET", path, who=None, headers=headers).status_code == 200

    User.update(role=AccountRole.USER).where(User.id == world.charlie.id).execute()

    assert ask("GET", path, who=None, headers=headers).status_code == 403


def test_a_token_ends_with_its_user(ask, world, create):
    created = create("charlie", expires_at=LATER)

    removed = ask("POST", "/api/account/deleteuser/", {"username": world.charlie.username})

    assert removed.status_code == 204
    assert get_status(ask, created["token"]) == 401
    assert world.charlie.username not in ask("GET", OWN).text


def test_a_person_has_a_limited_number_of_tokens(ask, world, monkeypatch):
    monkeypatch.setattr(tokens, "MAX_TOKENS", 2)
    assert ask("POST", OWN, {"name": "second"}, who="bob").status_code == 201

    refused = ask("POST", OWN, {"name": "third"}, who="bob")

    assert (refused.status_code, Token.select().where(Token.user == world.bob).count()) == (400, 2)
