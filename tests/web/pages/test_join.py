"""Invitations by e-mail, and the page that their link opens: GET shows it, POST joins once."""

import re
from datetime import timedelta

import pytest

from models.domain.enums import MessageStatus
from models.links import signed_links
from models.links.signed_links import LIFETIME, IncidentLink, Invitation
from models.sign_in import passwords
from models.store.peewee_internals import get_values
from models.tables.accounts import Account, Token, User
from models.tables.notifications import Message
from models.tables.teams import Team
from runtime.settings import load
from tests.support.relays import relay
from workers.delivery import deliver

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"


def deliver_due() -> list:
    """Send the due messages as a worker does, and return the mails."""
    with relay() as box:
        smtp = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
        deliver.configure(load({**smtp, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}))
        deliver.send_due(1)
    return box.mails


@pytest.fixture
def invite(ask, world):
    """invite(): Alice invites Dora. Returns the path of the link in Dora's mail."""

    def invite(**more) -> str:
        person = {"first_name": "Dora", "last_name": "", "email": "dora@example.org", **more}
        body = {"team": world.team.unique_id, "user_detail": person}
        assert ask("POST", "/api/account/api_invite/", body).status_code == 201
        ((to, mail),) = deliver_due()
        assert to == "dora@example.org"
        return re.search(r"https://tocsin\.example\.org(/join/\S+)", mail.get_content())[1]

    return invite


def find_dora() -> User:
    return User.get(User.email == "dora@example.org")


def state() -> tuple:
    return (get_values(find_dora()), Token.select().count())


def test_the_mail_names_the_inviter_and_the_account(ask, world):
    person = {"first_name": "Dora", "email": "dora@example.org"}
    ask("POST", "/api/account/api_invite/", {"team": world.team.unique_id, "user_detail": person})

    ((_, mail),) = deliver_due()

    assert mail["Subject"] == "[Tocsin] Invitation to Example"
    for words in ("Hello Dora,", "Alice invites you to Example", "Team:    Payments"):
        assert words in mail.get_content()


def test_each_invited_person_gets_a_mail(ask, world):
    people = [{"email": "dora@example.org"}, {"email": "eve@example.org"}]
    ask("POST", "/api/account/invite/", {"team": world.team.unique_id, "email_accounts": people})

    assert sorted(to for to, _ in deliver_due()) == ["dora@example.org", "eve@example.org"]


def test_get_changes_nothing(ask, invite):
    path = invite()
    before = state()

    for _ in range(3):
        page = ask("GET", path, who=None)

    assert page.status_code == 200
    for words in ("Join Example", "Payments", "dora@example.org", "<button"):
        assert words in page.text
    assert state() == before


def test_joining_gives_the_person_a_token(ask, invite):
    page = ask("POST", invite(), who=None)

    assert page.status_code == 200
    # Without a password, the pages need a sign-in.
    assert re.search('href="[^"]*/sign-in/"', page.text)
    found = re.search(r"<code>(\S+)</code>", page.text)[1]
    profile = ask("GET", "/api/user/profile/", who=None, headers={"Authorization": f"Bearer {found}"}).json
    assert profile["email"] == "dora@example.org"
    assert find_dora().is_verified
    assert Token.get(Token.user == find_dora()).name == "joined"


def test_the_page_ends_with_a_button_that_sends_a_test_message(ask, invite):
    path = invite()
    page = ask("POST", path, who=None)
    tested = ask("POST", path, who=None, data={"act": "test"})
    ((to, mail),) = deliver_due()

    assert "How shall we reach you?" in page.text
    assert "curl" not in page.text
    assert (tested.status_code, "A test message is on its way" in tested.text) == (200, True)
    assert (to, mail["Subject"]) == ("dora@example.org", "[Tocsin] Test message")


def test_who_has_not_joined_gets_no_test_message(ask, invite):
    assert ask("POST", invite(), who=None, data={"act": "test"}).status_code == 404
    assert deliver_due() == []


def test_the_token_of_an_invited_person_expires_and_the_page_says_when(ask, invite):
    page = ask("POST", invite(), who=None)

    token = Token.get(Token.user == find_dora())
    assert token.expires_at - token.created_at == timedelta(days=90)
    assert f"until {token.expires_at:%-d %B %Y}" in page.text
    assert "https://tocsin.example.org/api/tocsin/tokens/" in page.text


