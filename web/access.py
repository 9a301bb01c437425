"""Fetch a row and authorise its viewer, in one call: the row, or NotFound, or Forbidden.

Another account's objects, ids of another team in the path, and ids that are none are NotFound; what
belongs to a team of the account that the viewer is not in is Forbidden. Owners and admins may do
everything in their account, members what is their team's.

    access_team(viewer, team_id), access_service(viewer, team_id, service_id),
    access_integration(viewer, team_id, service_id, integration_id),
    access_incident(viewer, reference)    by number or unique_id
    access_user(viewer, username)         oneself, or anybody for an admin
    access_account(viewer)                for what only owners and admins may change
    require_member(viewer, team_row)      for a row that knows its team
    visible_teams(viewer)                 a query of team rows, for lists
"""

import re
from typing import Any

import peewee

from models.accounts import Account, User
from models.incidents import Incident
from models.services import Integration, Service
from models.shortid import ALPHABET
from models.teams import Team, TeamMember
from web.auth import Viewer
from web.errors import Forbidden, NotFound
from web.shapes import LARGEST, UUID

_USERNAME = re.compile(r"[0-9a-f-]{25}")
_NUMBER = re.compile("[0-9]{1,12}")
_SHORT = re.compile(f"[{ALPHABET}]{{22}}")


def is_uuid(text: str) -> bool:
    """Whether this could be an id of ours; what could not is never asked for."""
    return UUID.fullmatch(text) is not None


def is_username(text: str) -> bool:
    return _USERNAME.fullmatch(text) is not None


def find(query: Any, field: peewee.Field, unique_id: str) -> Any:
    """The row of this query with this id, or NotFound."""
    if not is_uuid(unique_id):
        raise NotFound
    row = query.where(field == unique_id).first()
    if row is None:
        raise NotFound
    return row


def access_account(viewer: Viewer) -> Account:
    if not viewer.is_admin:
        raise Forbidden
    return viewer.account


def access_team(viewer: Viewer, team_id: str) -> Team:
    teams = Team.select(Team, User).join(User, on=Team.owner).where(Team.account == viewer.account)
    team: Team = find(teams, Team.unique_id, team_id)
    require_member(viewer, team.id)
    return team


def require_member(viewer: Viewer, team_row: int) -> None:
    """Forbidden for those who are neither in this team of their account nor its admins."""
    if viewer.is_admin:
        return
    member = TeamMember.select().where(TeamMember.team == team_row, TeamMember.user == viewer.user)
    if not member.exists():
        raise Forbidden


def visible_teams(viewer: Viewer) -> Any:
    """The row numbers of the teams whose objects the viewer may see, oldest first."""
    teams = Team.select(Team.id).where(Team.account == viewer.account)
    return teams if viewer.is_admin else teams.where(Team.id.in_(own_teams(viewer)))


def own_teams(viewer: Viewer) -> Any:
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
    if _NUMBER.fullmatch(reference) and int(reference) <= LARGEST:
        row = rows.where(Incident.incident_number == int(reference)).first()
    elif _SHORT.fullmatch(reference):
        row = rows.where(Incident.unique_id == reference).first()
    else:
        row = None
    if row is None:
        raise NotFound
    require_member(viewer, row.team_id)
    incident: Incident = row
    return incident


def access_user(viewer: Viewer, username: str) -> User:
    """A member's own things: for that member, and for owners and admins."""
    user = see_user(viewer, username)
    if user.id != viewer.user.id and not viewer.is_admin:
        raise Forbidden
    return user


def see_user(viewer: Viewer, username: str) -> User:
    """A present member of the viewer's account; every member may see every other."""
    user = member_named(viewer.account, username)
    if user is None:
        raise NotFound
    return user


def member_named(account: Account, username: str) -> User | None:
    """A present member of this account, or None."""
    if not is_username(username):
        return None
    user: User | None = (
        User.select()
        .where(User.account == account, User.username == username, User.removed_at.is_null())
        .first()
    )
    return user
