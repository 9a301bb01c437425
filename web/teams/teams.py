"""Teams and their members: contract section 3.3."""

from collections.abc import Iterable
from typing import Any, cast

import peewee
from marshmallow import fields

from models.domain.enums import IncidentStatus, TeamRole
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import Account, User, get_display_name
from models.tables.incidents import Incident
from models.tables.services import Service
from models.tables.teams import EscalationPolicy, IncidentRole, Team, TeamMember
from web.http import access, recording
from web.http.auth import Viewer, now, viewer
from web.http.errors import reject, reject_places
from web.http.fields import Choice, Date, List, Moment, Reference, Schema, Text, Username, UserSchema, explain
from web.http.permissions import ADMIN, MANAGER, ReadWrite, get_permissions
from web.http.resource import Resource, attach, is_in_account, lock_row, lock_services
from web.http.writing import Mode, Writing
from web.teams.incident_roles import IncidentRoleSchema


class MemberSchema(Schema):
    """A member in an answer to a list, retrieval or invitation, with the person as an object."""

    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    user = fields.Nested(UserSchema, dump_only=True, metadata=explain("The person."))
    joining_date = Moment(dump_only=True)
    role = Choice(TeamRole, dump_only=True, metadata=explain("The role in the team."))


class MembershipSchema(Schema):
    """A member in a request, with the person by username."""

    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    joining_date = Moment(dump_only=True)
    user = Username(
        required=True,
        blank=False,
        metadata=explain("The username of the person. A membership keeps its person."),
    )
    role = Choice(TeamRole, metadata=explain("The role in the team; default: 2."))


class TeamSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(required=True)
    account = Reference(dump_only=True, metadata=explain("The unique_id of the account."))
    creation_date = Date(dump_only=True, metadata=explain("The day on which the team was created, in UTC."))
    members = List(
        fields.Nested(MemberSchema),
        attribute="teammember_set",
        dump_only=True,
        metadata=explain("The members with their roles in the team."),
    )
    owner = Username(dump_only=True, metadata=explain("The username of the owner of the team."))
    roles = List(
        fields.Nested(IncidentRoleSchema),
        attribute="incidentrole_set",
        dump_only=True,
        metadata=explain("The incident roles of the team."),
    )
    private = fields.Function(lambda team: not team.account_permissions)
    account_permissions = List(
        Text(), dump_only=True, metadata=explain("What all members of the account may do in this team.")
    )


class Teams(Resource[Team, Account]):
    """The teams of an account. Only owners and admins create and delete teams."""

    model = Team
    noun = "team"
    owns_itself = True
    can_return = False
    schema = TeamSchema()
    parent_field = Team.account
    id_arg = "team_id"
    permissions = ReadWrite("team_read", MANAGER)

    def get_permission(self, verb: str) -> str:
        return ADMIN if verb in ("create", "destroy") else super().get_permission(verb)

    def get_parent(self, **ids: str) -> Account:
        return access.access_account(viewer()) if viewer().permission == ADMIN else viewer().account

    def select_rows(self, parent: Account) -> "peewee.ModelSelect[Team]":
        return self.select_visible(viewer()).where(Team.account == parent)

    def select_visible(self, who: Viewer) -> "peewee.ModelSelect[Team]":
        teams = access.select_permitted_teams(who, self.permissions.read)
        return Team.select(Team, User).join(User, on=Team.owner).where(Team.id.in_(teams))

    def fill(self, rows: list[Team]) -> list[Team]:
        members = TeamMember.select(TeamMember, User).join(User)
        roles = IncidentRole.select()
        attach(rows, "teammember_set", members, TeamMember.team, TeamMember.joining_date)
        attach(rows, "incidentrole_set", roles, IncidentRole.team, IncidentRole.creation_date)
        return rows

    def require_permission(self, parent: Account, row: Team | None) -> None:
        if row is not None:
            access.require_permission(viewer(), row.id)
        elif viewer().permission == ADMIN:
            access.access_account(viewer())

    def insert(self, parent: Account, values: dict[str, Any]) -> Team:
        return provisioning.create_team(parent, values["name"], viewer().user, now())

    def find_row(self, **ids: str) -> tuple[Account, Team]:
        team = access.access_team(viewer(), ids["team_id"])
        return viewer().account, self.fill([self._set_parent(viewer().account, team)])[0]

    def prepare_removal(self, row: Team) -> None:
        used = Service.select().join(EscalationPolicy).where(EscalationPolicy.team == row)
        if used.where(Service.team != row).exists():
            reject("team", "A service of another team uses an escalation policy of this team.")
        # Incidents of other teams lose a shared policy of this team.
        lock_services(is_in_account(row.account_id))
        parent = Incident.alias()
        merged = Incident.select().join(parent, on=Incident.parent == parent.id).where(parent.team == row)
        if merged.where(Incident.team != row, Incident.status < IncidentStatus.RESOLVED).exists():
            reject(
                "team", "Incidents of other teams are merged into incidents of this team: unmerge them first."
            )


