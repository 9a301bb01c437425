"""Who may read and undo a change: those who may read and write its object.

Owners and admins may read all changes of the account. Others may read changes of a team's objects with the
permission of the kind in that team, and those of their own objects, for example contacts and notification
rules. Changes of objects of the account, sign-ins and changes of rights are for owners and admins.

The permissions of a kind are those of its resource (web/changes/kinds.py).
"""

from collections.abc import Iterable, Sequence

import peewee

from models.changes.record import CHANGED, CREATED, DELETED
from models.domain.enums import TeamRole
from models.store.fields import NumberedTable, Table
from models.tables.changes import Change
from models.tables.teams import Team, TeamMember
from web.changes.kinds import list_kinds
from web.http.auth import Viewer
from web.http.permissions import REQUIRED_ROLES, Grants, is_allowed
from web.http.resource import Resource

# What the undo of an action does to the object.
_UNDOING = {CREATED: "destroy", CHANGED: "update", DELETED: "create"}


def select_readable(query: "peewee.ModelSelect[Change]", me: Viewer) -> "peewee.ModelSelect[Change]":
    """Return those changes of this query that the viewer may read."""
    if me.is_admin:
        return query
    grants = _load_grants(Team.account == me.account, me)
    # Mostly, the same teams permit all kinds: one condition for them is much faster than one for each kind.
    nouns: dict[tuple[int, ...], list[str]] = {}
    for noun, kind in list_kinds().items():
        permission = kind.resource.permissions.read
        # No team permits others to read the objects of a person or of the account.
        if permission not in REQUIRED_ROLES:
            teams = tuple(team for team, granted in grants.items() if is_allowed(granted, permission))
            nouns.setdefault(teams, []).append(noun)
    readable = (Change.user == me.user) & (Change.kind != "")
    for teams, found in nouns.items():
        if teams:
            readable |= Change.team.in_(teams) & Change.kind.in_(found)
    return query.where(readable)


def find_writable(changes: Sequence[Change], me: Viewer) -> set[int]:
    """Return the row numbers of those changes whose object the viewer may write, with one query."""
    if me.is_admin:
        return {each.id for each in changes}
    teams = sorted({each.team_id for each in changes} - {None})
    kinds, grants = list_kinds(), _load_grants(Team.id.in_(teams), me)
    return {
        each.id
        for each in changes
        if each.kind in kinds and _is_writable(each, kinds[each.kind].resource, grants, me)
    }


def _is_writable(
    change: Change, resource: Resource[NumberedTable, Table], grants: dict[int, Grants], me: Viewer
) -> bool:
    permission = resource.get_permission(_UNDOING.get(change.action, "update"))
    if change.team_id is not None:
        return change.team_id in grants and is_allowed(grants[change.team_id], permission)
    return change.user_id == me.user.id


def _load_grants(which: peewee.Expression, me: Viewer) -> dict[int, Grants]:
    """Return what the viewer may do in these teams, with one query."""
    is_member = (TeamMember.team == Team.id) & (TeamMember.user == me.user)
    rows: Iterable[tuple[int, int | None, Sequence[str]]] = (
        Team.select(Team.id, TeamMember.role, Team.account_permissions)
        .join(TeamMember, peewee.JOIN.LEFT_OUTER, on=is_member)
        .where(which)
        .tuples()
    )
    return {
        team: Grants(me.role, me.role_permissions, TeamRole(role) if role else None, permissions)
        for team, role, permissions in rows
    }
