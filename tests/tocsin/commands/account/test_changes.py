"""`tocsin changes` and `tocsin undo`: the history of the configuration for an operator."""

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from models.changes.record import Actor, ChangedObject, Content, add_change
from models.domain.enums import Way
from models.store.ids import make_short_id
from models.store.store import store
from models.tables.changes import Change
from models.tables.services import Service
from tests.support.stores import get_settings
from tocsin.cli import Commands


@pytest.fixture
def run(home, world, monkeypatch, enqueued):
    """run("changes"): run a command for the first of the two accounts."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    own = ("--account", world.account.account_identifier)
    return lambda *arguments, **more: CliRunner().invoke(Commands(), [*arguments, *own], **more)


@pytest.fixture
def renamed(world, now):
    """A change of the name of the service, by Alice over the interface."""
    with store().write_transaction():
        Service.update(name="Kiosk", number=2).where(Service.id == world.service.id).execute()
        actor = Actor("Alice", Way.INTERFACE, world.alice, token="laptop")
        changed = ChangedObject("service", world.service.unique_id, "Kiosk", 2, team=world.team.id)
        content = Content("changed", [{"field": "name", "before": "Checkout", "after": "Kiosk"}])
        add_change(world.account.id, store().now(), actor, changed, content, make_short_id())
        return Change.select().order_by(Change.id.desc()).first()


def test_the_list_says_who_changed_what_and_how(run, renamed):
    done = run("changes")

    assert done.exit_code == 0
    for words in (
        "Alice changed the service Kiosk: name",
        "by the interface, token laptop",
        renamed.unique_id,
    ):
        assert words in done.stdout


def test_json_has_the_form_of_the_interface(run, renamed, world):
    (change,) = json.loads(run("changes", "--json").stdout)["results"]

    assert (change["unique_id"], change["object"]) == (renamed.unique_id, world.service.unique_id)
    assert (change["author"], change["can_undo"]) == (world.alice.username, True)
    assert change["fields"] == [{"field": "name", "before": "Checkout", "after": "Kiosk"}]


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (("--kind", "service"), 1),
        (("--kind", "tag"), 0),
        (("--person", "alice@example.org"), 1),
        (("--person", "bob@example.org"), 0),
        (("--way", "interface"), 1),
        (("--since", "1h"), 0),
        (("--since", "3d"), 1),
        (("--object", "{object}"), 1),
        (("--batch", "{batch}"), 1),
    ],
)
def test_each_filter_finds_its_changes(run, renamed, filters, count):
    Change.update(at=renamed.at - timedelta(days=2)).execute()
    given = [each.format(object=renamed.object_id, batch=renamed.batch) for each in filters]

    assert len(json.loads(run("changes", *given, "--json").stdout)["results"]) == count


def test_an_empty_list_says_so(run, world):
    assert run("changes").stdout == "no changes\n"


def test_an_undo_shows_what_it_writes_and_asks(run, renamed, world):
    refused = run("undo", renamed.unique_id, input="n\n")

    assert refused.exit_code == 1
    assert "name: Kiosk becomes Checkout" in refused.stdout
    assert Service.get_by_id(world.service.id).name == "Kiosk"

    assert run("undo", renamed.unique_id, input="y\n").exit_code == 0
    assert Service.get_by_id(world.service.id).name == "Checkout"


def test_an_undo_is_a_change_by_a_command(run, renamed, world):
    done = run("undo", renamed.unique_id, "--yes", "--json")

    assert done.exit_code == 0, done.output
    last = Change.select().order_by(Change.id.desc()).first()
    assert json.loads(done.stdout)["batch"] == last.batch
    assert (last.way, last.undoes) == ("command", renamed.unique_id)


def test_a_second_undo_says_why_not(run, renamed):
    run("undo", renamed.unique_id, "--yes")

    again = run("undo", renamed.unique_id, "--yes")

    assert again.exit_code == 1
    assert "It has been undone already." in again.stderr


def test_an_undo_of_later_work_is_refused(run, renamed, world):
    Service.update(name="Till").where(Service.id == world.service.id).execute()

    refused = run("undo", renamed.unique_id, "--yes")

    assert refused.exit_code == 1
    assert "name" in refused.stderr
    assert Service.get_by_id(world.service.id).name == "Till"


def test_an_unknown_change_is_named(run, world):
    unknown = run("undo", "nothing", "--yes")

    assert unknown.exit_code == 1
    assert "there is no change nothing" in unknown.stderr
