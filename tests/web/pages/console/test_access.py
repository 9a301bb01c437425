"""Who may see and use the pages: generated from the list of pages."""

import re
from datetime import UTC, datetime

import pytest

from models.changes.record import Actor, ChangedObject, Content, add_change
from models.domain.enums import AccountRole, TeamRole, Way, WorkState
from models.domain.reasons import make_reason
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.store.store import store
from models.tables.accounts import CustomRole, User
from models.tables.changes import Change
from models.tables.events import Event, Receipt
from models.tables.schedules import ShiftSwap
from models.tables.teams import TeamMember
from tests.support.offenders import list_offenders
from tests.support.schedules.stored import layer, schedule
from tests.support.web.browser import PageBrowser
from web.http.permissions import ADMIN
from web.pages import start
from web.routes import PAGES

OF_SESSIONS = [page for page in PAGES if page.auth == "session"]
CONSOLE = [page for page in OF_SESSIONS if page.view.__module__.startswith("web.pages.console.")]
SHOWN = [page for page in OF_SESSIONS if page.method == "GET"]
WITH_IDS = [page for page in CONSOLE if "<" in page.path]
STRANGE = "3f2c0e9a-1b7d-4c52-9a58-0c5d2f1e7a44"


def name(page) -> str:
    return f"{page.method} {page.path}"


@pytest.fixture
def ids(world, open_incident):
    """The ids of objects of Alice's team, by their names in paths."""
    open_incident()
    event = Event.get()
    Event.update(state=WorkState.DEAD_LETTER, error=make_reason("requested", by="x")).execute()
    row = schedule(world.team, layer(world.alice))
    return {
        "incident": "1",
        "trace_id": Receipt.get().trace_id,
        "dead_letter_id": event.unique_id,
        "schedule_id": row.unique_id,
        "swap_id": add_swap(row, world).unique_id,
        "change_id": rename_service(world).unique_id,
    }


def rename_service(world) -> Change:
    """Record that Alice changed the name of the service, and return the change."""
    changed = ChangedObject("service", world.service.unique_id, "Kiosk", 2, team=world.team.id)
    content = Content("changed", [{"field": "name", "before": "Kiosk", "after": world.service.name}])
    with store().write_transaction():
        actor = Actor("Alice", Way.PAGE, world.alice)
        add_change(world.account.id, store().now(), actor, changed, content, make_short_id())
    return Change.get()


def add_swap(row, world) -> ShiftSwap:
    at = datetime(2100, 1, 1, tzinfo=UTC)
    times = dict.fromkeys(("creation_date", "asked_start", "asked_end", "returned_start", "returned_end"), at)
    return ShiftSwap.create(
        unique_id=make_uuid(), schedule=row, asker=world.alice, partner=world.bob, **times
    )


def fill(page, ids) -> str:
    """Return the path of a page with these ids; others are of objects that do not exist."""
    return re.sub("<([a-z_]+)>", lambda found: ids.get(found[1], STRANGE), page.path)


def request(browser, page, path):
    return browser.get(path) if page.method == "GET" else browser.post(path)


def test_nobody_sees_a_page_without_a_session(browser):
    def check(page):
        answer = request(browser, page, page.path.replace("<", "").replace(">", ""))
        if page.guest is start.show:
            assert (answer.status_code, "Sign in" in answer.text) == (200, True)
        else:
            assert (answer.status_code, answer.headers["Location"].startswith("/sign-in/")) == (303, True)

    assert list_offenders(check, OF_SESSIONS, name) == []


# Who looks at the pages of Alice's team. A reader has a custom role that may only read incidents.
PEOPLE = ("owner", "admin", "manager", "member", "reader", "outsider", "other account")
FIRST_NAMES = {"owner": "alice", "member": "bob", "outsider": "charlie", "other account": "mallory"}


