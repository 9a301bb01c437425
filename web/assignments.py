"""Who has which role of the team's in an incident (under /api/tocsin/)."""

from typing import Any

from marshmallow import fields

from models.accounts import User, display_name
from models.apply import apply
from models.effects import Outcome
from models.facts import Named
from models.ids import new_uuid
from models.incidents import Incident, IncidentAssignment
from models.teams import IncidentRole
from pipeline import moves
from web.auth import now, viewer
from web.incident_parts import PartOfIncident, acting, note
from web.services import team_row
from web.shapes import Moment, Reference, Shape, Text, Username
from web.teams import account_member


class HeldRoleShape(Shape):
    unique_id = Text(dump_only=True)
    role = Reference(required=True, blank=False)
    role_title = Text(attribute="role.title", dump_only=True)
    user = Username(required=True, blank=False)
    user_name = fields.Function(lambda row: display_name(row.user))
    creation_date = Moment(dump_only=True)


class Assignments(PartOfIncident):
    """The roles that people have in an incident: one person for each, a second in the place of the first."""

    model = IncidentAssignment
    noun = "role in an incident"
    schema = HeldRoleShape()
    parent_field = IncidentAssignment.incident
    id_arg = "assignment_id"

    def rows(self, parent: Incident) -> Any:
        return (
            IncidentAssignment.select(IncidentAssignment, IncidentRole, User)
            .join(IncidentRole)
            .join_from(IncidentAssignment, User)
            .where(IncidentAssignment.incident == parent)
        )

    def checked(self, values: dict[str, Any], parent: Incident, row: Any) -> dict[str, Any]:
        return {
            "role": team_row(IncidentRole, parent.team_id, values["role"], "role"),
            "user": account_member(viewer().account, values["user"], "user"),
        }

    def insert(self, parent: Incident, values: dict[str, Any]) -> IncidentAssignment:
        role, user = values["role"], values["user"]
        of_role = self.rows(parent).where(IncidentAssignment.role == role)
        standing: IncidentAssignment | None = of_role.first()
        if standing is not None and standing.user_id == user.id:
            return standing
        whom = Named(user.id, display_name(user))
        given = moves.give_role(
            parent.unique_id, new_uuid(), Named(role.id, role.title), whom, acting(), now()
        )
        apply(Outcome(effects=list(given)), {parent.unique_id: parent.id})
        made: IncidentAssignment = of_role.get()
        return made

    def remove(self, row: IncidentAssignment) -> None:
        super().remove(row)
        note(row.incident, "role_taken", f"{row.role.title} is no longer {display_name(row.user)}")


ASSIGNMENTS = Assignments()
