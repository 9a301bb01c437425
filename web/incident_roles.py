"""The parts that people play in an incident: contract section 3.11."""

from models.teams import IncidentRole
from web.permissions import named
from web.resource import Element
from web.shapes import LONG_TEXT, Moment, Number, Reference, Shape, Text


class IncidentRoleShape(Shape):
    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    title = Text(required=True)
    description = Text(limit=LONG_TEXT)
    creation_date = Moment(dump_only=True)
    rank = Number(least=0, most=10)


class IncidentRoles(Element):
    """The roles of a team. A write is answered without the team (contract 3.11)."""

    model = IncidentRole
    noun = "incident role"
    schema = IncidentRoleShape(exclude=("team",))
    shown = IncidentRoleShape()
    parent_field = IncidentRole.team
    id_arg = "incident_role_id"
    needs = named("incident_role")


INCIDENT_ROLES = IncidentRoles()
