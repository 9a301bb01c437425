"""Pages need a session: its cookie, its end, its rights, and the token of its forms."""

from datetime import timedelta

import pytest
import time_machine

from models.domain.enums import AccountRole, TeamRole
from models.sign_in import sessions
from models.store.ids import digest
from models.store.peewee_internals import get_values
from models.store.store import store
from models.tables.accounts import CustomRole, User
from models.tables.sign_in import Session
from models.tables.teams import TeamMember
from tests.support import stores
from tests.support.web.browser import FORM_COOKIE, SESSION_COOKIE, TOKEN, find_token
from tests.support.web.site import open_incidents
from web.pages import forms
from web.pages.forms import find_next

OWN = "/me/sign-in/"
# The script of a page sends it.
POLL = {"X-Requested-With": "fetch"}


def test_a_page_redirects_to_the_sign_in_page_and_names_itself(browser):
    answer = browser.get("/me/sign-in/?done=password")

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in/?next=/me/sign-in/%3Fdone%3Dpassword"


def test_a_page_shows_itself_to_the_person_of_the_session(sign_in):
    page = sign_in("bob").get(OWN)

    assert page.status_code == 200
    assert "bob@example.org" in page.text


def test_a_script_gets_401_instead_of_the_sign_in_page(browser):
    answer = browser.get(OWN, **{"X-Requested-With": "fetch"})

    assert (answer.status_code, "Location" in answer.headers) == (401, False)


def test_the_cookie_of_a_session_is_no_token_of_the_interface(sign_in, world):
    browser = sign_in("alice")
    secret = browser.get_cookie(SESSION_COOKIE)

    assert browser.get("/api/account/teams/").status_code == 401
    assert browser.get("/api/account/teams/", Authorization=f"Bearer {secret}").status_code == 401


def test_a_token_of_the_interface_opens_no_page(browser, world):
    answer = browser.get(OWN, Authorization=f"Bearer {world.tokens['alice']}")
    assert answer.status_code == 303

    browser.client.set_cookie(SESSION_COOKIE, world.tokens["alice"], domain="tocsin.example.org", secure=True)
    assert browser.get(OWN).status_code == 303


def test_the_store_has_only_a_digest_of_the_secret(sign_in):
    secret = sign_in("alice").get_cookie(SESSION_COOKIE)

    assert Session.get().digest == digest(secret)
    assert secret not in str(get_values(Session.get()))


@pytest.mark.skipif(bool(stores.SERVER), reason="the clock of PostgreSQL cannot be moved")
@pytest.mark.parametrize(
    ("pause", "status"),
    [
        (timedelta(days=13, hours=23), 200),
        (sessions.IDLE + timedelta(minutes=1), 303),
        (sessions.ABSOLUTE + timedelta(minutes=1), 303),
    ],
    ids=["used in time", "idle", "absolute"],
)
def test_a_session_ends_without_requests_and_at_its_absolute_end(sign_in, now, pause, status):
    with time_machine.travel(now, tick=False):
        browser = sign_in("alice")
    with time_machine.travel(now + pause, tick=False):
        assert browser.get(OWN).status_code == status


@pytest.mark.parametrize(("used", "is_valid"), [(True, True), (False, False)], ids=["used", "idle"])
def test_only_a_session_that_is_used_lives_on(world, now, used, is_valid):
    with store().write_transaction():
        secret = sessions.start(world.alice, "password", sessions.Browser(), now)
    if used:
        sessions.record_use(sessions.find(secret, now), now + timedelta(days=10))

    assert (sessions.find(secret, now + timedelta(days=20)) is not None) == is_valid
    assert sessions.find(secret, now + sessions.ABSOLUTE) is None


def test_the_session_of_a_removed_person_ends(sign_in, world):
    browser = sign_in("bob")
    User.update(removed_at=store().now()).where(User.id == world.bob.id).execute()

    assert browser.get(OWN).status_code == 303


def test_offboarding_ends_all_sessions(sign_in, ask, world):
    browser = sign_in("bob")
    body = {"username": world.bob.username}
    assert ask("POST", "/api/account/deleteuser/", body).status_code in (200, 204)

    assert browser.get(OWN).status_code == 303
    assert Session.select().count() == 0


