"""`tocsin list`, `user`, `integration` and `maintenance`: names, and what an operator changes."""

import json
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from models.domain.enums import AccountRole, MessageKind, TeamRole
from models.people import provisioning
from models.tables.accounts import User
from models.tables.changes import Change
from models.tables.notifications import Message
from models.tables.services import Integration, Maintenance, MaintenanceService
from models.tables.teams import TeamMember
from runtime.settings import load
from tests.support.stores import get_settings
from tocsin.cli import Commands
from tocsin.commands.kinds import EVENT_APIS
from web.app import create_app


@pytest.fixture
def run(home, world, monkeypatch, enqueued):
    """run("list", "users"): run a command for the first of the two accounts."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    own = ("--account", world.account.account_identifier)
    return lambda *arguments: CliRunner().invoke(Commands(), [*arguments, *own])


@pytest.fixture
def run_ok(run):
    def run_ok(*arguments):
        done = run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run_ok


@pytest.fixture
def second_team(world, now):
    """A team with a service of the same name as that of the first team."""
    team = provisioning.create_team(world.account, "Second", world.alice, now)
    provisioning.create_service(team, world.service.name, world.policy, world.alice, now)
    return team


@pytest.mark.parametrize(
    ("plural", "get_names"),
    [
        ("teams", lambda world: {world.team.name}),
        ("services", lambda world: {world.service.name}),
        ("integrations", lambda world: {world.integration.name}),
        ("policies", lambda world: {world.policy.name}),
        ("schedules", lambda world: set()),
    ],
)
def test_what_exists_is_listed(run_ok, world, plural, get_names):
    assert {row["name"] for row in run_ok("list", plural)["results"]} >= get_names(world)


def test_users_are_listed_with_their_teams(run_ok, world):
    rows = {row["email"]: row for row in run_ok("list", "users")["results"]}

    assert rows["alice@example.org"]["role"] == "owner"
    assert rows["alice@example.org"]["teams"] == [world.team.name]
    assert {row["email"] for row in run_ok("list", "users", "--team", world.team.name)["results"]} <= set(
        rows
    )


def test_keys_are_shown_on_request_only(run, world):
    key = Integration.get_by_id(world.integration.id).integration_key

    assert key not in run("list", "integrations").output
    assert key not in run("list", "integrations", "--json").output
    assert key in run("list", "integrations", "--service", world.service.name, "--keys").output


def test_a_name_that_two_teams_have_needs_the_team(run, run_ok, world, second_team):
    name = world.service.name
    refused = run("maintenance", "start", name, "1h")

    assert refused.exit_code == 2
    assert f"2 services are named {name}; give one of: " in refused.output
    assert f"Second/{name}" in refused.output
    assert run_ok("maintenance", "start", f"Second/{name}", "1h")["service"] == name
    assert MaintenanceService.get().service.team == second_team


def test_an_unknown_name_lists_what_exists_the_most_similar_first(run, world, second_team):
    refused = run("list", "users", "--team", "Secnd")

    assert refused.exit_code == 2
    assert "no team Secnd" in refused.output
    assert "; there are: Second, " in refused.output
    assert world.team.name in refused.output


def test_a_person_is_invited_into_a_team(run_ok, world, enqueued):
    made = run_ok("user", "invite", "new@example.org", "--team", world.team.name, "--name", "Nina New")

    member = TeamMember.select().join(User).where(User.username == made["username"]).get()
    assert (member.team, member.role) == (world.team, TeamRole.USER)
    assert (member.user.first_name, member.user.last_name, member.user.is_verified) == ("Nina", "New", False)
    assert Message.get(Message.user == member.user).kind == MessageKind.INVITATION
    assert Change.get().action == "invited"


def test_a_user_who_is_invited_into_another_team_keeps_role_and_name(run_ok, world, second_team):
    for action in ("added", "added"):
        made = run_ok(
            "user", "invite", "bob@example.org", "--team", "Second", "--name", "X Y", "--role", "admin"
        )
        assert made["action"] == action

    bob = User.get_by_id(world.bob.id)
    assert (bob.first_name, bob.role) == (world.bob.first_name, world.bob.role)
    assert TeamMember.select().where(TeamMember.user == bob, TeamMember.team == second_team).count() == 1
    assert not Message.select().exists()


def test_a_user_is_renamed(run_ok, world):
    run_ok("user", "rename", "bob@example.org", "Robert van Dijk")

    bob = User.get_by_id(world.bob.id)
    assert (bob.first_name, bob.last_name) == ("Robert", "van Dijk")


def test_a_user_is_removed_after_a_confirmation(run, run_ok, world, enqueued):
    refused = run("user", "remove", "bob@example.org")
    assert (refused.exit_code, "--yes" in refused.output) == (2, True)
    assert User.get_by_id(world.bob.id).removed_at is None

    run_ok("user", "remove", "bob@example.org", "--yes")

    assert User.get_by_id(world.bob.id).removed_at is not None


def test_the_owner_is_not_removed(run):
    refused = run("user", "remove", "alice@example.org", "--yes")

    assert (refused.exit_code, "hand-over" in refused.output) == (1, True)


def test_a_sign_in_link_without_an_address_is_for_the_owner(run_ok, world):
    made = run_ok("user", "sign-in-link")

    owner = User.get(User.account == world.account, User.role == AccountRole.OWNER)
    assert made["username"] == owner.username


def test_an_integration_is_added_with_the_address_of_its_alerts(run_ok, world):
    made = run_ok("integration", "add", world.service.name, "Dashboards", "--as", "grafana")

    row = Integration.get(Integration.unique_id == made["unique_id"])
    assert (row.service, row.name, row.integration_key) == (
        world.service,
        "Dashboards",
        made["integration_key"],
    )
    assert made["webhook_url"].endswith(f"/api/integration/grafana/{row.integration_key}/")


@pytest.mark.parametrize("kind", EVENT_APIS)
def test_an_integration_of_an_event_api_has_the_address_that_its_sender_needs(run_ok, world, kind):
    made = run_ok("integration", "add", world.service.name, "Sender", "--as", kind)
    path = urlsplit(made["webhook_url"]).path
    path += "v2/alerts/" if kind == "opsgenie" else "" if path.endswith("/") else "/"

    addresses = create_app(load({"TOCSIN_HOME": "nowhere"})).url_map.bind("tocsin.example.org")
    assert addresses.test(path, method="POST")


def test_a_maintenance_window_begins_now_and_is_ended_early(run, run_ok, world):
    made = run_ok("maintenance", "start", world.service.unique_id, "90m")

    window = Maintenance.get(Maintenance.unique_id == made["unique_id"])
    assert window.end_time - window.start_time == timedelta(minutes=90)
    assert run_ok("maintenance", "end", world.service.name)["ended"] == [window.unique_id]
    assert Maintenance.get_by_id(window.id).end_time < window.end_time
    again = run("maintenance", "end", world.service.name)
    assert (again.exit_code, "no open maintenance window" in again.output) == (2, True)
