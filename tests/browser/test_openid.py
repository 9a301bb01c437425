"""People sign in at a certified OpenID provider, in Chromium."""

import pytest
from playwright.sync_api import expect

from models.domain.channels import USER_EMAIL_CHANNEL
from models.tables.accounts import Account, User
from models.tables.sign_in import Identity, Session
from models.tables.teams import TeamMember
from models.tables.users import ContactMethod
from runtime.settings import load
from tests.support.web.openid_provider import CLIENT_ID, CLIENT_SECRET
from tests.support.web.real_openid_provider import run_real_provider
from tests.support.web.server import run_server
from tests.support.web.site import open_page, serve_site
from web.app import create_app
from web.pages.sign_in import provider_client

__all__ = ["run_server"]

PEOPLE = {
    "bob-at-work": {"email": "Bob@example.org", "email_verified": True, "groups": ["sre"]},
    "charlie-at-work": {"email": "charlie@example.org", "email_verified": True, "groups": ["sre", "chess"]},
    "alice-unproven": {"email": "alice@example.org", "email_verified": False},
    "dora": {"email": "dora@example.org", "email_verified": True},
}


@pytest.fixture
def site(world, home, run_server):
    """A running web server whose people sign in at the provider."""
    for cached in (provider_client._load_metadata, provider_client._load_keys):
        cached.cache_clear()
    server = serve_site(run_server, home)
    with run_real_provider(server.url, PEOPLE) as issuer:
        openid = {
            "TOCSIN_OIDC_ISSUER": issuer,
            "TOCSIN_OIDC_NAME": "Example Login",
            "TOCSIN_OIDC_CLIENT_ID": CLIENT_ID,
            "TOCSIN_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "TOCSIN_OIDC_GROUPS": "sre=Payments",
        }
        server.settings = load({"TOCSIN_HOME": str(home), "TOCSIN_PUBLIC_URL": server.url, **openid})
        server.app = create_app(server.settings)
        yield server


@pytest.fixture
def page(chromium, site):
    page = open_page(chromium, site, None)
    yield page
    page.context.close()


def sign_in(page, name: str, path: str = "/sign-in/") -> None:
    page.goto(path)
    page.get_by_role("link", name="Sign in with Example Login").click()
    enter(page, name)


def enter(page, name: str) -> None:
    """Enter the name at the provider, and agree that Tocsin reads the claims."""
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    if page.get_by_role("button", name="Continue").count():
        page.get_by_role("button", name="Continue").click()


def test_an_invited_person_joins_and_comes_to_the_page_that_was_asked_for(page, world):
    ContactMethod.update(verified_value=None).where(ContactMethod.user == world.bob).execute()
    assert not world.bob.is_verified
    page.goto("/me/sign-in/")
    page.get_by_role("link", name="Sign in with Example Login").click()
    enter(page, "bob-at-work")

    expect(page.get_by_role("heading", name="My sign-in")).to_be_visible()
    expect(page.get_by_text("bob@example.org").first).to_be_visible()
    assert User.get_by_id(world.bob.id).is_verified
    assert Identity.get().subject == "bob-at-work"
    mail = ContactMethod.contact_type == USER_EMAIL_CHANNEL
    assert ContactMethod.get(ContactMethod.user == world.bob, mail).verified_value == "bob@example.org"


def test_the_groups_of_the_person_are_teams(page, world):
    sign_in(page, "charlie-at-work")

    expect(page.get_by_role("heading", name="Incidents")).to_be_visible()
    member = TeamMember.select().where(TeamMember.user == world.charlie, TeamMember.team == world.team)
    assert member.exists()


@pytest.mark.parametrize("name", ["alice-unproven", "dora"])
def test_nobody_else_gets_in(page, name):
    sign_in(page, name)

    expect(page.get_by_role("alert")).to_contain_text("No member of this Tocsin has your identity")
    assert Session.select().count() == 0


def test_a_token_needs_a_new_sign_in_at_the_provider(page, world):
    sign_in(page, "bob-at-work")
    page.goto("/me/tokens/")
    page.get_by_role("link", name="Sign in again").click()
    page.get_by_role("link", name="Sign in with Example Login").click()
    # The session at the provider is not enough.
    enter(page, "bob-at-work")
    page.get_by_label("What it is for").fill("laptop")
    page.get_by_role("button", name="Create token").click()

    expect(page.get_by_text("This is the new token.")).to_be_visible()


def test_a_person_with_two_accounts_chooses_one(page, world):
    both = {"email": "charlie@example.org", "verified_email": "charlie@example.org"}
    User.update(both).where(User.id == world.mallory.id).execute()
    account = Account.get_by_id(world.mallory.account_id)
    sign_in(page, "charlie-at-work", "/sign-in/?next=/me/sign-in/")
    page.get_by_role("button", name=account.name, exact=True).click()

    expect(page.get_by_role("heading", name="My sign-in")).to_be_visible()
    assert Session.get().user == world.mallory


def test_a_refusal_at_the_provider_is_shown(page):
    page.goto("/sign-in/")
    page.get_by_role("link", name="Sign in with Example Login").click()
    page.get_by_role("link", name="Cancel").click()

    expect(page.get_by_role("alert")).to_contain_text("did not sign you in")
