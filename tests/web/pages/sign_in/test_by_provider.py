"""Sign in at an OpenID provider: which answers are refused, and what no real provider can be made to answer.

tests/browser/test_openid.py signs people in at a certified provider.
"""

import re
import time
from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc.jwk import OctKey, RSAKey

from models.domain.enums import AccountRole, TeamRole
from models.domain.values import replace
from models.sign_in import identities, people, sessions
from models.store.store import store
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.sign_in import Identity, Session, SignInStep
from models.tables.teams import TeamMember
from runtime.settings import load
from tests.support.web.browser import PageBrowser
from tests.support.web.openid_provider import CLIENT_ID, CLIENT_SECRET, run_provider
from tocsin.commands.writing import COMMAND
from web.pages.sign_in import provider_client

CALLBACK = "/sign-in/provider/callback/"
ALICE = {"sub": "alice-at-provider", "email": "alice@example.org", "email_verified": True}


@pytest.fixture
def provider(app, home):
    """A provider that signs Alice in, and settings that name it."""
    for cached in (provider_client._load_metadata, provider_client._load_keys):
        cached.cache_clear()
    with run_provider() as found:
        found.person = dict(ALICE)
        app.config["SETTINGS"] = load(
            {
                "TOCSIN_HOME": str(home),
                "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
                "TOCSIN_OIDC_ISSUER": found.issuer,
                "TOCSIN_OIDC_NAME": "Example Login",
                "TOCSIN_OIDC_CLIENT_ID": CLIENT_ID,
                "TOCSIN_OIDC_CLIENT_SECRET": CLIENT_SECRET,
                "TOCSIN_OIDC_GROUPS": "sre=Payments, dba=Databases, boss=Elsewhere",
            }
        )
        yield found


def begin(browser, path="/me/sign-in/") -> str:
    answer = browser.get(f"/sign-in/provider/?{urlencode({'next': path})}")
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


def sign_in(browser, provider, path="/me/sign-in/"):
    return browser.get(f"{CALLBACK}?{urlencode(provider.authorize(begin(browser, path)))}")


def test_a_member_signs_in_with_a_verified_address(browser, provider, world):
    answer = sign_in(browser, provider)

    assert (answer.status_code, answer.headers["Location"]) == (303, "/me/sign-in/")
    assert "alice@example.org" in browser.follow().text
    assert (Identity.get().subject, Identity.get().user) == ("alice-at-provider", world.alice)
    assert [each.action for each in Change.select().order_by(Change.id)] == [
        "identity_added",
        "signed_in",
    ]


def test_the_sign_in_page_names_the_provider(browser, provider):
    assert "Sign in with Example Login" in browser.get("/sign-in/").text


def test_a_known_identity_needs_no_address(browser, provider, world):
    sign_in(browser, provider)
    User.update(email="alice2@example.org").where(User.id == world.alice.id).execute()
    provider.person = {"sub": ALICE["sub"]}

    assert sign_in(PageBrowser(browser.app), provider).status_code == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "alice@example.org"},
        {"email": "alice@example.org", "email_verified": False},
        {"email": "alice@example.org", "email_verified": "true"},
        {"email": "nobody@example.org", "email_verified": True},
        {"email": ["alice@example.org"], "email_verified": True},
        {},
    ],
    ids=["not said", "not verified", "as text", "not invited", "a list", "no address"],
)
def test_an_identity_without_a_verified_and_invited_address_is_refused(browser, provider, claims):
    provider.person = {"sub": "x", **claims}

    answer = sign_in(browser, provider)

    assert answer.status_code == 403
    assert "No member" in answer.text
    assert (Identity.select().count(), Session.select().count()) == (0, 0)


def test_another_identity_with_the_address_of_a_linked_member_is_refused(browser, provider):
    sign_in(browser, provider)
    provider.person = {**ALICE, "sub": "a successor with the address"}

    assert sign_in(PageBrowser(browser.app), provider).status_code == 403


def test_a_member_who_enters_the_address_of_another_person_gets_nothing(browser, provider, world):
    User.update(email="alice@example.org").where(User.id == world.mallory.id).execute()
    User.update(email="alice.old@example.org").where(User.id == world.alice.id).execute()

    assert sign_in(browser, provider).status_code == 403


def test_a_removed_person_does_not_come_back(browser, provider, world):
    sign_in(browser, provider)
    with store().write_transaction():
        people.remove_ways(world.alice)
        User.update(removed_at=store().now()).where(User.id == world.alice.id).execute()

    assert sign_in(PageBrowser(browser.app), provider).status_code == 403


