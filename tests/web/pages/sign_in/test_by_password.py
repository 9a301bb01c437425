"""Sign in with address and password: one answer for all failures, and limits in the store."""

import contextlib

import pytest

from models.sign_in import attempts, passwords
from models.store.peewee_internals import get_values
from models.store.store import store
from models.tables.accounts import User
from models.tables.sign_in import AuditEntry, Session, SignInRate
from tests.support.web.browser import SESSION_COOKIE
from web.pages import password_checks
from web.pages.sign_in.by_password import WRONG

PASSWORD = "correct horse battery"
HASH = passwords.make_hash(PASSWORD)


@pytest.fixture
def people(world):
    """Alice and Mallory have passwords; Bob has none."""
    with store().write_transaction():
        for user in (world.alice, world.mallory):
            passwords.store_hash(user, HASH, store().now())
    return world


def enter(browser, address, password=PASSWORD, path="/me/sign-in/"):
    browser.get("/sign-in/")
    return browser.post("/sign-in/", address=address, password=password, next=path)


def test_a_person_signs_in_and_comes_to_the_page_that_was_asked_for(browser, people):
    answer = enter(browser, "alice@example.org")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/me/sign-in/")
    assert "alice@example.org" in browser.follow().text


@pytest.mark.parametrize("address", ["ALICE@Example.org", " alice@example.org "])
def test_the_case_of_the_address_does_not_count(browser, people, address):
    assert enter(browser, address).status_code == 303


def test_each_sign_in_has_a_new_secret(browser, people):
    enter(browser, "alice@example.org")
    first = browser.get_cookie(SESSION_COOKIE)
    enter(browser, "alice@example.org")

    assert browser.get_cookie(SESSION_COOKIE) not in (None, first)
    # The session of before has ended.
    assert Session.select().count() == 1


@pytest.mark.parametrize(
    ("address", "password"),
    [
        ("alice@example.org", "wrong password"),
        ("bob@example.org", PASSWORD),
        ("nobody@example.org", PASSWORD),
        ("", ""),
        ("a" * 5_000, PASSWORD),
        ("alice@example.org", PASSWORD + "x" * 300),
        ("' OR 1=1 --", PASSWORD),
        ("alice@example.org\x00", PASSWORD),
    ],
    ids=["wrong", "no password", "unknown", "empty", "long address", "long password", "sql", "nul"],
)
def test_all_failures_look_the_same(browser, people, address, password):
    answer = enter(browser, address, password)

    assert answer.status_code == 400
    assert WRONG in answer.text
    assert Session.select().count() == 0


def test_an_unknown_address_costs_as_many_checks_as_a_known_one(browser, people, monkeypatch):
    checked = []
    real = passwords._HASHER

    class Counting:
        def verify(self, hashed, password):
            checked.append(hashed)
            return real.verify(hashed, password)

    monkeypatch.setattr(passwords, "_HASHER", Counting())
    passwords._make_decoy.cache_clear()
    monkeypatch.setattr(passwords, "_make_decoy", lambda: HASH)
    for address in ("alice@example.org", "bob@example.org", "nobody@example.org"):
        enter(browser, address, "wrong password")

    assert len(checked) == 3


def test_after_ten_failures_an_address_is_refused(browser, people):
    for _ in range(10):
        assert enter(browser, "alice@example.org", "wrong password").status_code == 400

    answer = enter(browser, "alice@example.org")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) <= attempts.QUARTER_S
    # Another person is not locked out.
    assert enter(browser, "mallory@example.net").status_code == 303


def test_an_unknown_address_is_refused_too(browser, people):
    found = [enter(browser, "nobody@example.org").status_code for _ in range(11)]

    assert found == [400] * 10 + [429]


def test_a_client_is_refused_after_failures_with_many_addresses(browser, people, monkeypatch):
    monkeypatch.setattr(attempts, "PASSWORD_OF_CLIENT", attempts.Limit("password client", 3, 60))

    found = [enter(browser, f"person{number}@example.org").status_code for number in range(4)]

    assert found == [400, 400, 400, 429]


