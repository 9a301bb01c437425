"""`tocsin list`: list users, teams, services, integrations, schedules and policies."""

from collections.abc import Callable, Collection, Sequence

import click
import peewee

from models.domain.enums import OPEN_STATUSES, AccountRole
from models.store.fields import ObjectTable
from models.tables.accounts import Account, User, get_display_name
from models.tables.incidents import Incident
from models.tables.services import Integration
from models.tables.teams import EscalationPolicy, Team, TeamMember
from tocsin.commands.names import (
    INTEGRATION,
    POLICY,
    SCHEDULE,
    SERVICE,
    TEAM,
    Noun,
    Row,
    find,
    find_accounts,
    get_account,
)
from tocsin.commands.options import accounts_option, as_json_option
from tocsin.commands.output import print_json_list, print_table, shorten
from tocsin.commands.read_only import open_read_only

JsonRow = dict[str, object]

team_option = click.option(
    "--team", "team_name", metavar="TEAM", help="Only of the team with this name or unique_id."
)


@click.group("list")
def list_group() -> None:
    """List what exists, each with the name by which other commands take it."""


@list_group.command("users")
@team_option
@accounts_option
@as_json_option
def list_users(team_name: str | None, account_id: str | None, as_json: bool) -> None:
    """List the users, with their roles and teams."""
    with open_read_only():
        users = User.select(User, Account).join(Account).where(User.removed_at.is_null())
        users = users.where(User.account.in_(_list_accounts(account_id)))
        if team_name:
            team = find(TEAM, team_name, account_id)
            users = users.where(
                User.id.in_(TeamMember.select(TeamMember.user).where(TeamMember.team == team))
            )
        teams = _list_teams_of_users(account_id)
        rows: list[JsonRow] = [
            {
                "account_id": user.account.account_identifier,
                "username": user.username,
                "name": get_display_name(user),
                "email": user.email,
                "role": AccountRole(user.role).name.lower(),
                "has_joined": user.is_verified,
                "teams": teams.get(user.id, []),
            }
            for user in users.order_by(User.account, User.email)
        ]
    _print(rows, as_json, "users", ("NAME", "E-MAIL", "ROLE", "TEAMS", "USERNAME"), _build_user_row)


def _build_user_row(row: JsonRow) -> tuple[str, ...]:
    role = f"{row['role']}" if row["has_joined"] else f"{row['role']}, invited"
    return str(row["name"]), str(row["email"]), role, _join(row["teams"]), str(row["username"])


def _list_teams_of_users(account_id: str | None) -> dict[int, list[str]]:
    """Return the names of the teams of each user (row number)."""
    members = TeamMember.select(TeamMember.user, Team.name).join(Team)
    found: dict[int, list[str]] = {}
    for user, name in (
        members.where(Team.account.in_(_list_accounts(account_id))).order_by(Team.name).tuples()
    ):
        found.setdefault(user, []).append(name)
    return found


@list_group.command("teams")
@accounts_option
@as_json_option
def list_teams(account_id: str | None, as_json: bool) -> None:
    """List the teams, with their owners and how many people are in them."""
    with open_read_only():
        _list_accounts(account_id)
        teams = _select(TEAM, account_id)
        counts = _count(TeamMember.team, TeamMember.select())
        owners = {user.id: user for user in User.select().where(User.id.in_([row.owner_id for row in teams]))}
        rows = [
            {
                **_identify(team),
                "owner": owners[team.owner_id].email,
                "members": counts.get(team.id, 0),
            }
            for team in teams
        ]
    _print(
        rows,
        as_json,
        "teams",
        ("TEAM", "OWNER", "MEMBERS", "UNIQUE_ID"),
        lambda row: (
            shorten(str(row["name"])),
            str(row["owner"]),
            str(row["members"]),
            str(row["unique_id"]),
        ),
    )


@list_group.command("services")
@team_option
@accounts_option
@as_json_option
def list_services(team_name: str | None, account_id: str | None, as_json: bool) -> None:
    """List the services, with their escalation policies and open incidents."""
    with open_read_only():
        services = _select(SERVICE, account_id, team_name)
        open_incidents = Incident.select().where(Incident.status.in_(sorted(OPEN_STATUSES)))
        counts = _count(Incident.service, open_incidents)
        policies = {
            row.id: row.name for row in EscalationPolicy.select(EscalationPolicy.id, EscalationPolicy.name)
        }
        rows = [
            {
                **_identify(service),
                "escalation_policy": policies.get(service.escalation_policy_id),
                "open_incidents": counts.get(service.id, 0),
                "under_maintenance": service.under_maintenance,
            }
            for service in services
        ]
    headings = ("TEAM", "SERVICE", "POLICY", "OPEN INCIDENTS", "UNIQUE_ID")
    _print(rows, as_json, "services", headings, _build_service_row)


def _build_service_row(row: JsonRow) -> tuple[str, ...]:
    policy = shorten(str(row["escalation_policy"] or "none: notifies the managers"))
    state = " (maintenance)" if row["under_maintenance"] else ""
    return (*_name(row), policy, f"{row['open_incidents']}{state}", str(row["unique_id"]))


