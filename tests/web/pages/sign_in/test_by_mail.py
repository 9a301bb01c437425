"""A sign-in link by mail: the answer says nothing about the address, and the link signs in once."""

import contextlib
import re
import threading

import pytest

from models.sign_in import links
from models.store.store import store
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.notifications import Message
from models.tables.sign_in import SignInLink
from runtime.settings import load
from tests.support.polling import PATIENCE_S
from tests.support.relays import relay
from web.account import message_limits
from web.pages.sign_in import by_mail
from web.pages.sign_in.by_mail import SENT
from workers.delivery import deliver


@pytest.fixture
def with_relay(app, home):
    """The settings name a mail relay."""
    smtp = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}
    app.config["SETTINGS"] = load({"TOCSIN_HOME": str(home), **smtp})


def request_link(browser, address):
    browser.get("/sign-in/")
    answer = browser.post("/sign-in/mail/", address=address)
    # The one thread has written all mails.
    by_mail._thread.submit(int).result(PATIENCE_S)
    return answer


def deliver_due() -> list:
    with relay() as box:
        smtp = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
        deliver.configure(load({**smtp, "TOCSIN_PUBLIC_URL": "https://tocsin.example.org"}))
        deliver.send_due(1)
    return box.mails


def test_the_link_of_the_mail_signs_the_person_in(browser, with_relay, world):
    request_link(browser, "Alice@example.org")
    ((to, mail),) = deliver_due()
    assert (to, mail["Subject"]) == ("alice@example.org", "[Tocsin] Sign in")
    path = re.search(r"https://tocsin\.example\.org(/sign-in/link/\S+)", mail.get_content())[1]

    browser.get(path)
    assert browser.post(path).status_code == 303
    assert "alice@example.org" in browser.get("/me/sign-in/").text
    assert [each.action for each in Change.select().order_by(Change.id)] == [
        "link_created",
        "signed_in",
    ]


@pytest.mark.parametrize(
    "address", ["alice@example.org", "nobody@example.org", "bob@example.org", "", "x" * 3_000, "a\x00@b"]
)
def test_the_answer_is_the_same_for_each_address(browser, with_relay, address):
    answer = request_link(browser, address)

    assert answer.status_code == 200
    assert SENT in answer.text
    assert address == "" or address not in answer.text


def test_only_members_who_have_joined_get_a_mail(browser, with_relay, world):
    for address in ("bob@example.org", "nobody@example.org"):
        request_link(browser, address)

    assert (Message.select().count(), SignInLink.select().count()) == (0, 0)


def test_an_address_that_is_not_proven_gets_no_mail(browser, with_relay, world):
    User.update(email="victim@example.org").where(User.id == world.alice.id).execute()
    request_link(browser, "victim@example.org")

    assert Message.select().count() == 0


def test_an_address_gets_few_mails(browser, with_relay):
    found = [request_link(browser, "alice@example.org").status_code for _ in range(6)]

    assert found == [200] * 5 + [429]


def test_a_link_that_was_replaced_is_not_sent(browser, with_relay, world):
    request_link(browser, "alice@example.org")
    with store().write_transaction():
        for _ in range(links.MAX_LINKS):
            links.create(world.alice, store().now(), links.MAIL_LIFE)

    assert deliver_due() == []


def test_a_removed_person_gets_no_mail(browser, with_relay, world):
    request_link(browser, "alice@example.org")
    User.update(removed_at=store().now()).where(User.id == world.alice.id).execute()

    assert deliver_due() == []


def test_without_a_mail_relay_the_page_offers_no_link(browser, world):
    page = browser.get("/sign-in/")

    assert "Send me a sign-in link" not in page.text
    assert "no mail relay" in browser.post("/sign-in/mail/", address="alice@example.org").text


def test_the_answer_does_not_depend_on_the_mail(browser, with_relay, statements):
    """While the one thread is busy, no mail is written, and each address gets its answer."""
    may_go_on = threading.Event()
    by_mail._thread.submit(may_go_on.wait, 20)
    try:
        browser.get("/sign-in/")
        found = []
        for address in ("alice@example.org", "nobody@example.org"):
            with statements() as seen:
                assert browser.post("/sign-in/mail/", address=address).status_code == 200
            found.append([text for text, _ in seen])
        assert Message.select().count() == 0
    finally:
        may_go_on.set()
    by_mail._thread.submit(int).result(PATIENCE_S)

    assert found[0] == found[1]
    assert Message.select().count() == 1


def test_too_many_mails_at_the_same_time_are_refused(browser, with_relay):
    browser.get("/sign-in/")
    with contextlib.ExitStack() as stack:
        for _ in range(by_mail.MAX_PENDING):
            by_mail._pending.acquire()
            stack.callback(by_mail._pending.release)
        answer = browser.post("/sign-in/mail/", address="alice@example.org")

    assert answer.status_code == 503
    assert request_link(browser, "alice@example.org").status_code == 200


def test_links_count_with_the_other_mails_that_are_requested_for_an_address(browser, with_relay, world):
    with store().write_transaction():
        for _ in range(3):
            message_limits.count_sign_in(world.alice, store().now())
    for _ in range(4):
        assert SENT in request_link(browser, "alice@example.org").text

    assert (Message.select().count(), SignInLink.select().count()) == (2, 2)