def test_a_link_works_only_once(ask, invite):
    path = invite()
    ask("POST", path, who=None)
    before = state()

    for method in ("GET", "POST"):
        again = ask(method, path, who=None)
        assert (again.status_code, "was used" in again.text) == (410, True)
    assert state() == before


def test_a_link_is_invalid_after_removal_a_new_address_or_seven_days(ask, invite, store):
    path = invite()
    user = find_dora()
    late = signed_links.get_signer().sign_invitation(
        Invitation.for_user(user), store.now() - LIFETIME - timedelta(seconds=1)
    )

    assert ask("POST", f"/join/{late}", who=None).status_code == 410
    User.update(email="other@example.org").where(User.id == user.id).execute()
    assert ask("POST", path, who=None).status_code == 404
    User.update(email="dora@example.org", removed_at=store.now()).where(User.id == user.id).execute()
    assert ask("POST", path, who=None).status_code == 404
    assert not Token.select().where(Token.user == user).exists()


def test_incident_links_and_invitations_are_not_interchangeable(ask, invite, world, store):
    token = invite().removeprefix("/join/")
    incident = signed_links.get_signer().sign(IncidentLink(1, find_dora().id, 1), store.now())

    assert ask("GET", f"/i/{token}", who=None).status_code == 404
    assert ask("POST", f"/join/{incident}", who=None).status_code == 404


@pytest.mark.parametrize("token", ["x", "WzEsMiwzLDRd.x", "a" * 2000, "%00"])
def test_an_unsigned_link_is_no_invitation(ask, store, token):
    assert ask("POST", f"/join/{token}", who=None).status_code == 404


def test_text_from_users_is_escaped(ask, invite, world):
    Team.update(name=HOSTILE).where(Team.id == world.team.id).execute()
    Account.update(name=HOSTILE).where(Account.id == world.account.id).execute()
    path = invite(first_name=HOSTILE)

    for page in (ask("GET", path, who=None), ask("POST", path, who=None)):
        assert "<script>" not in page.text
        assert "<img" not in page.text
        assert "{{7*7}}" in page.text


def test_the_page_is_not_cached_and_sends_no_referrer(ask, invite):
    headers = ask("POST", invite(), who=None).headers

    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_an_invitation_is_resent_but_not_too_often(ask, invite, store):
    invite()
    path = f"/api/tocsin/users/{find_dora().username}/invitation/"

    soon = ask("POST", path)
    Message.update(created_at=store.now() - timedelta(seconds=31)).execute()
    later = ask("POST", path)

    assert (soon.status_code, soon.headers["Retry-After"], later.status_code) == (429, "30", 200)
    ((to, _),) = deliver_due()
    assert to == "dora@example.org"


def test_a_person_who_has_joined_gets_no_invitation(ask, invite, world, store):
    path = invite()
    Message.update(created_at=store.now() - timedelta(seconds=31)).execute()
    again = f"/api/tocsin/users/{find_dora().username}/invitation/"
    assert ask("POST", again).status_code == 200
    ask("POST", path, who=None)

    assert deliver_due() == []
    assert Message.get(Message.state != MessageStatus.SENT).state == MessageStatus.CANCELLED
    assert ask("POST", again).status_code == 400
    assert ask("POST", f"/api/tocsin/users/{world.alice.username}/invitation/").status_code == 400


def test_without_a_mail_relay_the_member_is_created_and_the_invitation_fails(ask, world):
    person = {"email": "dora@example.org"}
    ask("POST", "/api/account/api_invite/", {"team": world.team.unique_id, "user_detail": person})
    deliver.configure(load({}))
    deliver.send_due(1)

    assert Message.get().state == MessageStatus.FAILED
    assert find_dora().removed_at is None


def test_an_invited_person_joins_with_a_password_and_is_signed_in(browser, invite):
    path = invite()
    browser.get(path)

    page = browser.post(path, password="a long enough password")

    assert page.status_code == 200
    assert "You are signed in" in page.text
    assert "dora@example.org" in browser.get("/me/sign-in/").text
    assert passwords.verify(find_dora(), "a long enough password")


def test_a_weak_password_does_not_use_up_the_invitation(browser, invite):
    path = invite()
    browser.get(path)

    page = browser.post(path, password="short")

    assert page.status_code == 400
    assert "at least 12 characters" in page.text
    assert not find_dora().is_verified


def test_the_form_of_another_host_signs_nobody_in(browser, invite):
    path = invite()

    page = browser.post(path, csrf="x", password="a long enough password")

    assert page.status_code == 200
    assert browser.get("/me/sign-in/").status_code == 303
