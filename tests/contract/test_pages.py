"""Pages need a session, and their forms the token of it: for each line of PAGES."""

import re

from tests.support.contract.matrix import name
from tests.support.contract.requests import dump_all_rows
from tests.support.offenders import list_offenders
from web.http.permissions import ACCOUNT_PERMISSIONS, ADMIN, REQUIRED_ROLES, TEAM_PERMISSIONS
from web.routes import PAGES, ROUTES

GUARDED = [route for route in PAGES if route.auth == "session"]
# Without a session, they show a page for guests.
WITH_GUEST_PAGE = [route for route in GUARDED if route.guest is not None]
FORMS = [route for route in PAGES if route.method != "GET"]
# Pages for everybody: those with which people sign in.
OPEN = {
    "/sign-in/",
    "/sign-in/link/<token>",
    "/sign-in/mail/",
    "/sign-in/passkey/",
    "/sign-in/passkey/options/",
    "/sign-in/provider/",
    "/sign-in/provider/account/",
    "/sign-in/provider/callback/",
}
# Files that are the same for everybody.
FILES = {"/static/<name>", "/manifest.webmanifest"}


def build_path(route) -> str:
    return re.sub("<[a-z_]+>", "1", route.path)


def dump_rows():
    """Return all rows, without the sign of life that the page of a refusal writes."""
    return {table: rows for table, rows in dump_all_rows().items() if table != "liveness"}


def ask(browser, route, **headers):
    return browser._open(route.method, build_path(route), headers, {} if route.method != "GET" else None)


def test_only_files_and_the_pages_of_the_sign_in_need_no_session():
    paths = {auth: {route.path for route in PAGES if route.auth == auth} for auth in ("form", None)}
    assert paths == {"form": OPEN, None: FILES}
    assert {route.auth for route in PAGES} == {"session", "form", None}


def test_only_the_first_page_has_another_page_for_guests(browser, world):
    assert [name(route) for route in WITH_GUEST_PAGE] == ["GET /"]
    before = dump_rows()

    html = {"Accept": "text/html"}
    assert "/sign-in/" in browser.get("/", **html).text
    assert browser.get("/", Authorization=f"Bearer {world.tokens['alice']}", **html).status_code == 404
    assert dump_rows() == before


def test_each_page_names_a_permission():
    known = {*REQUIRED_ROLES, *ACCOUNT_PERMISSIONS, *TEAM_PERMISSIONS}

    assert {name(route): route.permission for route in GUARDED if route.permission not in known} == {}


def test_no_page_is_under_the_path_of_the_interface():
    assert [route.path for route in PAGES if route.path.startswith("/api/")] == []
    assert [route.path for route in ROUTES if route.auth in ("session", "form")] == []


def test_without_a_session_a_page_shows_and_changes_nothing(browser, world):
    before = dump_rows()

    def check(route):
        answer = ask(browser, route)
        assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (303, "/sign-in/")
        with_token = ask(browser, route, Authorization=f"Bearer {world.tokens['alice']}")
        assert with_token.status_code == 303
        assert dump_rows() == before

    assert list_offenders(check, [each for each in GUARDED if each.guest is None], name) == []


def test_a_form_without_its_token_changes_nothing(sign_in, browser):
    signed_in = sign_in("alice")
    before = dump_rows()

    def check(route):
        assert ask(signed_in if route.auth == "session" else browser, route).status_code == 403
        assert dump_rows() == before

    assert list_offenders(check, FORMS, name) == []


def test_pages_of_admins_are_refused_to_others(sign_in):
    browser = sign_in("bob")

    def check(route):
        fields = {"csrf": browser.get_token()} if route.method != "GET" else None
        assert browser._open(route.method, build_path(route), {}, fields).status_code == 403

    assert list_offenders(check, [each for each in GUARDED if each.permission == ADMIN], name) == []
