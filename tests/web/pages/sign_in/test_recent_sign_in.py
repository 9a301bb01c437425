"""What gives access for longer needs a recent sign-in: a stranger at an open browser has only its session."""

from datetime import timedelta
from html import unescape

import pytest

from models.sign_in import attempts, passwords, sessions
from models.store.store import store
from models.tables.accounts import Token
from models.tables.sign_in import Password, Session, SignInStep

OLD = "the old password"
NEW = "a new and long password"
AGAIN = "?again=1&next="


def age(**values) -> None:
    """Let the persons of all sessions have signed in some time ago."""
    Session.update({"proven_at": store().now() - sessions.RECENT - timedelta(seconds=1), **values}).execute()


@pytest.fixture
def old(sign_in):
    """A browser in which Bob signed in some time ago."""
    browser = sign_in("bob")
    age()
    return browser


def test_an_old_session_adds_no_passkey(old):
    page = unescape(old.get("/me/sign-in/").text)

    assert f"/sign-in/{AGAIN}/me/sign-in/" in page
    assert "Name of the new passkey" not in page
    answer = old.post("/me/passkeys/options/")
    assert (answer.status_code, "Sign in again" in answer.text) == (403, True)
    assert SignInStep.select().count() == 0


def test_a_passkey_that_was_begun_in_time_is_not_added_later(sign_in):
    browser = sign_in("bob")
    assert browser.post("/me/passkeys/options/").status_code == 200
    age()

    answer = browser.client.post(
        "/me/passkeys/",
        base_url="https://tocsin.example.org",
        headers={"X-CSRF-Token": browser.get_token(), "X-Requested-With": "fetch"},
        json={"name": "my phone", "credential": {}},
    )

    assert (answer.status_code, "Sign in again" in answer.text) == (403, True)


def test_an_old_session_sets_no_first_password(old):
    answer = old.post("/me/password/", new=NEW)

    assert answer.headers["Location"] == f"/sign-in/{AGAIN}/me/sign-in/"
    assert Password.select().count() == 0


def test_the_current_password_sets_a_new_one_in_an_old_session(old, world):
    with store().write_transaction():
        passwords.store_hash(
            world.bob, passwords.make_hash(OLD), store().now(), except_session=Session.get().id
        )

    assert "Current password" in old.get("/me/sign-in/").text
    assert old.post("/me/password/", new=NEW, current=OLD).headers["Location"] == "/me/sign-in/?done=password"


def test_an_old_session_creates_no_token(old):
    before = Token.select().count()

    assert f"/sign-in/{AGAIN}/me/tokens/" in unescape(old.get("/me/tokens/").text)
    answer = old.post("/me/tokens/", name="laptop", days="90")
    assert answer.headers["Location"] == f"/sign-in/{AGAIN}/me/tokens/"
    assert Token.select().count() == before


def test_a_new_sign_in_leads_back_and_is_recent(old, world):
    with store().write_transaction():
        passwords.store_hash(
            world.bob, passwords.make_hash(OLD), store().now(), except_session=Session.get().id
        )
    old.post("/me/tokens/", name="laptop", days="90")

    assert "Sign in again to continue." in old.follow().text
    fields = {"address": "bob@example.org", "next": "/me/tokens/", "again": "1"}
    assert "Sign in again to continue." in old.post("/sign-in/", password="wrong", **fields).text
    assert old.post("/sign-in/", password=OLD, **fields).headers["Location"] == "/me/tokens/"
    assert "What it is for" in old.follow().text
    assert old.post("/me/tokens/", name="laptop", days="90").status_code == 201
    # The session of before has ended.
    assert Session.select().count() == 1


def test_a_session_without_the_moment_of_its_proof_is_not_recent(sign_in):
    browser = sign_in("bob")
    age(proven_at=None)

    assert browser.post("/me/passkeys/options/").status_code == 403


def test_a_new_secret_of_a_session_is_no_new_sign_in(old, world):
    Session.update(rights="others").execute()

    assert old.get("/me/sign-in/").status_code == 200
    assert old.post("/me/passkeys/options/").status_code == 403


def test_a_person_begins_few_passkeys(sign_in, monkeypatch):
    monkeypatch.setattr(attempts, "PASSKEY_OF_PERSON", attempts.Limit("passkey", 2, 60))
    browser = sign_in("bob")

    found = [browser.post("/me/passkeys/options/").status_code for _ in range(3)]
    assert found == [200, 200, 429]
    assert sign_in("charlie").post("/me/passkeys/options/").status_code == 200
