"""Fetch a row and authorise its viewer, in one call: the row, or NotFound, or Forbidden.

Another account's objects, ids of another team in the path, and ids that are none are NotFound; what the
viewer may not do within the account is Forbidden. What is asked for is what the operation needs, see
web/http/permissions.py.

    access_team(viewer, team_id), access_service(viewer, team_id, service_id),
    access_integration(viewer, team_id, service_id, integration_id),
    access_incident(viewer, reference)    by number or unique_id
    incidents_named(viewer, references)   the same for those that a body names
    access_user(viewer, username)         oneself, or anybody for an admin
    access_account(viewer)                for what is of the account, and of no team
    require(viewer, team_row)             for a row that knows its team
    require_rank(viewer, role)            that the viewer's role in the account is no lower than this one
    permitted_teams(viewer)               a query of team rows, for lists
"""

import re
from collections.abc import Collection
from typing import Any

import peewee

from models.domain.enums import TeamRole
from models.domain.shortid import ALPHABET
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from models.tables.teams import Team, TeamMember
from web.http.auth import Viewer
from web.http.errors import Forbidden, NotFound
from web.http.fields import MAX_INTEGER, UUID
from web.http.permissions import OWN, Grants, is_allowed

_USERNAME = re.compile(r"[0-9a-f-]{25}")
_NUMBER = re.compile("[0-9]{1,12}")
# Columns of this length hold short ids, the others UUIDs.
SHORT_LENGTH = 22
_SHORT = re.compile(f"[{ALPHABET}]{{{SHORT_LENGTH}}}")


def is_uuid(text: str) -> bool:
    """Whether this could be an id of ours; what could not is never asked for."""
    return UUID.fullmatch(text) is not None


def is_username(text: str) -> bool:
    return _USERNAME.fullmatch(text) is not None


def find(query: Any, field: peewee.CharField, unique_id: str) -> Any:
    """The row of this query with this id, or NotFound. Letters of a UUID may be large, of a short id not."""
    is_short = field.max_length == SHORT_LENGTH
    known = unique_id if is_short else unique_id.lower()
    if not (_SHORT.fullmatch(known) if is_short else is_uuid(known)):
        raise NotFound
    row = query.where(field == known).first()
    if row is None:
        raise NotFound
    return row


def access_account(viewer: Viewer, permission: str | None = None) -> Account:
    """The viewer's account, for those who may do in all of it what is asked for."""
    if not is_allowed(Grants(viewer.role, viewer.role_permissions), permission or viewer.permission):
        raise Forbidden
    return viewer.account


def access_team(viewer: Viewer, team_id: str) -> Team:
    teams = Team.select(Team, User).join(User, on=Team.owner).where(Team.account == viewer.account)
    team: Team = find(teams, Team.unique_id, team_id)
    require(viewer, team.id)
    return team


def require(viewer: Viewer, team_row: int, permission: str | None = None) -> None:
    """Forbidden for those who may not do in this team of their account what is asked for."""
    if not is_allowed(_load_grants(viewer, team_row), permission or viewer.permission):
        raise Forbidden


def require_rank(viewer: Viewer, role: int) -> None:
    """Forbidden for those whose own role is lower: nobody decides about who is above, nor lifts one there."""
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


def select_permitted_teams(viewer: Viewer, permission: str | None = None) -> Any:
    """The row numbers of the teams in which the viewer may do what is asked for."""
    permission = permission or viewer.permission
    teams = Team.select(Team.id).where(Team.account == viewer.account)
    if is_allowed(Grants(viewer.role, viewer.role_permissions), permission):
        return teams
    roles = [role for role in TeamRole if is_allowed(Grants(viewer.role, team=role), permission)]
    own = TeamMember.select(TeamMember.team).where(TeamMember.user == viewer.user, TeamMember.role.in_(roles))
    # The names of permissions are ours, so that each stands in the text of such a list as itself alone.
    open_to_all = Team.account_permissions.cast("TEXT").contains(f'"{permission}"')
    return teams.where(Team.id.in_(own) | open_to_all)


def select_own_teams(viewer: Viewer) -> Any:
    """The row numbers of the teams that the viewer is a member of."""
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
    """By incident number or unique_id. A "}" after it comes from a known slip in a published collection."""
    reference = reference.rstrip("}")
    rows = Incident.select().where(Incident.account == viewer.account)
    if _NUMBER.fullmatch(reference) and int(reference) <= MAX_INTEGER:
        row = rows.where(Incident.incident_number == int(reference)).first()
    elif _SHORT.fullmatch(reference):
        row = rows.where(Incident.unique_id == reference).first()
    else:
        row = None
    if row is None:
        raise NotFound
    require(viewer, row.team_id)
    incident: Incident = row
    return incident


def find_incidents(viewer: Viewer, references: Collection[str]) -> dict[str, Incident]:
    """The incidents of these numbers and unique_ids in whose teams the viewer may do what is asked for, each
    by how it was named; without the others."""
    numbers = {name: int(name) for name in references if _NUMBER.fullmatch(name) and int(name) <= MAX_INTEGER}
    ids = [name for name in references if _SHORT.fullmatch(name)]
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
    """A member's own things: for that member, and for owners and admins."""
    user = access_member(viewer, username)
    if not (viewer.permission == OWN and user.id == viewer.user.id):
        access_account(viewer)
    return user


def access_member(viewer: Viewer, username: str) -> User:
    """A present member of the viewer's account; every member may see every other."""
    user = find_member(viewer.account, username)
    if user is None:
        raise NotFound
    return user


def find_member(account: Account, username: str) -> User | None:
    """A present member of this account, or None."""
    if not is_username(username):
        return None
    user: User | None = (
        User.select()
        .where(User.account == account, User.username == username, User.removed_at.is_null())
        .first()
    )
    return user