class Members(Resource[TeamMember, Team]):
    """The members of a team."""

    model = TeamMember
    noun = "team member"
    schema = MembershipSchema()
    response = MemberSchema()
    parent_field = TeamMember.team
    id_arg = "member_id"
    permissions = get_permissions("member")
    order = ("joining_date", "id")

    def select_rows(self, parent: Team) -> "peewee.ModelSelect[TeamMember]":
        return TeamMember.select(TeamMember, User).join(User).where(TeamMember.team == parent)

    def check_values(self, values: dict[str, Any], parent: Team, row: TeamMember | None) -> dict[str, object]:
        if row is None:
            access.require_team_member(viewer(), parent.id)
        if "user" in values:
            values["user"] = get_account_member(parent.account, values["user"], "user")
        if row is not None and values.pop("user", row.user) != row.user:
            reject("user", "The user of a membership cannot be changed: add the other user to the team.")
        if row is None and self.select_rows(parent).where(TeamMember.user == values["user"]).exists():
            reject("user", "This user is already in the team.")
        _require_rank(parent, values.get("role"), row.role if row else None)
        return values

    def check_return(self, parent: Team, values: dict[str, object]) -> None:
        # Only who may put the person into the team gives back the rights.
        self.check_values(self.load(values, Writing(Mode.CREATE)), parent, None)

    def get_name(self, row: TeamMember) -> str:
        return get_display_name(row.user)

    def insert(self, parent: Team, values: dict[str, object]) -> TeamMember:
        role = TeamRole(cast(int, values.get("role", TeamRole.USER)))
        row: TeamMember = TeamMember.create(
            unique_id=make_uuid(), team=parent, user=values["user"], role=role, joining_date=now()
        )
        self.record_return(row)
        return row

    def record_return(self, row: TeamMember) -> None:
        name = TeamRole(row.role).name.lower()
        recording.record_rights(row.user, "team_changed", f"{name} of {row.team.name}")

    def change(self, row: TeamMember, values: dict[str, object]) -> None:
        super().change(row, values)
        if "role" in values:
            name = TeamRole(cast(int, values["role"])).name.lower()
            recording.record_rights(row.user, "team_changed", f"{name} of {row.team.name}")

    def remove(self, row: TeamMember) -> None:
        _require_rank(row.team, lock_row(row).role)
        super().remove(row)
        recording.record_rights(row.user, "team_changed", f"no longer in {row.team.name}")


def _require_rank(team: Team, *roles: int | None) -> None:
    """Raise Forbidden if a role is manager and the viewer is neither a manager of the team nor an admin."""
    if TeamRole.MANAGER in roles:
        access.require_permission(viewer(), team.id, MANAGER)


def get_account_member(account: Account, username: str, field: str) -> User:
    """Return the member of the account that a body names. Raise BadRequest for the field if there is none."""
    user = access.find_member(account, username)
    if user is None:
        reject(field, f"{username} is not a member of this account.")
    return user


def get_account_members(account: Account, named: Iterable[tuple[str, str]]) -> dict[str, User]:
    """Return the members of the account that a body names, by username.

    `named` are pairs of a place in the body and a username. Raise BadRequest for the places of unknown ones.
    """
    places = list(named)
    names = {username for _, username in places}
    members = User.select().where(User.account == account, User.removed_at.is_null())
    found = {user.username: user for user in members.where(User.username.in_(names))} if names else {}
    reject_places(
        (place, f"{username} is not a member of this account.")
        for place, username in places
        if username not in found
    )
    return found


TEAMS = Teams()
MEMBERS = Members()
MEMBER = MemberSchema()
