"""Passkeys in Chromium, with its virtual authenticator: a person adds one, and signs in with it."""

import pytest

from models.sign_in import sessions
from models.sign_in.sessions import Browser
from models.store.store import store
from models.tables.sign_in import Passkey, Session
from runtime.settings import load
from tests.support.polling import wait_until
from tests.support.web.server import run_server
from web.app import create_app

__all__ = ["run_server"]


@pytest.fixture
def site(world, home, run_server):
    """A running web server. Browsers offer passkeys for this name without https."""
    server = run_server()
    server.url = f"http://localhost:{server.port}"
    server.settings = load({"TOCSIN_HOME": str(home), "TOCSIN_PUBLIC_URL": server.url})
    server.app = create_app(server.settings)
    return server


@pytest.fixture
def page(chromium, site, world):
    """A page of Chromium with a device for passkeys, in which Bob is signed in."""
    context = chromium.new_context()
    with store().write_transaction():
        secret = sessions.start(world.bob, "link", Browser(), store().now())
    context.add_cookies([{"name": "tocsin-session", "value": secret, "url": site.url}])
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    devtools = context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    added = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    page.set_verified = lambda is_verified: devtools.send(
        "WebAuthn.setUserVerified",
        {"authenticatorId": added["authenticatorId"], "isUserVerified": is_verified},
    )
    yield page
    context.close()


def add_passkey(page, site) -> None:
    page.goto(f"{site.url}/me/sign-in/")
    page.get_by_label("Name of the new passkey").fill("my phone")
    page.get_by_role("button", name="Add a passkey").click()
    page.get_by_text("The passkey is added.").wait_for()


def sign_out(page) -> None:
    page.get_by_role("button", name="Sign out", exact=True).last.click()
    page.get_by_role("heading", name="Sign in to Tocsin").wait_for()


def test_a_person_adds_a_passkey_and_signs_in_with_it(page, site, world):
    add_passkey(page, site)
    assert (Passkey.get().name, Passkey.get().user) == ("my phone", world.bob)
    sign_out(page)
    assert Session.select().count() == 0

    page.goto(f"{site.url}/sign-in/?next=/me/sign-in/")
    page.get_by_role("button", name="Sign in with a passkey").click()

    page.get_by_role("heading", name="My sign-in").wait_for()
    assert Session.get().method == "passkey"
    assert Passkey.get().sign_count > 0
    assert page.problems == []


def test_a_removed_passkey_signs_nobody_in(page, site, world):
    add_passkey(page, site)
    page.get_by_role("button", name="Remove the passkey my phone").click()
    page.get_by_text("The passkey is removed.").wait_for()
    sign_out(page)

    page.get_by_role("button", name="Sign in with a passkey").click()

    page.get_by_text("This passkey was refused.").wait_for()
    assert Session.select().count() == 0


def test_a_passkey_of_another_site_is_not_accepted(page, site, world):
    add_passkey(page, site)
    sign_out(page)
    site.app.config["SETTINGS"] = load({"TOCSIN_PUBLIC_URL": "http://localhost:1"})

    page.get_by_role("button", name="Sign in with a passkey").click()

    page.get_by_text("This passkey was refused.").wait_for()


def test_a_device_that_does_not_check_its_person_is_refused(page, site):
    add_passkey(page, site)
    sign_out(page)
    page.set_verified(False)

    page.get_by_role("button", name="Sign in with a passkey").click()

    page.get_by_text("The device did not confirm it.").wait_for()
    assert wait_until(lambda: Session.select().count() == 0)


def test_without_a_secure_address_the_page_says_why(page, site):
    site.app.config["SETTINGS"] = load({"TOCSIN_PUBLIC_URL": "http://tocsin.example.org"})

    page.goto(f"{site.url}/sign-in/")

    assert "Passkeys need https" in page.inner_text("main")
    assert page.get_by_role("button", name="Sign in with a passkey").count() == 0