def test_a_success_forgets_the_failures_of_the_address(browser, people):
    for _ in range(9):
        enter(browser, "alice@example.org", "wrong password")
    assert enter(browser, "alice@example.org").status_code == 303

    assert enter(browser, "alice@example.org", "wrong password").status_code != 429


def test_the_store_counts_without_addresses(browser, people):
    enter(browser, "nobody@example.org")

    assert SignInRate.select().count() == 2
    assert "nobody" not in str([get_values(row) for row in SignInRate.select()])


def test_sign_ins_and_failures_are_in_the_audit_list(browser, people):
    enter(browser, "alice@example.org", "wrong password")
    enter(browser, "alice@example.org")

    found = [(each.action, each.actor, each.user_id) for each in AuditEntry.select().order_by(AuditEntry.id)]
    alice = people.alice.id
    assert found == [("sign_in_failed", "somebody", alice), ("signed_in", "Alice", alice)]


def test_the_form_needs_the_token_of_its_page(browser, people):
    browser.get("/sign-in/")

    answer = browser.post("/sign-in/", csrf="x", address="alice@example.org", password=PASSWORD)

    assert answer.status_code == 403
    assert "too old" in answer.text


def test_a_hostile_address_is_shown_as_text(browser, people):
    answer = enter(browser, '"><script>alert(1)</script>@example.org')

    assert "<script>" not in answer.text


def test_the_page_leads_nowhere_else_after_the_sign_in(browser, people):
    assert enter(browser, "alice@example.org", path="//evil.example/").headers["Location"] == "/"


def test_somebody_with_the_same_address_in_another_account_learns_and_forgets_nothing(browser, people):
    """Anybody can enter the address of somebody else in an account of their own."""
    User.update(email="alice@example.org").where(User.id == people.mallory.id).execute()
    with store().write_transaction():
        passwords.store_hash(people.mallory, passwords.make_hash("the password of mallory"), store().now())
    for _ in range(9):
        enter(browser, "alice@example.org", "wrong password")
    enter(browser, "alice@example.org", "the password of mallory")

    failures = AuditEntry.select().where(AuditEntry.action == "sign_in_failed")
    assert {each.user_id for each in failures} == {people.alice.id}
    assert enter(browser, "alice@example.org", "wrong password").status_code == 429


@pytest.mark.parametrize("password", ["wrong password", PASSWORD])
def test_a_failure_costs_as_many_commits_for_each_address(browser, people, statements, password):
    """A commit that writes takes longest, so strangers could measure it."""
    User.update(verified_email="alice@example.org").where(User.id == people.alice.id).execute()
    found = {}
    for address in ("alice@example.org", "bob@example.org", "nobody@example.org"):
        browser.get("/sign-in/")
        if address == "alice@example.org" and password == PASSWORD:
            continue
        with statements() as seen:
            assert browser.post("/sign-in/", address=address, password=password).status_code == 400
        writes = [text for text, _ in seen if text.startswith(("UPDATE", "INSERT"))]
        found[address] = sum("sign_in_rate" in text for text in writes)

    assert len(set(found.values())) == 1
    assert found["nobody@example.org"] > 0


def test_the_normal_form_of_an_address_is_the_same_on_both_stores(browser, people):
    User.update(email="K\u00c4te@Example.org").where(User.id == people.alice.id).execute()

    assert enter(browser, "k\u00c4te@example.ORG").status_code == 303
    # A letter that has a small one only outside of ASCII is another letter.
    assert enter(browser, "k\u00e4te@example.org").status_code == 400
    assert enter(browser, "\u212a\u00c4te@example.org").status_code == 400


def test_with_too_many_at_the_same_time_a_page_says_so(browser, people):
    browser.get("/sign-in/")
    with contextlib.ExitStack() as stack:
        for _ in range(password_checks.MAX_CHECKS + password_checks.MAX_PENDING):
            password_checks._places.acquire()
            stack.callback(password_checks._places.release)
        answer = browser.post("/sign-in/", address="alice@example.org", password=PASSWORD)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert password_checks.BUSY in answer.text
    assert enter(browser, "alice@example.org").status_code == 303