def test_a_session_gets_a_new_secret_when_the_rights_change(sign_in, world):
    browser = sign_in("bob")
    old = browser.get_cookie(SESSION_COOKIE)
    User.update(role=AccountRole.ADMIN).where(User.id == world.bob.id).execute()

    assert browser.get(OWN).status_code == 200
    assert browser.get_cookie(SESSION_COOKIE) != old
    assert browser.get(OWN).status_code == 200
    assert sessions.find(old, store().now() + sessions.PREVIOUS_VALID) is None


def test_an_open_page_works_on_after_a_change_of_rights(sign_in, ask, world):
    browser = sign_in("bob")
    old = browser.get_cookie(SESSION_COOKIE)
    token = find_token(browser.get(OWN))
    change_team_role(ask, world)

    # The poll of this page and of a second one.
    for _ in range(2):
        assert browser.get("/", **POLL).status_code == 200
        assert browser.get_cookie(SESSION_COOKIE) == old
    assert browser.get(OWN).status_code == 200
    assert browser.get_cookie(SESSION_COOKIE) != old
    change_team_role(ask, world)
    open_incidents(world)
    assert browser.post("/", csrf=token, act="acknowledge", incident="1").status_code == 303
    assert "1 incident acknowledged." in browser.follow().text


def test_requests_that_are_under_way_may_still_have_the_previous_secret(sign_in, ask, world):
    browser, late = sign_in("bob"), sign_in("bob")
    old = browser.get_cookie(SESSION_COOKIE)
    token = find_token(browser.get(OWN))
    change_team_role(ask, world)
    browser.get(OWN)
    set_session(late, old)
    assert late.get("/", **POLL).status_code == 200
    open_incidents(world)
    assert late.post("/", csrf=token, act="acknowledge", incident="1").status_code == 303

    # With the previous secret, nobody gets a new one.
    change_team_role(ask, world)
    assert late.get(OWN).status_code == 200
    assert late.get_cookie(SESSION_COOKIE) == old

    until = Session.get(Session.previous_digest == digest(old)).previous_until
    assert until <= store().now() + sessions.PREVIOUS_VALID
    Session.update(previous_until=store().now()).where(Session.previous_digest == digest(old)).execute()
    assert late.get("/", **POLL).status_code == 401
    assert late.get(OWN).status_code == 303
    assert browser.get(OWN).status_code == 200


def set_session(browser, secret):
    browser.client.set_cookie(SESSION_COOKIE, secret, domain="tocsin.example.org", secure=True)


def add_to_team(ask, world):
    path = f"/api/account/teams/{world.team.unique_id}/members/"
    assert ask("POST", path, {"user": world.charlie.username}).status_code == 201


def change_team_role(ask, world):
    row = TeamMember.get(TeamMember.user == world.bob, TeamMember.team == world.team)
    path = f"/api/account/teams/{world.team.unique_id}/members/{row.unique_id}/"
    assert ask("PATCH", path, {"role": TeamRole.MANAGER}).status_code == 200


def change_custom_role(ask, world):
    role = ask("POST", "/api/account/customroles/", {"name": "Support", "permissions": []}).json["unique_id"]
    User.update(custom_role=CustomRole.get(CustomRole.unique_id == role)).where(
        User.id == world.bob.id
    ).execute()
    assert (
        ask("PATCH", f"/api/account/customroles/{role}/", {"permissions": ["team_read"]}).status_code == 200
    )


def change_team_permissions(ask, world):
    path = f"/api/account/teams/{world.team.unique_id}/permissions/"
    assert ask("PATCH", path, {"account_permissions": ["incident_read"]}).status_code == 200


