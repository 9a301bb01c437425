"""A way to sign in is removed while a request uses it: the request gives nobody a session or another way."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.links.signed_links import Invitation, get_signer
from models.sign_in import links, passwords, people
from models.store.store import store
from models.tables.accounts import Token
from models.tables.sign_in import Passkey, Password, Session
from tests.support.polling import PATIENCE_S
from tests.support.web.browser import PageBrowser
from tocsin.commands.writing import COMMAND
from web.pages import join
from web.pages.sign_in import own, own_tokens, passkey_checks

OLD = "the old password"
NEW = "a new and long password"
HASH = passwords.make_hash(OLD)


@pytest.fixture
def reset_after(monkeypatch, world):
    """reset_after(module, name): the ways of Bob are reset as soon as this function has returned."""

    def reset_after(module, name):
        real = getattr(module, name)

        def call(*args, **more):
            found = real(*args, **more)
            with store().write_transaction():
                people.reset(world.bob, store().now(), COMMAND)
            return found

        monkeypatch.setattr(module, name, call)

    return reset_after


@pytest.fixture
def with_password(world):
    with store().write_transaction():
        passwords.store_hash(world.bob, HASH, store().now())


def count_ways() -> tuple[int, ...]:
    return tuple(table.select().count() for table in (Session, Password, Passkey))


def test_a_password_that_was_removed_meanwhile_signs_nobody_in(browser, with_password, reset_after):
    reset_after(passwords, "find_match")
    browser.get("/sign-in/")
    answer = browser.post("/sign-in/", address="bob@example.org", password=OLD)

    assert (answer.status_code, "have just changed" in answer.text) == (403, True)
    assert count_ways() == (0, 0, 0)


def test_a_password_that_was_replaced_meanwhile_signs_nobody_in(browser, with_password, world, monkeypatch):
    real = passwords.find_match

    def find_match(people, password):
        found = real(people, password)
        with store().write_transaction():
            passwords.store_hash(world.bob, passwords.make_hash(NEW), store().now())
        return found

    monkeypatch.setattr(passwords, "find_match", find_match)
    browser.get("/sign-in/")

    assert browser.post("/sign-in/", address="bob@example.org", password=OLD).status_code == 403
    assert Session.select().count() == 0


def test_a_link_that_was_removed_meanwhile_signs_nobody_in(browser, world, reset_after):
    with store().write_transaction():
        link = links.create(world.bob, store().now(), links.MAIL_LIFE)
    path = f"/sign-in/link/{get_signer().sign_sign_in(link.unique_id)}"
    browser.get(path)
    reset_after(links, "find")
    answer = browser.post(path)

    assert (answer.status_code, "This link does not work" in answer.text) == (404, True)
    assert count_ways() == (0, 0, 0)


def test_of_two_requests_with_a_link_the_second_one_says_that_it_works_once(browser, app, world, monkeypatch):
    with store().write_transaction():
        link = links.create(world.bob, store().now(), links.MAIL_LIFE)
    path = f"/sign-in/link/{get_signer().sign_sign_in(link.unique_id)}"
    first, real = PageBrowser(app), links.find
    for each in (first, browser):
        each.get(path)

    def find(unique_id):
        """Find the link; before this request uses it, the other one does."""
        found = real(unique_id)
        monkeypatch.setattr(links, "find", real)
        assert first.post(path).status_code == 303
        return found

    monkeypatch.setattr(links, "find", find)
    answer = browser.post(path)

    assert (answer.status_code, "works only once" in answer.text) == (404, True)
    assert Session.select().count() == 1


@pytest.mark.parametrize("name", ["_needs_current", "_find_problem_of_current"])
def test_a_session_that_ended_meanwhile_sets_no_password(sign_in, with_password, reset_after, name):
    browser = sign_in("bob")
    reset_after(own, name)

    answer = browser.post("/me/password/", new=NEW, current=OLD)
    assert answer.status_code in (400, 401)
    assert count_ways() == (0, 0, 0)


def test_a_session_that_ended_meanwhile_adds_no_passkey(sign_in, monkeypatch, reset_after):
    browser = sign_in("bob")
    browser.post("/me/passkeys/options/")
    made = passkey_checks.NewPasskey("id", "key", 0)
    monkeypatch.setattr(passkey_checks, "check_registration", lambda *_: made)
    reset_after(passkey_checks, "check_registration")

    answer = browser.client.post(
        "/me/passkeys/",
        base_url="https://tocsin.example.org",
        headers={"X-CSRF-Token": browser.get_token(), "X-Requested-With": "fetch"},
        data=json.dumps({"name": "phone", "credential": {}}),
    )
    assert answer.status_code == 401
    assert count_ways() == (0, 0, 0)


def test_a_session_that_ended_meanwhile_creates_no_token(sign_in, reset_after):
    browser = sign_in("bob")
    before = Token.select().count()
    reset_after(own_tokens, "now")

    assert browser.post("/me/tokens/", name="laptop", days="90").status_code == 401
    assert Token.select().count() == before


def test_a_person_who_is_reset_while_joining_is_not_signed_in(browser, world, reset_after):
    token = get_signer().sign_invitation(Invitation.for_user(world.bob), store().now())
    browser.get(f"/join/{token}")
    reset_after(join.forms, "has_valid_token")

    assert browser.post(f"/join/{token}", password=NEW).status_code == 403
    assert count_ways() == (0, 0, 0)


def test_no_session_of_the_old_password_outlives_the_new_one(sign_in, app, world, monkeypatch):
    """Real requests at the same time: one hashes the new password while the other checks the old one."""
    is_hashing, make_hash = threading.Event(), passwords.make_hash

    def make(password):
        is_hashing.set()
        return make_hash(password)

    def sign_in_meanwhile(browser, password):
        assert is_hashing.wait(PATIENCE_S)
        return browser.post("/sign-in/", address="alice@example.org", password=password)

    monkeypatch.setattr(passwords, "make_hash", make)
    for number in range(5):
        old, new = f"the password {number}", f"the password {number + 1}"
        if number == 0:
            with store().write_transaction():
                passwords.store_hash(world.alice, passwords.make_hash(old), store().now())
        Session.delete().execute()
        owner, other = sign_in("alice"), PageBrowser(app)
        for browser, path in ((owner, "/me/sign-in/"), (other, "/sign-in/")):
            browser.get(path)
        with ThreadPoolExecutor(2) as threads:
            is_hashing.clear()
            signed_in = threads.submit(sign_in_meanwhile, other, old)
            changed = threads.submit(owner.post, "/me/password/", new=new, current=old)
        assert changed.result().status_code == 303
        assert signed_in.result().status_code in (303, 400, 403)
        found = [browser.get("/me/sign-in/").status_code for browser in (owner, other)]
        assert found == [200, 303]