@pytest.fixture
def people(world, now):
    """The people by what they are. All but the owner of the other account are in the account of the team."""
    found = {kind: getattr(world, first) for kind, first in FIRST_NAMES.items()}
    for kind, role in (
        ("admin", AccountRole.ADMIN),
        ("manager", AccountRole.USER),
        ("reader", AccountRole.USER),
    ):
        found[kind] = provisioning.create_user(world.account, f"{kind}@example.org", role, now)
    TeamMember.create(
        unique_id=make_uuid(),
        team=world.team,
        user=found["manager"],
        role=TeamRole.MANAGER,
        joining_date=now,
    )
    reads = CustomRole.create(
        unique_id=make_uuid(),
        account=world.account,
        name="Reader",
        permissions=["incident_read"],
        creation_date=now,
    )
    User.update(custom_role=reads).where(User.id == found["reader"].id).execute()
    return {kind: User.get_by_id(user.id) for kind, user in found.items()}


def expect_status(page, kind: str) -> int:
    """Return the status of a page for this person, from its permission and its path alone."""
    if page.permission == ADMIN:
        return 200 if kind in ("owner", "admin", "other account") else 403
    if page not in WITH_IDS:
        # Lists show what the person may read, so they are shown to everybody.
        return 200
    if kind == "other account":
        return 404
    if kind == "outsider" or (kind == "reader" and page.permission != "incident_read"):
        return 403
    # The postmortem has a permission of its own.
    return 403 if kind == "reader" and "postmortem" in page.path else 200


@pytest.mark.parametrize("kind", PEOPLE)
def test_each_page_is_shown_to_those_with_its_permission(app, people, ids, kind):
    browser = PageBrowser(app)
    browser.start_session(people[kind])

    shown = {name(page): browser.get(fill(page, ids)).status_code for page in SHOWN}

    assert shown == {name(page): expect_status(page, kind) for page in SHOWN}


@pytest.mark.parametrize("kind", ["reader", "outsider", "other account"])
def test_each_form_is_refused_to_those_without_its_permission(app, people, ids, kind):
    browser = PageBrowser(app)
    browser.start_session(people[kind])

    refused = [browser.post(fill(page, ids)).status_code for page in WITH_IDS if page.method == "POST"]

    assert set(refused) == {404 if kind == "other account" else 403}


@pytest.mark.parametrize(("who", "status"), [("mallory", 404), ("charlie", 403)])
def test_objects_of_another_account_do_not_exist_and_those_of_another_team_are_refused(
    sign_in, ids, who, status
):
    browser = sign_in(who)

    answered = {name(page): request(browser, page, fill(page, ids)).status_code for page in WITH_IDS}

    assert answered == {name(page): status for page in WITH_IDS}


def test_a_form_without_its_token_is_refused(sign_in, ids):
    browser, forms = sign_in("alice"), [page for page in PAGES if page.method == "POST"]

    answered = {name(page): browser.post(fill(page, ids), csrf="0" * 64).status_code for page in forms}

    assert answered == {name(page): 403 for page in forms}


def test_each_page_loads_files_of_this_host_only(sign_in, ids):
    browser = sign_in("alice")

    def check(page):
        answer = browser.get(fill(page, ids))
        policy = answer.headers["Content-Security-Policy"]
        assert answer.status_code == 200
        assert "unsafe-inline" not in policy
        assert "default-src 'none'" in policy
        assert answer.headers["Cache-Control"] == "no-store"

    assert list_offenders(check, SHOWN, name) == []


def test_each_page_has_the_same_headers_for_head(sign_in, ids):
    browser = sign_in("alice")

    def check(page):
        path = fill(page, ids)
        answer = browser._open("HEAD", path, {})
        assert (answer.status_code, answer.data) == (200, b"")
        assert answer.headers["Content-Type"] == browser.get(path).headers["Content-Type"]

    assert list_offenders(check, SHOWN, name) == []


def test_open_pages_serve_head_too(browser):
    def check(page):
        path = page.path.replace("<name>", "tocsin.css").replace("<token>", "x")
        assert browser._open("HEAD", path, {}).status_code == browser.get(path).status_code

    # To begin and to end the sign-in by a provider does something.
    opened = [
        page
        for page in PAGES
        if page.method == "GET" and page.auth != "session" and "/provider/" not in page.path
    ]
    assert list_offenders(check, opened, name) == []


@pytest.mark.parametrize("path", ["/sign-in/provider/", "/sign-in/provider/callback/"])
def test_a_page_that_does_something_refuses_head(browser, path):
    assert browser._open("HEAD", path, {}).status_code == 405
