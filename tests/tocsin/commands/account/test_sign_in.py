"""`tocsin user sign-in-link` and `tocsin user reset-sign-in` help people who cannot sign in."""

import json

import pytest
from click.testing import CliRunner

from models.links.signed_links import get_signer
from models.sign_in import audit, links, passwords, sessions
from models.store.store import store
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.sign_in import Password, Session, SignInLink
from runtime.settings import load
from tests.support.stores import get_settings
from tocsin.commands import writing
from tocsin.commands.account import users
from tocsin.server import first_start


@pytest.fixture
def run(world, home, monkeypatch):
    """run(argument, ...): the command in this process for Alice's account, with the store of the test."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(writing, "open_store", lambda *_: None)
    monkeypatch.setattr(writing, "require_schema", lambda *_: None)
    own = ("--account", world.account.account_identifier)
    return lambda *arguments: CliRunner().invoke(users.user, [*arguments, *own])


def test_a_link_is_for_one_hour_and_in_the_audit_list(run, world):
    made = json.loads(run("sign-in-link", "bob@example.org", "--json").output)

    token = made["link"].rpartition("/sign-in/link/")[2]
    link = links.find(get_signer().read_sign_in(token))
    assert link.user == world.bob
    assert abs(link.ends_at - store().now() - links.TERMINAL_LIFE).total_seconds() < 60
    assert [(each.action, each.actor) for each in Change.select()] == [("link_created", "command line")]


def test_a_reset_ends_all_ways_to_sign_in(run, world):
    with store().write_transaction():
        for user in (world.bob, world.alice):
            passwords.store_hash(user, "hash", store().now())
            sessions.start(user, "password", sessions.Browser(), store().now())
            links.create(user, store().now(), links.MAIL_LIFE)

    result = run("reset-sign-in", "bob@example.org")

    assert result.exit_code == 0, result.output
    for table in (Password, Session, SignInLink):
        assert [each.user for each in table.select()] == [world.alice]
    assert Change.get().action == "sign_in_reset"


@pytest.mark.parametrize("command", ["sign-in-link", "reset-sign-in"])
def test_an_unknown_address_is_named(run, command):
    result = run(command, "nobody@example.org")

    assert result.exit_code == 1
    assert "no user nobody@example.org" in result.output


def test_the_start_shows_a_link_until_the_owner_has_signed_in(world, home, monkeypatch):
    settings = load(get_settings(home))
    shown = first_start.find_first_sign_in(settings)
    text = first_start.build_welcome(settings, None, to_terminal=True, sign_in=shown)
    assert "/sign-in/link/" in shown
    assert shown in text
    assert shown not in first_start.build_welcome(settings, None, to_terminal=False, sign_in=shown)

    with store().write_transaction():
        owner = User.get_by_id(world.alice.id)
        audit.record(owner, "signed_in", store().now())
    assert first_start.find_first_sign_in(settings) == ""