def wrong_nonce(provider):
    provider.change_claims = lambda claims: claims.update(nonce="another")


def no_nonce(provider):
    provider.change_claims = lambda claims: claims.pop("nonce")


def wrong_audience(provider):
    provider.change_claims = lambda claims: claims.update(aud="another client")


def two_audiences_without_party(provider):
    provider.change_claims = lambda claims: claims.update(aud=[CLIENT_ID, "another"], azp="another")


def wrong_issuer(provider):
    provider.change_claims = lambda claims: claims.update(iss="http://evil.example")


def expired(provider):
    provider.change_claims = lambda claims: claims.update(iat=1_000, exp=2_000)


def no_subject(provider):
    provider.change_claims = lambda claims: claims.pop("sub")


def number_as_subject(provider):
    provider.change_claims = lambda claims: claims.update(sub=5)


def another_key(provider):
    provider.key = RSAKey.generate_key(2048, {"kid": "one"})


def secret_as_key(provider):
    provider.key, provider.algorithm = OctKey.import_key(CLIENT_SECRET.ljust(32)), "HS256"


def another_person_in_user_info(provider):
    provider.in_user_info = ("email", "email_verified")
    provider.user_info_subject = "mallory"


@pytest.mark.parametrize(
    "spoil",
    [
        wrong_nonce, no_nonce, wrong_audience, two_audiences_without_party, wrong_issuer, expired, no_subject,
        number_as_subject, another_key, secret_as_key, another_person_in_user_info,
    ],
)  # fmt: skip
def test_a_wrong_answer_of_the_provider_signs_nobody_in(browser, provider, spoil):
    spoil(provider)

    answer = sign_in(browser, provider)

    assert answer.status_code == 403
    assert 'role="alert"' in answer.text
    assert Session.select().count() == 0


@pytest.mark.parametrize("change", [{"state": "x"}, {"state": ""}, {"code": "x"}, {"iss": "http://evil"}])
def test_a_wrong_query_signs_nobody_in(browser, provider, change):
    query = {**provider.authorize(begin(browser)), **change}

    assert browser.get(f"{CALLBACK}?{urlencode(query)}").status_code == 403
    assert Session.select().count() == 0


def test_the_answer_works_only_in_the_browser_that_began_and_once(browser, provider):
    query = urlencode(provider.authorize(begin(browser)))

    assert PageBrowser(browser.app).get(f"{CALLBACK}?{query}").status_code == 400
    assert browser.get(f"{CALLBACK}?{query}").status_code == 303
    assert browser.get(f"{CALLBACK}?{query}").status_code == 400


def test_an_old_answer_is_refused(browser, provider):
    query = urlencode(provider.authorize(begin(browser)))
    SignInStep.update(ends_at=store().now() - timedelta(seconds=1)).execute()

    assert browser.get(f"{CALLBACK}?{query}").status_code == 400


def test_groups_are_teams_and_nothing_more(browser, provider, world):
    provider.person = {
        "sub": "charlie", "email": "charlie@example.org", "email_verified": True,
        "groups": ["sre", "boss", "owner", 5],
    }  # fmt: skip
    sign_in(browser, provider)

    own = TeamMember.select().where(TeamMember.user == world.charlie)
    found = {(each.team.name, each.role) for each in own}
    # "Elsewhere" is a team of another account.
    assert found == {("Billing", TeamRole.MANAGER), ("Payments", TeamRole.USER)}
    assert User.get_by_id(world.charlie.id).role == AccountRole.USER


def test_a_group_does_not_lower_a_role(browser, provider, world):
    provider.person = {**ALICE, "groups": ["sre"]}
    sign_in(browser, provider)

    assert TeamMember.get(TeamMember.user == world.alice).role == TeamRole.MANAGER


def test_a_provider_that_is_down_is_named_and_nothing_fails(browser, provider, app, home):
    provider.change_metadata = lambda metadata: metadata.update(issuer="http://evil.example")

    answer = browser.get("/sign-in/provider/")
    assert answer.status_code == 403
    assert "another issuer" in answer.text
    app.config["SETTINGS"] = load({"TOCSIN_HOME": str(home), "TOCSIN_OIDC_ISSUER": "http://127.0.0.1:9"})
    assert browser.get("/sign-in/provider/").status_code == 502


def test_without_a_provider_its_pages_do_not_exist(browser, world):
    assert browser.get("/sign-in/provider/").status_code == 404
    assert browser.get(CALLBACK).status_code == 404
    assert "provider" not in browser.get("/sign-in/").text


