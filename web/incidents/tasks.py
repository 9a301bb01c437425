"""The tasks of an incident (under /api/tocsin/)."""

from typing import Any

import peewee

from models.domain.enums import TaskStatus
from models.domain.reasons import make_reason
from models.tables.accounts import User
from models.tables.incidents import Incident, IncidentTask
from models.tables.teams import IncidentRole
from web.http.auth import viewer
from web.http.errors import collect_refusals
from web.http.fields import Choice, Moment, OptionalMoment, Reference, Schema, Text, Username, explain
from web.http.resource import LimitedResource
from web.incidents.schemas import Summary, Title
from web.incidents.sub_resource import IncidentResource, get_author_name, log_change
from web.services.services import get_team_row
from web.teams.teams import get_account_member


class IncidentTaskSchema(Schema):
    """A task for one person: the person with the team's `role` in the incident, or `assigned_to`."""

    unique_id = Text(dump_only=True)
    title = Title(required=True, metadata=explain("What to do, in one line."))
    description = Summary(metadata=explain("More about the task. Truncated after 16,384 characters."))
    status = Choice(TaskStatus, metadata=explain("The progress; default: 0."))
    due_at = OptionalMoment(metadata=explain("When the task is due; null: no due time."))
    assigned_to = Username()
    role = Reference(
        metadata=explain("The unique_id of the incident role whose person does the task; null: none.")
    )
    creation_date = Moment(dump_only=True)


class IncidentTasks(IncidentResource[IncidentTask], LimitedResource[IncidentTask, Incident]):
    """The tasks of an incident: added by people, by alert rules, or from the task template of its service."""

    model = IncidentTask
    noun = "incident task"
    schema = IncidentTaskSchema()
    parent_field = IncidentTask.incident
    id_arg = "incident_task_id"
    max_rows = 500

    def select_rows(self, parent: Incident) -> "peewee.ModelSelect[IncidentTask]":
        return (
            IncidentTask.select(IncidentTask, User, IncidentRole)
            .join(User, peewee.JOIN.LEFT_OUTER)
            .join_from(IncidentTask, IncidentRole, peewee.JOIN.LEFT_OUTER)
            .where(IncidentTask.incident == parent)
        )

    def check_values(
        self, values: dict[str, Any], parent: Incident, row: IncidentTask | None
    ) -> dict[str, object]:
        account = viewer().account
        with collect_refusals() as check:
            if values.get("assigned_to"):
                with check():
                    values["assigned_to"] = get_account_member(account, values["assigned_to"], "assigned_to")
            if values.get("role"):
                with check():
                    values["role"] = get_team_row(IncidentRole, parent.team_id, values["role"], "role")
        return {name: value for name, value in values.items() if row is None or value != getattr(row, name)}

    def insert(self, parent: Incident, values: dict[str, object]) -> IncidentTask:
        made = super().insert(parent, values)
        log_change(parent, "task_added", make_reason("task_added", task=made.title, by=get_author_name()))
        return made

    def change(self, row: IncidentTask, values: dict[str, Any]) -> None:
        super().change(row, values)
        if values:
            log_change(
                row.incident,
                "task_changed",
                make_reason("task_changed", task=row.title, changes=_describe(values), by=get_author_name()),
            )

    def remove(self, row: IncidentTask) -> None:
        super().remove(row)
        log_change(
            row.incident,
            "task_removed",
            make_reason("task_removed", task=row.title, by=get_author_name()),
        )


def _describe(new: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the changed fields, and the new status."""
    status = f"status {TaskStatus(new['status']).name.lower().replace('_', ' ')}" if "status" in new else ""
    return tuple(status if name == "status" else name for name in sorted(new))


INCIDENT_TASKS = IncidentTasks()
