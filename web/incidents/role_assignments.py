"""People and their roles in an incident (under /api/tocsin/)."""

from typing import Any

import peewee
from marshmallow import fields

from models.domain import facts
from models.domain.reasons import make_reason
from models.store.ids import make_uuid
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident, IncidentAssignment
from models.tables.teams import IncidentRole
from pipeline import incidents
from web.http.auth import now, viewer
from web.http.errors import collect_refusals
from web.http.fields import Moment, Reference, Schema, Text, Username, explain
from web.incidents.sub_resource import (
    IncidentResource,
    build_viewer_author,
    get_author_name,
    log_change,
    write_effects,
)
from web.services.services import get_team_row
from web.teams.teams import get_account_member


class RoleAssignmentSchema(Schema):
    unique_id = Text(dump_only=True)
    role = Reference(
        required=True, blank=False, metadata=explain("The unique_id of an incident role of the team.")
    )
    role_title = Text(attribute="role.title", dump_only=True, metadata=explain("The name of the role."))
    user = Username(required=True, blank=False)
    user_name = fields.Function(lambda row: get_display_name(row.user))
    creation_date = Moment(dump_only=True)


class Assignments(IncidentResource[IncidentAssignment]):
    """The roles of people in an incident. A role has one person; a new person replaces the previous one."""

    model = IncidentAssignment
    noun = "role in an incident"
    title = "role assignment of an incident"
    schema = RoleAssignmentSchema()
    parent_field = IncidentAssignment.incident
    id_arg = "assignment_id"

    def select_rows(self, parent: Incident) -> "peewee.ModelSelect[IncidentAssignment]":
        return (
            IncidentAssignment.select(IncidentAssignment, IncidentRole, User)
            .join(IncidentRole)
            .join_from(IncidentAssignment, User)
            .where(IncidentAssignment.incident == parent)
        )

    def check_values(
        self, values: dict[str, Any], parent: Incident, row: IncidentAssignment | None
    ) -> dict[str, object]:
        with collect_refusals() as check:
            with check():
                values["role"] = get_team_row(IncidentRole, parent.team_id, values["role"], "role")
            with check():
                values["user"] = get_account_member(viewer().account, values["user"], "user")
        return values

    def insert(self, parent: Incident, values: dict[str, Any]) -> IncidentAssignment:
        role, user = values["role"], values["user"]
        of_role = self.select_rows(parent).where(IncidentAssignment.role == role)
        existing: IncidentAssignment | None = of_role.first()
        if existing is not None and existing.user_id == user.id:
            return existing
        assignee = facts.Reference(user.id, get_display_name(user))
        effects = incidents.assign_role(
            parent.unique_id,
            make_uuid(),
            facts.Reference(role.id, role.title),
            assignee,
            build_viewer_author(),
            now(),
        )
        write_effects(parent, effects)
        made: IncidentAssignment = of_role.get()
        return made

    def remove(self, row: IncidentAssignment) -> None:
        super().remove(row)
        log_change(
            row.incident,
            "role_taken",
            make_reason(
                "role_ended",
                role=row.role.title,
                person=get_display_name(row.user),
                by=get_author_name(),
            ),
        )


ASSIGNMENTS = Assignments()
