"""Sign in with a link: it works once, for a short time, for the address of its person."""

from datetime import timedelta

import pytest

from models.links.signed_links import Invitation, get_signer
from models.sign_in import attempts, links
from models.store.store import store
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.sign_in import Session, SignInLink


def make_path(user, life=links.MAIL_LIFE) -> str:
    with store().write_transaction():
        link = links.create(user, store().now(), life)
    return f"/sign-in/link/{get_signer().sign_sign_in(link.unique_id)}"


def test_the_link_changes_nothing_and_its_button_signs_in_once(browser, app, world):
    path = make_path(world.bob)
    for _ in range(3):
        assert "Sign in as Bob" in browser.get(path).text
    assert Session.select().count() == 0

    answer = browser.post(path)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/me/sign-in/")
    assert browser.follow().status_code == 200
    assert Change.get().action == "signed_in"
    browser.get("/sign-in/")
    assert browser.post(path).status_code == 404
    assert browser.get(path).status_code == 404


def spoil_token(path, world):
    return path[:-3] + "abc"


def expire(path, world):
    SignInLink.update(ends_at=store().now() - timedelta(seconds=1)).execute()
    return path


def change_address(path, world):
    User.update(email="bob2@example.org").where(User.id == world.bob.id).execute()
    return path


def remove_person(path, world):
    User.update(removed_at=store().now()).where(User.id == world.bob.id).execute()
    return path


@pytest.mark.parametrize(
    ("spoil", "status"),
    [(spoil_token, 404), (expire, 410), (change_address, 404), (remove_person, 404)],
)
def test_a_link_that_is_not_valid_signs_nobody_in(browser, world, spoil, status):
    path = make_path(world.bob)
    browser.get(path)
    path = spoil(path, world)

    assert browser.post(path).status_code == status
    assert browser.get(path).status_code == status
    assert Session.select().count() == 0


def test_an_invitation_is_no_sign_in_link(browser, world):
    token = get_signer().sign_invitation(Invitation.for_user(world.bob), store().now())

    assert browser.get(f"/sign-in/link/{token}").status_code == 404


def test_a_person_has_a_limited_number_of_links(world):
    for _ in range(links.MAX_LINKS + 3):
        make_path(world.bob)

    assert SignInLink.select().count() == links.MAX_LINKS


def test_mails_end_no_link_of_the_operator(browser, world):
    path = make_path(world.bob, links.TERMINAL_LIFE)
    for _ in range(links.MAX_LINKS + 3):
        make_path(world.bob)

    assert browser.get(path).status_code == 200
    assert SignInLink.select().count() == links.MAX_LINKS + 1
    for _ in range(links.MAX_LINKS):
        make_path(world.bob, links.TERMINAL_LIFE)
    assert browser.get(path).status_code == 404


def test_a_client_opens_few_links(browser, world, monkeypatch):
    monkeypatch.setattr(attempts, "STEP_OF_CLIENT", attempts.Limit("step client", 1, 60))
    first, second = make_path(world.bob), make_path(world.alice)
    browser.get(first)

    assert browser.post(first).status_code == 303
    browser.get(second)
    answer = browser.post(second)
    assert (answer.status_code, "too many attempts" in answer.text) == (429, True)
    assert SignInLink.select().count() == 1
