"""Lists of what is to be done about an incident: contract sections 3.11 and 3.12."""

from typing import Any

import peewee
from marshmallow import validate

from models.tasks import TaskTemplate, TemplateTask
from models.teams import IncidentRole
from web.permissions import named
from web.resource import Element, Ordered
from web.services import team_row
from web.shapes import LONG_TEXT, MaybeNumber, Moment, Number, Reference, Shape, Text

# A week, in minutes; -1 is never.
LONGEST_MINUTES = 10_080
MOST_TASKS = 100


class TaskTemplateShape(Shape):
    unique_id = Text(dump_only=True)
    team = Reference(dump_only=True)
    name = Text(required=True)
    creation_date = Moment(dump_only=True)
    summary = Text(limit=LONG_TEXT)
    due_immediately = Number(validate=validate.OneOf([0, 1]))


class TaskTemplates(Element):
    """The templates of a team. A write is answered without the team (contract 3.11)."""

    model = TaskTemplate
    noun = "task template"
    schema = TaskTemplateShape(exclude=("team",))
    shown = TaskTemplateShape()
    parent_field = TaskTemplate.team
    id_arg = "task_template_id"
    needs = named("task_template")


class TemplateTaskShape(Shape):
    unique_id = Text(dump_only=True)
    task_template = Reference(dump_only=True)
    title = Text(required=True)
    description = Text(limit=LONG_TEXT)
    due_in = Number(least=-1, most=LONGEST_MINUTES)
    creation_date = Moment(dump_only=True)
    role = Reference(absent="")
    position = MaybeNumber(least=0)


class TemplateTasks(Ordered):
    """The tasks of a template, in order; `role` is the role of the team whose bearer is to do it."""

    model = TemplateTask
    noun = "template task"
    schema = TemplateTaskShape()
    parent_field = TemplateTask.task_template
    id_arg = "task_id"
    needs = named("task_template")
    most = MOST_TASKS

    def parent(self, **ids: str) -> TaskTemplate:
        template: TaskTemplate = TASK_TEMPLATES.found(**ids)[1]
        return template

    def rows(self, parent: TaskTemplate) -> Any:
        tasks = TemplateTask.select(TemplateTask, IncidentRole).join(IncidentRole, peewee.JOIN.LEFT_OUTER)
        return tasks.where(TemplateTask.task_template == parent)

    def checked(self, values: dict[str, Any], parent: TaskTemplate, row: Any) -> dict[str, Any]:
        if values.get("role"):
            values["role"] = team_row(IncidentRole, parent.team, values["role"], "role")
        return super().checked(values, parent, row)


TASK_TEMPLATES = TaskTemplates()
TEMPLATE_TASKS = TemplateTasks()
