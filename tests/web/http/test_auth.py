"""Authentication: tokens, schemes and expiry."""

from datetime import UTC, datetime, timedelta

import pytest

from models.store.ids import digest
from models.tables.accounts import Token, User

TEAMS = "/api/account/teams/"
INVALID = {"detail": "Invalid token."}
MISSING = {"detail": "Authentication credentials were not provided."}


def get_token(world, who: str) -> Token:
    return Token.get(Token.digest == digest(world.tokens[who]))


@pytest.mark.parametrize(
    "form", ["Bearer {}", "Token {}", "token {}", "bEARER {}", "Token    {}", " Token {} "]
)
def test_scheme_words_and_blanks(ask, world, form):
    headers = {"Authorization": form.format(world.tokens["alice"])}

    assert ask("GET", TEAMS, who=None, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("", MISSING), ("Bearer", MISSING), ("Bearer ", MISSING), ("Basic YTpi", MISSING), ("Token", MISSING),
        ("Token x", INVALID), ("Bearer \xff\xfe", INVALID), ("Token a b", INVALID),
        ("Token " + "x" * 5000, INVALID),
    ],
)  # fmt: skip
def test_an_invalid_authorization_header_is_refused(ask, value, answer):
    refused = ask("GET", TEAMS, who=None, headers={"Authorization": value})

    assert (refused.status_code, refused.json) == (401, answer)
    assert refused.headers["WWW-Authenticate"] == "Token"


def test_a_revoked_token_is_refused(ask, world, now):
    Token.update(revoked_at=now).where(Token.id == get_token(world, "bob").id).execute()

    assert ask("GET", TEAMS, who="bob").json == INVALID


def test_an_expired_token_is_refused(ask, world):
    def expire(at):
        Token.update(expires_at=at).where(Token.id == get_token(world, "bob").id).execute()
        return ask("GET", TEAMS, who="bob").status_code

    soon = datetime.now(UTC) + timedelta(hours=1)
    assert expire(soon) == 200
    assert expire(soon - timedelta(hours=2)) == 401


def test_a_token_of_a_removed_user_is_refused(ask, world, now):
    User.update(removed_at=now).where(User.id == world.bob.id).execute()

    assert ask("GET", TEAMS, who="bob").json == INVALID


def test_the_last_use_is_recorded_at_most_once_a_minute(ask, world):
    ask("GET", TEAMS)
    first = get_token(world, "alice").last_used_at
    ask("GET", TEAMS)

    assert first is not None
    assert get_token(world, "alice").last_used_at == first

    earlier = first - timedelta(minutes=2)
    Token.update(last_used_at=earlier).where(Token.id == get_token(world, "alice").id).execute()
    ask("GET", TEAMS)

    assert get_token(world, "alice").last_used_at > first
