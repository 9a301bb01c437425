"""The page on which people manage their password and their sessions."""

import re

import pytest

from models.sign_in import passwords
from models.store.store import store
from models.tables.changes import Change
from models.tables.sign_in import Password, Session
from tests.support.web.browser import PageBrowser
from web.pages.sign_in.own import describe_browser

NEW = "a new and long password"


@pytest.fixture
def with_password(world):
    with store().write_transaction():
        passwords.store_hash(world.bob, passwords.make_hash("the old password"), store().now())


def test_a_person_without_a_password_sets_one(sign_in, world):
    browser = sign_in("bob")

    assert browser.post("/me/password/", new=NEW).status_code == 303
    assert "The password is set." in browser.follow().text
    assert passwords.verify(world.bob, NEW)
    assert Change.get().action == "password_changed"


def test_a_new_password_needs_the_current_one(sign_in, world, with_password):
    browser = sign_in("bob")

    assert browser.post("/me/password/", new=NEW, current="wrong").status_code == 400
    assert not passwords.verify(world.bob, NEW)
    assert browser.post("/me/password/", new=NEW, current="the old password").status_code == 303
    assert passwords.verify(world.bob, NEW)


def test_who_signed_in_by_a_link_may_have_forgotten_it(sign_in, browser, world, with_password):
    browser.start_session(world.bob, "link")

    assert browser.post("/me/password/", new=NEW).status_code == 303


def test_a_new_password_ends_all_other_sessions(sign_in):
    browser, other, others = sign_in("bob"), sign_in("bob"), sign_in("charlie")

    browser.post("/me/password/", new=NEW)

    found = [each.get("/me/sign-in/").status_code for each in (browser, other, others)]
    assert found == [200, 303, 200]


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("short", "at least 12"),
        ("x" * 201, "at most 200"),
        ("bob@example.org", "must not be the address"),
        ("abababababababab", "four different"),
    ],
)
def test_a_weak_password_is_refused_with_the_reason(sign_in, password, reason):
    answer = sign_in("bob").post("/me/password/", new=password)

    assert answer.status_code == 400
    assert reason in answer.text
    assert Password.select().count() == 0


def test_a_person_ends_a_session_of_another_browser(sign_in, world):
    browser, other = sign_in("bob"), sign_in("bob")
    lost = Session.select().order_by(Session.id.desc()).get()

    assert lost.unique_id in browser.get("/me/sign-in/").text
    assert browser.post(f"/me/sessions/{lost.unique_id}/end/").status_code == 303
    assert (browser.get("/me/sign-in/").status_code, other.get("/me/sign-in/").status_code) == (200, 303)


def test_a_person_ends_all_other_sessions(sign_in):
    browser, other, third = sign_in("bob"), sign_in("bob"), sign_in("bob")

    browser.post("/me/sessions/others/end/")

    found = [each.get("/me/sign-in/").status_code for each in (browser, other, third)]
    assert found == [200, 303, 303]


@pytest.mark.parametrize("who", ["alice", "mallory"])
def test_nobody_ends_the_session_of_another_person(sign_in, who):
    bobs = sign_in("bob")
    row = Session.get().unique_id

    sign_in(who).post(f"/me/sessions/{row}/end/")

    assert bobs.get("/me/sign-in/").status_code == 200


def test_the_page_runs_only_its_own_script_and_loads_nothing(sign_in):
    page = sign_in("bob").get("/me/sign-in/")

    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert re.search(r'<script nonce="([^"]+)"', page.text)[1] in policy
    assert page.headers["Cache-Control"] == "no-store"
    assert " src=" not in page.text


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64) Chrome/156.0 Safari/537.36 Edg/156.0", "Edge on Windows"),
        ("Mozilla/5.0 (Android 16; Mobile; rv:150.0) Gecko/150.0 Firefox/150.0", "Firefox on Android"),
        ("curl/8.0", "curl/8.0"),
        ("", "Unknown browser"),
    ],
)
def test_a_session_names_its_browser(user_agent, name):
    assert describe_browser(user_agent) == name


@pytest.mark.parametrize("path", ["/me/sign-in/", "/me/tokens/", "/audit/"])
def test_the_page_leads_back_to_the_incidents(sign_in, path):
    assert re.search(r'<a href="/">.*Incidents', sign_in("alice").get(path).text)


def test_strangers_do_not_use_up_the_attempts_with_the_current_password(sign_in, app, with_password):
    stranger = PageBrowser(app)
    for _ in range(11):
        stranger.get("/sign-in/")
        stranger.post("/sign-in/", address="bob@example.org", password="a wrong password")

    answer = sign_in("bob").post("/me/password/", current="the old password", new=NEW)
    assert answer.status_code == 303


def test_the_current_password_can_be_guessed_ten_times(sign_in, world, with_password):
    browser = sign_in("bob")
    for _ in range(10):
        answer = browser.post("/me/password/", current="a wrong password", new=NEW)
    assert "The current password is wrong." in answer.text

    answer = browser.post("/me/password/", current="the old password", new=NEW)
    assert "too many attempts" in answer.text
    assert Change.select().where(Change.action == "sign_in_failed").count() == 10


@pytest.mark.parametrize("path", ["/me/sessions/%00/end/", "/me/passkeys/%00/remove/"])
def test_an_id_that_cannot_exist_is_not_found(sign_in, path):
    browser = sign_in("bob")
    browser.get("/me/sign-in/")

    assert browser.post(path).status_code == 404