def test_the_way_back_stays_on_this_host(browser, provider):
    assert sign_in(browser, provider, "//evil.example").headers["Location"] == "/"


def test_groups_that_only_the_user_info_endpoint_has_are_read(browser, provider, world):
    provider.person = {
        "sub": "charlie", "email": "charlie@example.org", "email_verified": True, "groups": ["sre"],
    }  # fmt: skip
    provider.in_user_info = ("groups",)
    sign_in(browser, provider)

    assert TeamMember.select().where(TeamMember.user == world.charlie).count() == 2


def test_only_the_source_of_an_address_says_that_it_is_verified(browser, provider):
    """The ID token has an address without a word; UserInfo has verified another one."""
    provider.person = {"sub": "x", "email": "somebody@example.org", "email_verified": True}
    provider.change_claims = lambda claims: claims.update(email="alice@example.org")
    provider.in_user_info = ("email", "email_verified")

    assert sign_in(browser, provider).status_code == 403


def no_user_info(provider, world):
    provider.user_info_fails = True


def open_user_info(provider, world):
    provider.change_metadata = lambda found: found.update(userinfo_endpoint="http://login.example.org/me")


def odd_user_info(provider, world):
    provider.change_metadata = lambda found: found.update(userinfo_endpoint=["x"])


@pytest.mark.parametrize("spoil", [no_user_info, open_user_info, odd_user_info])
def test_people_sign_in_without_groups_if_only_groups_are_missing(browser, provider, world, spoil):
    spoil(provider, world)
    provider.person = {
        "sub": "charlie", "email": "charlie@example.org", "email_verified": True, "groups": ["sre"],
    }  # fmt: skip
    provider.in_user_info = ("groups",)

    assert sign_in(browser, provider).status_code == 303
    assert TeamMember.select().where(TeamMember.user == world.charlie).count() == 1


@pytest.mark.parametrize("spoil", [no_user_info, open_user_info, odd_user_info])
def test_nobody_signs_in_if_the_address_is_missing(browser, provider, world, spoil):
    spoil(provider, world)
    provider.in_user_info = ("email", "email_verified")

    assert sign_in(browser, provider).status_code in (403, 502)
    assert Session.select().count() == 0


def test_an_issuer_that_others_can_change_is_refused(browser, provider, app):
    settings = replace(app.config["SETTINGS"], oidc_issuer="http://login.example.org")
    app.config["SETTINGS"] = settings

    answer = browser.get("/sign-in/provider/")
    assert (answer.status_code, "must begin with https" in answer.text) == (403, True)


def test_a_member_who_is_not_linked_joins_no_team(browser, provider, world, monkeypatch):
    """The address of the member changes between the search and the link."""
    real = identities.link
    provider.person = {
        "sub": "charlie", "email": "charlie@example.org", "email_verified": True, "groups": ["sre"],
    }  # fmt: skip

    def link(*args):
        User.update(email="charles@example.org").where(User.id == world.charlie.id).execute()
        return real(*args)

    monkeypatch.setattr(identities, "link", link)

    assert sign_in(browser, provider).status_code == 403
    assert TeamMember.select().where(TeamMember.user == world.charlie).count() == 1


def test_a_group_that_came_later_is_a_team_too(browser, provider, world):
    provider.person = {"sub": "charlie", "email": "charlie@example.org", "email_verified": True}
    sign_in(browser, provider)
    provider.person["groups"] = ["sre"]
    sign_in(browser, provider)

    assert TeamMember.select().where(TeamMember.user == world.charlie).count() == 2


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    "url", ["http://login.example.org/x", "ftp://127.0.0.1/x", "", "https:///x", "http://["]
)
def test_an_endpoint_that_others_can_read_is_refused(browser, provider, name, url):
    provider.change_metadata = lambda metadata: metadata.update({name: url})

    answer = browser.get("/sign-in/provider/")
    assert answer.status_code == 403
    assert f"no usable {name}" in answer.text


def test_a_person_with_two_accounts_chooses_one(browser, provider, world):
    User.update(email="alice@example.org", verified_email="alice@example.org").where(
        User.id == world.mallory.id
    ).execute()

    page = sign_in(browser, provider)
    assert (page.status_code, Session.select().count(), Identity.select().count()) == (200, 0, 0)
    assert world.mallory.account.name in page.text
    answer = browser.post("/sign-in/provider/account/", person=world.mallory.username)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/me/sign-in/")
    assert Session.get().user == world.mallory
    # The choice is no end of the other account.
    other = PageBrowser(browser.app)
    assert sign_in(other, provider).status_code == 200
    assert other.post("/sign-in/provider/account/", person=world.alice.username).status_code == 303
    assert {row.user_id for row in Identity.select()} == {world.alice.id, world.mallory.id}


