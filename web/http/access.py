"""Load a row and check that the viewer may use it. Return the row, or raise NotFound or Forbidden.

NotFound: objects of another account, ids of another team in the path, malformed ids. Forbidden: objects of
the viewer's account for which the viewer has no permission. The required permission is that of the operation
(web/http/permissions.py).

    access_team(viewer, team_id), access_service(viewer, team_id, service_id),
    access_integration(viewer, team_id, service_id, integration_id),
    access_incident(viewer, reference)    by number or unique_id
    find_incidents(viewer, references)    the same for the incidents that a body names
    access_user(viewer, username)         the viewer, or any member for an admin
    access_account(viewer)                for objects of the account that belong to no team
    require_permission(viewer, team_row)             for a row whose team is known
    require_team_member(viewer, team_row)            before a person is put into a team
    require_rank(viewer, role)            the viewer's role in the account is not lower than this role
    select_permitted_teams(viewer)        a query of team rows, for lists
    select_permitted(viewer, table, permission)      the same for another table
    may(viewer, permission, team_row)     whether a button is shown, or who else can do it
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

import peewee

from models.domain.enums import TeamRole
from models.domain.identity import SHORT_LENGTH, is_short_id, is_uuid
from models.store.fields import Table
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from models.tables.teams import Team, TeamMember
from web.http.auth import Viewer
from web.http.errors import Forbidden, NotFound
from web.http.fields import MAX_INTEGER
from web.http.permissions import ADMIN, OWN, Grants, is_allowed

# A query of rows has the type "peewee.ModelSelect[Row]". It is in quotes, because only the type checker knows
# that ModelSelect has a parameter.
Row = TypeVar("Row", bound=Table)

# The columns that lead from a row to its team or account, the nearest one first.
_OWNERS = ("team", "service", "account")

_USERNAME = re.compile(r"[0-9a-f-]{25}")
_NUMBER = re.compile("[0-9]{1,12}")


def is_username(text: str) -> bool:
    return _USERNAME.fullmatch(text) is not None


def find(query: "peewee.ModelSelect[Row]", field: peewee.CharField, unique_id: str) -> Row:
    """Return the row of this query with this id, or raise NotFound.

    A UUID may have capital letters; a short id is case-sensitive.
    """
    is_short = field.max_length == SHORT_LENGTH
    known = unique_id if is_short else unique_id.lower()
    if not (is_short_id(known) if is_short else is_uuid(known)):
        raise NotFound
    row: Row | None = query.where(field == known).first()
    if row is None:
        raise NotFound
    return row


def access_account(viewer: Viewer, permission: str | None = None) -> Account:
    """Return the viewer's account. Forbidden if the viewer does not have the permission in all teams."""
    if not is_allowed(Grants(viewer.role, viewer.role_permissions), permission or viewer.permission):
        raise Forbidden
    return viewer.account


def access_team(viewer: Viewer, team_id: str) -> Team:
    teams = Team.select(Team, User).join(User, on=Team.owner).where(Team.account == viewer.account)
    team: Team = find(teams, Team.unique_id, team_id)
    require_permission(viewer, team.id)
    return team