@list_group.command("integrations")
@click.option("--service", "service_name", metavar="SERVICE", help="Only of this service.")
@team_option
@click.option("--keys", "with_keys", is_flag=True, help="Show the keys, which are secrets.")
@accounts_option
@as_json_option
def list_integrations(
    service_name: str | None, team_name: str | None, with_keys: bool, account_id: str | None, as_json: bool
) -> None:
    """List the integrations, with their tools and, on request, their keys."""
    with open_read_only():
        integrations = _select(INTEGRATION, account_id, team_name)
        if service_name:
            service = find(SERVICE, service_name, account_id)
            integrations = [row for row in integrations if row.service_id == service.id]
        rows = [_describe_integration(row, with_keys=with_keys) for row in integrations]
    headings = ("TEAM", "SERVICE", "INTEGRATION", "TOOL", "STATE", "KEY" if with_keys else "UNIQUE_ID")
    _print(rows, as_json, "integrations", headings, _build_integration_row)


def _describe_integration(row: Integration, *, with_keys: bool) -> JsonRow:
    key = {"integration_key": row.integration_key} if with_keys else {}
    return {
        **_identify(row),
        "service": row.service.name,
        "kind": row.application_reference.extension,
        "is_enabled": row.is_enabled,
        **key,
    }


def _build_integration_row(row: JsonRow) -> tuple[str, ...]:
    state = "on" if row["is_enabled"] else "off"
    last = str(row.get("integration_key") or row["unique_id"])
    team, name = _name(row)
    return team, shorten(str(row["service"])), name, str(row["kind"]), state, last


@list_group.command("schedules")
@team_option
@accounts_option
@as_json_option
def list_schedules(team_name: str | None, account_id: str | None, as_json: bool) -> None:
    """List the schedules, with their time zones and layers. `tocsin oncall` shows who is on call."""
    with open_read_only():
        rows = [
            {**_identify(row), "time_zone": row.time_zone, "layers": len(row.layers)}
            for row in _select(SCHEDULE, account_id, team_name)
        ]
    _print(
        rows,
        as_json,
        "schedules",
        ("TEAM", "SCHEDULE", "TIME ZONE", "LAYERS", "UNIQUE_ID"),
        lambda row: (*_name(row), str(row["time_zone"]), str(row["layers"]), str(row["unique_id"])),
    )


@list_group.command("policies")
@team_option
@accounts_option
@as_json_option
def list_policies(team_name: str | None, account_id: str | None, as_json: bool) -> None:
    """List the escalation policies. `tocsin oncall` shows whom they would notify."""
    with open_read_only():
        rows = [
            {**_identify(row), "steps": len(row.rules), "repetitions": row.repeat_policy}
            for row in _select(POLICY, account_id, team_name)
        ]
    _print(
        rows,
        as_json,
        "policies",
        ("TEAM", "POLICY", "STEPS", "REPETITIONS", "UNIQUE_ID"),
        lambda row: (*_name(row), str(row["steps"]), str(row["repetitions"]), str(row["unique_id"])),
    )


def _list_accounts(account_id: str | None) -> list[int]:
    return [account.id for account in find_accounts(account_id)]


def _select(noun: Noun[Row], account_id: str | None, team_name: str | None = None) -> list[Row]:
    """Return the objects of an account or a team, by team and name."""
    find_accounts(account_id)
    query = noun.select(account_id)
    if team_name:
        query = query.where(Team.id == find(TEAM, team_name, account_id).id)
    return list(query.order_by(Account.id, Team.name, noun.table.name, noun.table.id))


def _count(column: peewee.ForeignKeyField, rows: peewee.ModelSelect) -> dict[int, int]:
    """Return the number of these rows by what they refer to."""
    counted = rows.select(column, peewee.fn.COUNT(column.model.id)).group_by(column)
    return dict(counted.tuples().iterator())


def _identify(row: ObjectTable) -> JsonRow:
    team = row if isinstance(row, Team) else row.team
    return {
        "account_id": get_account(row).account_identifier,
        "team": team.name,
        "name": row.name,
        "unique_id": row.unique_id,
    }


def _name(row: JsonRow) -> tuple[str, str]:
    return shorten(str(row["team"])), shorten(str(row["name"]) or "(without a name)")


def _join(names: object) -> str:
    return shorten(", ".join(names)) if isinstance(names, Collection) else ""


def _print(
    rows: Sequence[JsonRow],
    as_json: bool,
    plural: str,
    headings: tuple[str, ...],
    build_row: Callable[[JsonRow], tuple[str, ...]],
) -> None:
    """Print a list. With objects of several accounts, the first column is the account."""
    if as_json:
        print_json_list(rows)
        return
    with_account = len({row["account_id"] for row in rows}) > 1
    shown = [((str(row["account_id"]),) if with_account else ()) + build_row(row) for row in rows]
    print_table((("ACCOUNT",) if with_account else ()) + headings, shown, f"no {plural}")
