"""`tocsin application` adds, lists and removes the IDs that an account brings."""

import json

import pytest
from click.testing import CliRunner

from models.domain.applications import GENERIC
from models.tables.services import AddedApplication
from tests.support.processes import tocsin
from tests.support.stores import get_settings
from tocsin.commands import writing
from tocsin.commands.account.applications import application

BROUGHT = "8f0d2f3c-3a7e-4f3b-9d0a-51c1a4f4c0de"


@pytest.fixture
def run(world, home, monkeypatch):
    """run(argument, ...): the command in this process for Alice's account, with the store of the test."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(writing, "open_store", lambda *_: None)
    monkeypatch.setattr(writing, "require_schema", lambda *_: None)
    own = ("--account", world.account.account_identifier)
    return lambda *arguments: CliRunner().invoke(application, [*arguments, *own])


def test_an_id_is_added_listed_and_removed(run):
    added = run("add", BROUGHT.upper(), "--as", "grafana")
    listed = run("list")
    removed = run("remove", BROUGHT)

    assert [one.exit_code for one in (added, listed, removed)] == [0, 0, 0]
    assert added.output == f"added {BROUGHT} as grafana\n"
    assert listed.output.splitlines()[1:] == [f"{BROUGHT}  grafana"]
    assert removed.output == f"removed {BROUGHT}\n"
    assert not AddedApplication.select().exists()


def test_machines_get_json(run, world):
    added = json.loads(run("add", BROUGHT, "--as", "zabbix", "--json").output)

    assert added == {
        "account_id": world.account.account_identifier, "unique_id": BROUGHT, "kind": "zabbix",
    }  # fmt: skip
    assert json.loads(run("list", "--json").output) == {"results": [{"unique_id": BROUGHT, "kind": "zabbix"}]}


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("add", GENERIC, "--as", "grafana"), 1, "The catalogue has this application: Generic Integration."),
        (("add", "x", "--as", "grafana"), 2, "the ID is not a UUID"),
        (("add", BROUGHT, "--as", "nosuch"), 2, "'zabbix'"),
        (("add", BROUGHT), 2, "--as"),
        (("remove", BROUGHT), 1, f"{BROUGHT} was not added"),
    ],
    ids=str,
)
def test_an_id_that_cannot_be_added_or_removed_is_explained(run, arguments, code, text):
    result = run(*arguments)

    assert (result.exit_code, text in result.output) == (code, True)


@pytest.mark.processes
def test_the_command_runs(tmp_path):
    home = tmp_path / "home"
    settings = get_settings(home)
    home.mkdir()
    tocsin(home, "migrate", **settings)
    tocsin(home, "account", "add", "Example", "alice@example.org", **settings)

    added = tocsin(home, "application", "add", BROUGHT, "--as", "grafana", **settings)

    assert (added.returncode, added.stdout) == (0, f"added {BROUGHT} as grafana\n")
