"""Task templates: lists of tasks for incidents. Contract sections 3.11 and 3.12."""

from typing import Any

import peewee

from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import IncidentRole
from web.http.fields import (
    LONG_TEXT,
    Choice,
    Moment,
    Number,
    OptionalNumber,
    Reference,
    Schema,
    Text,
    explain,
)
from web.http.permissions import get_permissions
from web.http.resource import OrderedResource, TeamElement
from web.services.services import get_team_row

# A week in minutes; -1 means never.
MAX_MINUTES = 10_080
MAX_TASKS = 100


class TaskTemplateSchema(Schema):
    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    name = Text(required=True)
    creation_date = Moment(dump_only=True)
    summary = Text(limit=LONG_TEXT)
    due_immediately = Choice(
        names={0: "no", 1: "yes"},
        metadata=explain("Whether tasks without a time of their own are due at once; default: 0."),
    )


class TaskTemplates(TeamElement[TaskTemplate]):
    """The task templates of a team. The answer to a write does not contain the team (contract 3.11)."""

    model = TaskTemplate
    noun = "task template"
    schema = TaskTemplateSchema(exclude=("team",))
    response = TaskTemplateSchema()
    parent_field = TaskTemplate.team
    id_arg = "task_template_id"
    permissions = get_permissions("task_template")


class TemplateTaskSchema(Schema):
    unique_id = Text(dump_only=True)
    task_template = Reference(dump_only=True, metadata=explain("The unique_id of the task template."))
    title = Text(required=True, metadata=explain("What to do, in one line."))
    description = Text(limit=LONG_TEXT)
    due_in = Number(
        min_value=-1,
        max_value=MAX_MINUTES,
        metadata=explain("Minutes until the task is due; -1 (default): no due time."),
    )
    creation_date = Moment(dump_only=True)
    role = Reference(
        absent="",
        metadata=explain("The unique_id of the incident role whose person gets the task; empty: none."),
    )
    position = OptionalNumber(
        min_value=0,
        metadata=explain(
            "The place among the tasks; missing or 0: last in a create, unchanged in an update."
        ),
    )


class TemplateTasks(OrderedResource[TemplateTask, TaskTemplate]):
    """The tasks of a template, in order. The person with the team's `role` does the task."""

    model = TemplateTask
    noun = "template task"
    title = "task of a template"
    schema = TemplateTaskSchema()
    parent_field = TemplateTask.task_template
    id_arg = "task_id"
    permissions = get_permissions("task_template")
    max_rows = MAX_TASKS

    def get_parent(self, **ids: str) -> TaskTemplate:
        template: TaskTemplate = TASK_TEMPLATES.find_row(**ids)[1]
        return template

    def select_rows(self, parent: TaskTemplate) -> "peewee.ModelSelect[TemplateTask]":
        tasks = TemplateTask.select(TemplateTask, IncidentRole).join(IncidentRole, peewee.JOIN.LEFT_OUTER)
        return tasks.where(TemplateTask.task_template == parent)

    def check_values(
        self, values: dict[str, Any], parent: TaskTemplate, row: TemplateTask | None
    ) -> dict[str, object]:
        if values.get("role"):
            values["role"] = get_team_row(IncidentRole, parent.team, values["role"], "role")
        return super().check_values(values, parent, row)


TASK_TEMPLATES = TaskTemplates()
TEMPLATE_TASKS = TemplateTasks()
