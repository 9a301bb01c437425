"""Incident roles: the functions of people in an incident. Contract section 3.11."""

from models.tables.teams import IncidentRole
from web.http.fields import LONG_TEXT, Moment, Number, Reference, Schema, Text, explain
from web.http.permissions import get_permissions
from web.http.resource import TeamElement


class IncidentRoleSchema(Schema):
    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    title = Text(required=True, metadata=explain("The name of the role."))
    description = Text(limit=LONG_TEXT)
    creation_date = Moment(dump_only=True)
    rank = Number(
        min_value=0, max_value=10, metadata=explain("The rank of the role for user interfaces; default: 1.")
    )


class IncidentRoles(TeamElement[IncidentRole]):
    """The roles of a team. The answer to a write does not contain the team (contract 3.11)."""

    model = IncidentRole
    noun = "incident role"
    schema = IncidentRoleSchema(exclude=("team",))
    response = IncidentRoleSchema()
    parent_field = IncidentRole.team
    id_arg = "incident_role_id"
    permissions = get_permissions("incident_role")
    name_field = "title"


INCIDENT_ROLES = IncidentRoles()