def test_nobody_chooses_the_account_of_another_person(browser, provider, world):
    User.update(email="alice@example.org", verified_email="alice@example.org").where(
        User.id == world.mallory.id
    ).execute()
    sign_in(browser, provider)

    assert browser.post("/sign-in/provider/account/", person=world.bob.username).status_code == 403
    # A choice is made once.
    assert browser.post("/sign-in/provider/account/", person=world.alice.username).status_code == 400
    assert Session.select().count() == 0


def test_a_choice_needs_the_browser_that_began(browser, provider):
    browser.get("/sign-in/")

    assert browser.post("/sign-in/provider/account/", person="x").status_code == 400


def test_an_address_that_only_looks_the_same_is_refused(browser, provider, world):
    """The small form of the Kelvin sign is a k of ASCII."""
    User.update(email="kim@example.org", verified_email="kim@example.org").where(
        User.id == world.alice.id
    ).execute()
    provider.person = {"sub": "x", "email": "\u212aim@example.org", "email_verified": True}

    assert sign_in(browser, provider).status_code == 403


def test_a_person_whose_ways_were_reset_meanwhile_is_not_signed_in(browser, provider, world, monkeypatch):
    real = identities.join_teams

    def join_teams(*args):
        real(*args)
        people.reset(world.alice, store().now(), COMMAND)

    monkeypatch.setattr(identities, "join_teams", join_teams)

    assert sign_in(browser, provider).status_code == 403
    assert (Session.select().count(), Identity.select().count()) == (0, 0)


@pytest.mark.parametrize(
    ("auth_time", "is_recent"),
    [(0, True), (30, True), (-3_600, False), (3_600, False), (None, False), (10**30, False)],
)
def test_a_sign_in_at_the_provider_is_recent_if_it_says_so(browser, provider, auth_time, is_recent):
    if isinstance(auth_time, int):
        auth_time += int(time.time())
    if auth_time is not None:
        provider.person["auth_time"] = auth_time
    sign_in(browser, provider)

    assert sessions.is_recent(Session.get(), store().now()) == is_recent


def test_the_proof_is_as_old_as_the_provider_says(browser, provider):
    provider.person["auth_time"] = int(time.time()) - 300
    sign_in(browser, provider)

    assert int(Session.get().proven_at.timestamp()) == provider.person["auth_time"]


@pytest.mark.parametrize(
    ("more", "is_recent"),
    [({}, True), ({"auth_time": 1_000}, False), ({"auth_time": 10**30}, False)],
    ids=["no time", "an old time", "no usable time"],
)
def test_a_new_sign_in_at_a_provider_that_sends_no_time_is_recent(browser, provider, more, is_recent):
    sign_in(browser, provider)
    assert browser.post("/me/tokens/", name="laptop", days="90").status_code == 303
    provider.person.update(more)
    url = browser.get("/sign-in/provider/?again=1&next=/me/tokens/").headers["Location"]
    assert browser.get(f"{CALLBACK}?{urlencode(provider.authorize(url))}").status_code == 303

    answer = browser.post("/me/tokens/", name="laptop", days="90")
    assert answer.status_code == (201 if is_recent else 303)


def test_a_provider_that_can_say_the_time_must_say_it(browser, provider):
    provider.change_metadata = lambda found: found.update(claims_supported=["sub", "auth_time"])
    sign_in(browser, provider)
    url = browser.get("/sign-in/provider/?again=1&next=/me/tokens/").headers["Location"]
    browser.get(f"{CALLBACK}?{urlencode(provider.authorize(url))}")

    assert browser.post("/me/tokens/", name="laptop", days="90").status_code == 303


def test_the_second_sign_in_asks_the_provider_for_a_proof(browser, provider, world):
    first = parse_qs(urlsplit(begin(browser)).query)
    browser.start_session(world.alice)
    Session.update(proven_at=None).execute()
    browser.post("/me/tokens/", name="laptop", days="90")
    path = re.search(r'href="(/sign-in/provider/[^"]+)"', browser.follow().text)[1].replace("&amp;", "&")
    again = parse_qs(urlsplit(browser.get(path).headers["Location"]).query)

    assert "prompt" not in first
    assert (again["prompt"], again["max_age"]) == (["login"], ["600"])