@pytest.mark.parametrize(
    ("change", "who"),
    [
        (add_to_team, {"charlie"}),
        (change_team_role, {"bob"}),
        (change_custom_role, {"bob"}),
        (change_team_permissions, {"bob", "charlie"}),
    ],
)
def test_the_sessions_of_people_whose_rights_change_get_a_new_secret(sign_in, ask, world, change, who):
    browsers = {name: sign_in(name) for name in ("bob", "charlie", "mallory")}
    old = {name: browser.get_cookie(SESSION_COOKIE) for name, browser in browsers.items()}
    change(ask, world)

    for browser in browsers.values():
        assert browser.get(OWN).status_code == 200
    new = {name for name, browser in browsers.items() if browser.get_cookie(SESSION_COOKIE) != old[name]}
    assert new == who


def test_a_form_without_the_token_of_its_session_changes_nothing(sign_in):
    browser = sign_in("alice")
    other = sign_in("bob")
    before = Session.select().count()

    for token in ("", "0" * 64, "é", other.get_token()):
        assert browser.post("/sign-out/", csrf=token).status_code == 403
    assert Session.select().count() == before


def test_each_page_has_another_token_and_all_of_them_are_valid(sign_in):
    browser = sign_in("alice")

    tokens = [find_token(browser.get(OWN)) for _ in range(2)]

    assert tokens[0] != tokens[1]
    for token in tokens:
        assert browser.post("/me/sessions/others/end/", csrf=token).status_code == 303


def test_a_page_does_not_show_what_its_tokens_are_made_of(sign_in):
    browser = sign_in("alice")
    token = forms.derive_token(browser.get_cookie(SESSION_COOKIE))

    assert token not in browser.get(OWN).text
    assert browser.post("/sign-out/", csrf=token).status_code == 403


def test_all_forms_of_a_page_have_one_token(sign_in):
    assert len(set(TOKEN.findall(sign_in("alice").get(OWN).text))) == 1


def test_a_form_of_an_ended_session_leads_back_after_the_sign_in(browser):
    answer = browser.post("/me/password/", new="x", back=OWN)

    assert answer.headers["Location"] == "/sign-in/?next=/me/sign-in/"


def test_signing_out_ends_the_session_and_removes_the_cookie(sign_in):
    browser = sign_in("alice")
    secret = browser.get_cookie(SESSION_COOKIE)

    answer = browser.post("/sign-out/")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in/")
    assert browser.get_cookie(SESSION_COOKIE) is None
    assert sessions.find(secret, store().now()) is None


def test_cookies_are_for_this_host_and_no_script(browser):
    browser.get("/sign-in/")

    (header,) = browser.last.headers.getlist("Set-Cookie")
    assert header.startswith(f"{FORM_COOKIE}=")
    for part in ("Secure", "HttpOnly", "Path=/", "SameSite=Lax"):
        assert part in header
    assert "Domain" not in header


def test_a_session_check_costs_one_statement(sign_in, statements):
    browser = sign_in("alice")
    browser.get(OWN)

    with statements() as seen:
        browser.get("/me/nothing/")
    assert [text for text, _ in seen if '"session"' in text] == []
    with statements() as seen:
        assert browser.post("/me/sessions/others/end/", csrf="wrong").status_code == 403
    texts = [text for text, _ in seen if "clock_timestamp" not in text and "liveness" not in text]
    assert [text for text in texts if '"session"' in text] == [texts[0]]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/incidents/?status=open", "/incidents/?status=open"),
        ("/", "/"),
        ("", "/"),
        (None, "/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("/\t/evil.example/", "/"),
        ("/%0a/x", "/%0a/x"),
        ("javascript:alert(1)", "/"),
        ("evil.example", "/"),
        ("/é", "/"),
        ("/" + "a" * 2_000, "/"),
    ],
)
def test_the_way_back_stays_on_this_host(text, path):
    assert find_next(text) == path


def test_a_person_has_a_limited_number_of_sessions(world, now):
    for minute in range(sessions.MAX_SESSIONS + 2):
        with store().write_transaction():
            sessions.start(world.alice, "password", sessions.Browser(), now + timedelta(minutes=minute))

    found = sessions.list_sessions(world.alice, now + timedelta(hours=1))
    assert len(found) == sessions.MAX_SESSIONS
    assert found[-1].creation_date == now + timedelta(minutes=2)