def require_permission(viewer: Viewer, team_row: int, permission: str | None = None) -> None:
    """Raise Forbidden if the viewer does not have the permission in this team."""
    if not is_allowed(_load_grants(viewer, team_row), permission or viewer.permission):
        raise Forbidden


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a viewer may do something. If not, `who_can` says who can, as a sentence."""

    who_can: str = ""

    def __bool__(self) -> bool:
        return not self.who_can


def may(viewer: Viewer, permission: str, team_row: int) -> Permit:
    """Return whether require_permission() lets the viewer pass."""
    if is_allowed(_load_grants(viewer, team_row), permission):
        return Permit()
    return refuse(permission, team_row)


def may_somewhere(viewer: Viewer, permission: str) -> bool:
    """Return whether the viewer has the permission in at least one team."""
    return bool(select_permitted_teams(viewer, permission).exists())


def refuse(permission: str, team_row: int | None) -> Permit:
    """Return who has this permission in a team; without a team, in the account."""
    if permission == OWN:
        return Permit("Only the person, the owner and the admins of the account can do this.")
    team = None if team_row is None or permission == ADMIN else Team.get_or_none(Team.id == team_row)
    if team is None:
        return Permit("Only the owner and the admins of the account can do this.")
    return Permit(f"Only people with the permission can do this: for example a manager of {team.name}.")


def require_team_member(viewer: Viewer, team_row: int) -> None:
    """Raise Forbidden if the viewer is neither in this team nor an admin.

    Nobody puts a person into a team of others. Else the permission to write members would include all
    permissions of members: its holder could put in a second person with an address of the holder.
    """
    if not viewer.is_admin and _load_grants(viewer, team_row).team is None:
        raise Forbidden


def require_rank(viewer: Viewer, role: int) -> None:
    """Raise Forbidden if the viewer's role is lower than this role.

    A member can neither change a member with a higher role nor assign a higher role.
    """
    if role < viewer.role:
        raise Forbidden


def _load_grants(viewer: Viewer, team_row: int) -> Grants:
    if viewer.is_admin:
        return Grants(viewer.role)
    is_member = (TeamMember.team == Team.id) & (TeamMember.user == viewer.user)
    role, team_permissions = (
        Team.select(TeamMember.role, Team.account_permissions)
        .join(TeamMember, peewee.JOIN.LEFT_OUTER, on=is_member)
        .where(Team.id == team_row)
        .tuples()
        .first()
    ) or (None, ())
    return Grants(viewer.role, viewer.role_permissions, TeamRole(role) if role else None, team_permissions)


def select_permitted_teams(viewer: Viewer, permission: str | None = None) -> peewee.ModelSelect:
    """Return a query of the row numbers of the teams in which the viewer has the permission."""
    permission = permission or viewer.permission
    teams = Team.select(Team.id).where(Team.account == viewer.account)
    if is_allowed(Grants(viewer.role, viewer.role_permissions), permission):
        return teams
    roles = [role for role in TeamRole if is_allowed(Grants(viewer.role, team=role), permission)]
    own = TeamMember.select(TeamMember.team).where(TeamMember.user == viewer.user, TeamMember.role.in_(roles))
    # Permission names are ours and contain no quote, so a search for the quoted name is exact.
    open_to_all = Team.account_permissions.cast("TEXT").contains(f'"{permission}"')
    return teams.where(Team.id.in_(own) | open_to_all)


def find_permitted_teams(viewer: Viewer, permission: str, team_rows: Collection[int]) -> set[int]:
    """Return those of these teams (row numbers) in which the viewer has the permission, in one query."""
    if not team_rows:
        return set()
    permitted = Team.id.in_(select_permitted_teams(viewer, permission))
    return {team.id for team in Team.select(Team.id).where(Team.id.in_(list(team_rows)), permitted)}


def select_permitted(viewer: Viewer, table: type[Table], permission: str) -> peewee.ModelSelect:
    """Return a query of the row numbers of this table in whose team or account the viewer has the permission.

    Of people, those whose own objects the viewer may use.
    """
    if table is Team:
        return select_permitted_teams(viewer, permission)
    has_everywhere = is_allowed(Grants(viewer.role, viewer.role_permissions), permission)
    if table is Account:
        return Account.select(Account.id).where(Account.id == (viewer.account.id if has_everywhere else 0))
    if table is User:
        members = User.select(User.id).where(User.account == viewer.account)
        return members if has_everywhere else members.where(User.id == viewer.user.id)
    owner = next(getattr(table, name) for name in _OWNERS if hasattr(table, name))
    return table.select(table.id).where(owner.in_(select_permitted(viewer, owner.rel_model, permission)))


def find_team_row(row: Table) -> int | None:
    """Return the row number of the team of a row; None: it belongs to an account or a person."""
    if isinstance(row, Team):
        return int(row.id)
    if isinstance(row, Integration):
        return find_team_row(row.service)
    return getattr(row, "team_id", None)


def select_own_teams(viewer: Viewer) -> peewee.ModelSelect:
    """Return a query of the row numbers of the viewer's teams."""
    return TeamMember.select(TeamMember.team).where(TeamMember.user == viewer.user)


def access_service(viewer: Viewer, team_id: str, service_id: str) -> Service:
    team = access_team(viewer, team_id)
    service: Service = find(Service.select().where(Service.team == team), Service.unique_id, service_id)
    service.team = team
    return service


def access_integration(viewer: Viewer, team_id: str, service_id: str, integration_id: str) -> Integration:
    service = access_service(viewer, team_id, service_id)
    rows = Integration.select().where(Integration.service == service)
    integration: Integration = find(rows, Integration.unique_id, integration_id)
    integration.service = service
    return integration


def access_incident(viewer: Viewer, reference: str) -> Incident:
    """Return the incident with this number or unique_id.

    A "}" at the end is ignored: a published collection of requests contains this mistake.
    """
    reference = reference.rstrip("}")
    rows = Incident.select().where(Incident.account == viewer.account)
    if _NUMBER.fullmatch(reference) and int(reference) <= MAX_INTEGER:
        row = rows.where(Incident.incident_number == int(reference)).first()
    elif is_short_id(reference):
        row = rows.where(Incident.unique_id == reference).first()
    else:
        row = None
    if row is None:
        raise NotFound
    require_permission(viewer, row.team_id)
    incident: Incident = row
    return incident


def find_incidents(viewer: Viewer, references: Collection[str]) -> dict[str, Incident]:
    """Return the incidents with these numbers and unique_ids, by reference.

    The result leaves out incidents of teams in which the viewer does not have the permission.
    """
    numbers = {name: int(name) for name in references if _NUMBER.fullmatch(name) and int(name) <= MAX_INTEGER}
    ids = [name for name in references if is_short_id(name)]
    rows = Incident.select().where(
        Incident.account == viewer.account,
        Incident.team.in_(select_permitted_teams(viewer)),
        Incident.incident_number.in_(list(numbers.values())) | Incident.unique_id.in_(ids),
    )
    by_number = {row.incident_number: row for row in rows}
    by_id = {row.unique_id: row for row in rows}
    found = {name: by_number.get(numbers.get(name, 0)) or by_id.get(name) for name in references}
    return {name: row for name, row in found.items() if row is not None}


def access_user(viewer: Viewer, username: str) -> User:
    """Return a member whose own data the viewer may use: the viewer, or any member for owners and admins."""
    user = access_member(viewer, username)
    if not (viewer.permission == OWN and user.id == viewer.user.id):
        access_account(viewer)
    return user


def access_member(viewer: Viewer, username: str) -> User:
    """Return a current member of the viewer's account. All members may see each other."""
    user = find_member(viewer.account, username)
    if user is None:
        raise NotFound
    return user


def find_member(account: Account, username: str) -> User | None:
    """Return a current member of this account, or None."""
    if not is_username(username):
        return None
    user: User | None = (
        User.select()
        .where(User.account == account, User.username == username, User.removed_at.is_null())
        .first()
    )
    return user
