"""All pages of signed-in people in Chromium, on a phone and on a desktop: each can be read by everybody,
without another host, without sideways scroll, and without script.

`make pages` writes what they look like into docs/pages/.
"""

import re
from datetime import UTC, datetime

import pytest

from models.links import signed_links
from models.links.signed_links import Invitation
from models.sign_in import links
from models.store.store import store
from models.tables.accounts import User
from models.tables.events import Receipt
from models.tables.schedules import Schedule
from tests.support.schedules.stored import layer
from tests.support.schedules.stored import schedule as add_schedule
from tests.support.web.server import run_server
from tests.support.web.site import (
    SIZES,
    find_obstacles,
    keep_screenshot,
    open_incidents,
    open_page,
    scrolls_sideways,
    serve_site,
)
from web import routes

__all__ = ["run_server"]

PAGES = {
    "incidents": "/",
    "incident": "/incidents/1/",
    "new-incident": "/incidents/new/",
    "postmortem": "/incidents/1/postmortem/",
    "why": "/why/",
    "trace": "/why/{trace_id}/",
    "simulation": "/why/simulate/",
    "on-call": "/on-call/",
    "schedule": "/on-call/{schedule_id}/",
    "schedule-month": "/on-call/{schedule_id}/?view=month",
    "figures": "/figures/",
    "mine": "/mine/",
    "check": "/check/",
}
# Pages without a screenshot: of the sign-in, of the session, and those that say that something is missing.
OTHERS = {
    "/me/sign-in/": 200,
    "/me/tokens/": 200,
    "/audit/": 200,
    "/changes/": 200,
    "/incidents/999/": 404,
    "/no-such-page/": 404,
    "/why/?trace_id=x": 400,
}
WITHOUT_SESSION = {
    "/": 200,
    "/sign-in/": 200,
    "/join/{invitation}": 200,
    "/join/x": 404,
    "/sign-in/link/{sign_in}": 200,
    "/sign-in/link/x": 404,
    "/no-such-page/": 404,
}
# Pages whose answer is no page to read: files, redirects, and a text as a download.
NO_PAGES = {
    "/static/<name>", "/manifest.webmanifest", "/incidents/<incident>/postmortem.md",
    "/sign-in/provider/", "/sign-in/provider/callback/",
}  # fmt: skip


def test_each_page_is_read_below():
    read = {re.sub("[?].*", "", path) for path in (*PAGES.values(), *OTHERS, *WITHOUT_SESSION)}
    shown = {re.sub("{[a-z_]+}", "1", path) for path in read}
    paths = {page.path for page in routes.PAGES if page.method == "GET"} - NO_PAGES

    assert {path for path in paths if re.sub("<[a-z_]+>", "1", path) not in shown} == set()


@pytest.fixture
def site(world, home, run_server):
    open_incidents(world)
    nights = layer(world.alice, world.bob, shift_length=12 * 3600, name="Nights")
    add_schedule(world.team, nights, layer(world.bob, name="Backup"), name="Payments on call")
    return serve_site(run_server, home)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_is_readable_for_everybody(chromium, site, world, size, scheme):
    page = open_page(chromium, site, world.alice, size, color_scheme=scheme)
    ids = {
        "trace_id": Receipt.select(Receipt.trace_id).first().trace_id,
        "schedule_id": Schedule.select().first().unique_id,
    }
    for name, path in PAGES.items():
        answer = page.goto(path.format(**ids))

        assert answer.status == 200, path
        assert not scrolls_sideways(page), path
        assert find_obstacles(page) == "", path
        assert page.problems == [], path
        if scheme == "light":
            keep_screenshot(page, f"{name}-{size}")
    for path, status in OTHERS.items():
        check(page, path, status)
    page.context.close()


def check(page, path: str, status: int) -> None:
    """Open a page of any status, and read it as people with a screen reader or little sight do."""
    answer = page.goto(path)

    assert answer.status == status, path
    assert not scrolls_sideways(page), path
    assert find_obstacles(page) == "", path


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_without_a_session_are_readable_for_everybody(chromium, site, world, size, scheme):
    User.update(is_verified=False).where(User.id == world.bob.id).execute()
    invitation = Invitation.for_user(User.get_by_id(world.bob.id))
    token = signed_links.get_signer().sign_invitation(invitation, datetime.now(UTC))
    with store().write_transaction():
        link = links.create(world.alice, datetime.now(UTC), links.MAIL_LIFE)
    sign_in = signed_links.get_signer().sign_sign_in(link.unique_id)
    page = open_page(chromium, site, None, size, color_scheme=scheme)
    for path, status in WITHOUT_SESSION.items():
        check(page, path.format(invitation=token, sign_in=sign_in), status)
    page.context.close()
