"""Sign in with address and password: one answer for all failures, and limits in the store."""

import contextlib
from dataclasses import replace
from datetime import timedelta

import pytest

from models.domain.enums import AccountRole
from models.links import signed_links
from models.people import provisioning
from models.sign_in import attempts, passwords
from models.sign_in import people as people_of_address
from models.store.peewee_internals import get_values
from models.store.store import store
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.sign_in import Session, SignInRate, UntrustedProxy
from tests.support.web import password_cost
from tests.support.web.browser import DEVICE_COOKIE, HOST, SESSION_COOKIE, PageBrowser
from tocsin.checks.settings_of_processes import find_untrusted_proxies
from web.pages import clients, password_checks
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


def test_a_password_is_stored_with_the_cost_that_owasp_names(monkeypatch, people):
    monkeypatch.setattr(passwords, "_HASHER", password_cost.HASHER)
    hashed = passwords.make_hash(PASSWORD)

    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    with store().write_transaction():
        passwords.store_hash(people.alice, hashed, store().now())
    assert passwords.verify(people.alice, PASSWORD) == hashed
    assert passwords.verify(people.alice, PASSWORD + "x") is None


@pytest.fixture
def checked(monkeypatch):
    """The hashes against which a password was checked."""
    found = []
    real = passwords._HASHER

    class Counting:
        hash = staticmethod(real.hash)

        def verify(self, hashed, password):
            found.append(hashed)
            return real.verify(hashed, password)

    monkeypatch.setattr(passwords, "_make_decoy", lambda: HASH)
    monkeypatch.setattr(passwords, "_HASHER", Counting())
    return found


def test_an_attempt_costs_as_many_checks_for_each_address(browser, people, checked):
    """Of a member, without a password, of nobody, and of members of two accounts, with a right one too."""
    both = User.id.in_([people.charlie.id, people.mallory.id])
    User.update(email="shared@example.org").where(both).execute()
    with store().write_transaction():
        passwords.store_hash(people.charlie, passwords.make_hash("the password of charlie"), store().now())
    found = {}
    for address in ("alice@example.org", "bob@example.org", "no@example.org", "shared@example.org", ""):
        for password in ("wrong password", "the password of charlie"):
            checked.clear()
            status = enter(browser, address, password).status_code
            found[address, password] = len(checked), status
            browser.client.delete_cookie(DEVICE_COOKIE, domain="tocsin.example.org")

    assert {count for count, _ in found.values()} == {people_of_address.MAX_ACCOUNTS}
    assert [key for key, (_, status) in found.items() if status == 303] == [
        ("shared@example.org", "the password of charlie")
    ]


def test_a_member_who_has_proven_the_address_is_found_among_others_who_entered_it(browser, people, now):
    User.update(verified_email="mallory@example.net").where(User.id == people.mallory.id).execute()
    older = User.select().where(User.id < people.mallory.id)
    assert older.count() < people_of_address.MAX_ACCOUNTS
    for number in range(people_of_address.MAX_ACCOUNTS):
        provisioning.create_user(people.account, f"m{number}@example.net", AccountRole.USER, now)
    others = User.id != people.mallory.id
    User.update(email="mallory@example.net").where(others).execute()

    assert people.mallory in people_of_address.find_people("mallory@example.net")
    assert people_of_address.find_people("mallory@example.net")[0] == people.mallory


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

    assert SignInRate.select().count() == 4
    assert "nobody" not in str([get_values(row) for row in SignInRate.select()])


def test_sign_ins_and_failures_are_in_the_audit_list(browser, people):
    enter(browser, "alice@example.org", "wrong password")
    enter(browser, "alice@example.org")

    found = [(each.action, each.actor, each.user_id) for each in Change.select().order_by(Change.id)]
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

    failures = Change.select().where(Change.action == "sign_in_failed")
    assert {each.user_id for each in failures} == {people.alice.id}
    browser.client.delete_cookie(DEVICE_COOKIE, domain="tocsin.example.org")
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


def take_all(places, stack):
    while places.all.acquire(blocking=False):
        stack.callback(places.all.release)


def test_with_too_many_at_the_same_time_a_page_says_so(browser, people):
    browser.get("/sign-in/")
    with contextlib.ExitStack() as stack:
        take_all(password_checks.of_strangers, stack)
        answer = browser.post("/sign-in/", address="alice@example.org", password=PASSWORD)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert password_checks.BUSY in answer.text
    assert enter(browser, "alice@example.org").status_code == 303


# --- a browser that has signed in as this person before ------------------------------------------------


@pytest.fixture
def known(browser, people):
    """The browser of Alice, in which she has signed in before."""
    enter(browser, "alice@example.org")
    browser.client.delete_cookie(SESSION_COOKIE, domain="tocsin.example.org")
    return browser


@pytest.fixture
def stranger(app):
    """A browser in which nobody has signed in."""
    return PageBrowser(app)


def test_strangers_lock_nobody_out_of_a_known_browser(known, stranger, checked):
    for _ in range(12):
        enter(stranger, "alice@example.org", "wrong password")
    assert enter(stranger, "alice@example.org").status_code == 429

    with contextlib.ExitStack() as stack:
        take_all(password_checks.of_strangers, stack)
        checked.clear()
        assert enter(known, "alice@example.org").status_code == 303
    assert len(checked) == 1


