"""The list of addresses that alerts may mail: owner, admins and operators change it."""

import json

import pytest
from click.testing import CliRunner

from models.tables.stakeholders import StakeholderAddress
from tests.support.stores import get_settings
from tocsin.commands import writing
from tocsin.commands.account.stakeholders import stakeholders as command
from web.account import stakeholders

PATH = "/api/tocsin/stakeholders/"
PRESS = {"email": "Press@Example.org", "name": "Press"}


def test_the_owner_changes_the_list(ask):
    created = ask("POST", PATH, PRESS)
    one = f"{PATH}{created.json['unique_id']}/"

    assert (created.status_code, created.json["email"]) == (201, "press@example.org")
    assert ask("PATCH", one, {"name": "Press office"}).json["name"] == "Press office"
    assert [each["name"] for each in ask("GET", PATH).json] == ["Press office"]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", PATH).json == []


@pytest.mark.parametrize(("who", "status"), [("bob", 403), ("charlie", 403)])
def test_others_neither_see_nor_change_it(ask, who, status):
    assert ask("GET", PATH, who=who).status_code == status
    assert ask("POST", PATH, PRESS, who=who).status_code == status
    assert not StakeholderAddress.select().exists()


@pytest.mark.parametrize(
    "wrong", [{"email": "nobody", "name": "x"}, {"name": "x"}, {"email": "a@example.org"}], ids=str
)
def test_an_entry_needs_an_address_and_a_name(ask, wrong):
    assert ask("POST", PATH, wrong).status_code == 400


def test_an_address_is_in_the_list_once(ask):
    ask("POST", PATH, PRESS)
    other = ask("POST", PATH, {"email": "other@example.org", "name": "Other"}).json["unique_id"]
    problem = {"email": ["The list already has this address."]}

    assert ask("POST", PATH, {**PRESS, "name": "Again"}).json["errors"] == problem
    assert ask("PATCH", f"{PATH}{other}/", {"email": "press@example.org"}).json["errors"] == problem
    assert ask("POST", PATH, PRESS, who="mallory").status_code == 201, "each account has its own list"


def test_the_list_has_a_limit(ask, monkeypatch):
    monkeypatch.setattr(stakeholders.STAKEHOLDERS, "max_rows", 1)
    ask("POST", PATH, PRESS)
    refused = ask("POST", PATH, {"email": "b@example.org", "name": "b"})

    problem = {"stakeholder": ["No more than 1 are allowed."]}
    assert (refused.status_code, refused.json["errors"]) == (400, problem)


@pytest.fixture
def run(world, home, monkeypatch):
    """run(argument, ...): the command in this process, with the store of the test."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(writing, "open_store", lambda *_: None)
    monkeypatch.setattr(writing, "require_schema", lambda *_: None)
    account = ("--account", world.account.account_identifier)
    return lambda *arguments: CliRunner().invoke(command, [*arguments, *account])


def test_the_command_changes_the_list(run):
    assert json.loads(run("add", "Press@example.org", "Press", "--json").output) == {
        "email": "press@example.org",
        "name": "Press",
    }
    again = run("add", "press@example.org", "Press")
    assert (again.exit_code, again.output.strip()) == (1, "Error: press@example.org is in the list already")
    assert run("list").output == "E-MAIL             NAME\npress@example.org  Press\n"
    assert json.loads(run("list", "--json").output) == {
        "results": [{"email": "press@example.org", "name": "Press"}]
    }
    assert run("add", "nobody", "x").exit_code == 2

    assert run("remove", "PRESS@example.org").exit_code == 0
    assert not StakeholderAddress.select().exists()
    gone = run("remove", "press@example.org")
    assert (gone.exit_code, gone.output.strip()) == (1, "Error: press@example.org is not in the list")