def test_the_failures_of_a_known_browser_count_apart(known, stranger, monkeypatch):
    for _ in range(12):
        enter(stranger, "alice@example.org", "wrong password")
    found = [enter(known, "alice@example.org", "wrong password").status_code for _ in range(11)]

    assert found == [400] * 10 + [429]
    assert enter(known, "alice@example.org").status_code == 429


def test_a_known_browser_is_known_for_its_person_only(known, people):
    """A cookie of their own helps nobody against others, also not against somebody with the same address."""
    for _ in range(10):
        enter(known, "mallory@example.net", "wrong password")
    assert enter(known, "mallory@example.net").status_code == 429

    User.update(email="mallory@example.net").where(User.id == people.alice.id).execute()
    assert enter(known, "mallory@example.net", "wrong password").status_code == 400
    with store().write_transaction():
        passwords.store_hash(people.alice, passwords.make_hash("the password of alice"), store().now())
    # It is the password of Mallory, and is not checked against hers.
    assert enter(known, "mallory@example.net").status_code == 400


@pytest.mark.parametrize("value", ["x", "WyJhIiwiYiJd.x", ""])
def test_a_forged_cookie_makes_no_browser_known(stranger, people, value):
    stranger.client.set_cookie(DEVICE_COOKIE, value, domain="tocsin.example.org", secure=True)
    for _ in range(10):
        enter(stranger, "alice@example.org", "wrong password")

    assert enter(stranger, "alice@example.org").status_code == 429


def test_the_cookie_of_a_known_browser_ends_with_the_key_of_links(known, people):
    for _ in range(10):
        enter(known, "bob@example.org", "wrong password")
    with store().write_transaction():
        signed_links.rotate_key()

    for _ in range(10):
        enter(known, "alice@example.org", "wrong password")
    assert enter(known, "alice@example.org").status_code == 429


# --- limits of clients -------------------------------------------------------------------------------


def test_right_passwords_do_not_count_for_the_client(browser, people, monkeypatch):
    """A whole office signs in in the morning."""
    monkeypatch.setattr(attempts, "PASSWORD_OF_CLIENT", attempts.Limit("password client", 3, 60))
    for _ in range(5):
        browser.client.delete_cookie(DEVICE_COOKIE, domain="tocsin.example.org")
        assert enter(browser, "alice@example.org").status_code == 303


def test_beyond_a_limit_no_password_is_checked(browser, people, checked, monkeypatch):
    """Wrong passwords from many networks cost a bounded time, and only for some seconds."""
    monkeypatch.setattr(attempts, "PASSWORD_OF_ALL", attempts.Limit("password all", 3, 10))
    for number in range(6):
        browser.get("/sign-in/")
        answer = browser.client.post(
            "/sign-in/",
            base_url=HOST,
            data={"csrf": browser.get_token(), "address": f"p{number}@example.org", "password": "wrong"},
            environ_base={"REMOTE_ADDR": f"198.51.100.{number}"},
        )

    assert (answer.status_code, len(checked)) == (429, 3 * people_of_address.MAX_ACCOUNTS)
    assert int(answer.headers["Retry-After"]) <= 10


def send_through_proxy(browser, address, password="wrong password", peer="198.51.100.7"):
    browser.get("/sign-in/")
    return browser.client.post(
        "/sign-in/",
        base_url=HOST,
        data={"csrf": browser.get_token(), "address": address, "password": password},
        headers={"X-Forwarded-For": "192.0.2.9"},
        environ_base={"REMOTE_ADDR": peer},
    )


def test_the_network_of_an_unknown_proxy_is_not_counted(browser, people, monkeypatch):
    """All people share it, and one of them would lock out all others."""
    monkeypatch.setattr(attempts, "PASSWORD_OF_CLIENT", attempts.Limit("password client", 3, 60))
    found = [send_through_proxy(browser, f"person{number}@example.org").status_code for number in range(5)]

    assert found == [400] * 5
    assert [row.address for row in UntrustedProxy.select()] == ["198.51.100.7"]
    (finding,) = find_untrusted_proxies(store().now())
    assert "198.51.100.7" in finding.what
    assert "TOCSIN_TRUSTED_PROXIES" in finding.what
    assert list(find_untrusted_proxies(store().now() + timedelta(days=2))) == []


def test_the_client_of_a_trusted_proxy_is_counted(browser, people, monkeypatch):
    monkeypatch.setattr(attempts, "PASSWORD_OF_CLIENT", attempts.Limit("password client", 3, 60))
    settings = browser.app.config["SETTINGS"]
    monkeypatch.setitem(
        browser.app.config, "SETTINGS", replace(settings, trusted_proxies=("198.51.100.0/24",))
    )
    found = [send_through_proxy(browser, f"person{number}@example.org").status_code for number in range(4)]

    assert found == [400, 400, 400, 429]
    assert UntrustedProxy.select().count() == 0


def test_the_store_keeps_few_unknown_proxies(browser, people, monkeypatch):
    monkeypatch.setattr(clients, "MAX_PROXIES", 2)
    for number in range(4):
        send_through_proxy(browser, "alice@example.org", peer=f"198.51.100.{number}")

    assert UntrustedProxy.select().count() == 2
