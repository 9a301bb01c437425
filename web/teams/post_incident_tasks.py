"""Post-incident tasks of a team: contract section 3.12."""

from typing import Any

import peewee
from marshmallow import fields

from models.domain.enums import TaskStatus
from models.tables.accounts import User
from models.tables.tasks import PostIncidentTask
from models.tables.teams import Team
from web.http.fields import (
    LONG_TEXT,
    Choice,
    List,
    Moment,
    OptionalMoment,
    Reference,
    Schema,
    Text,
    Username,
    explain,
)
from web.http.paging import PageSchema
from web.http.permissions import get_permissions
from web.http.resource import Resource
from web.teams.teams import get_account_member


class AssigneeSchema(Schema):
    first_name = Text(dump_only=True)
    last_name = Text(dump_only=True)
    username = Text(dump_only=True)


class PostIncidentTaskSchema(Schema):
    unique_id = Text(dump_only=True)
    title = Text(required=True, metadata=explain("What to do, in one line."))
    description = Text(limit=LONG_TEXT)
    team = Reference(dump_only=True)
    status = Choice(TaskStatus, metadata=explain("The progress; default: 0."))
    due_in_time = OptionalMoment(metadata=explain("When the task is due; null: no due time."))
    creation_date = Moment(dump_only=True)
    assigned_to = Username(absent="", metadata=explain("The username of the assignee; empty: nobody."))
    assigned_to_obj = fields.Nested(
        AssigneeSchema,
        attribute="assigned_to",
        dump_only=True,
        allow_none=True,
        metadata=explain("The assignee with names; null: nobody."),
    )


class PostIncidentTaskPageSchema(PageSchema):
    results = List(fields.Nested(PostIncidentTaskSchema), dump_only=True)


class PostIncidentTasks(Resource[PostIncidentTask, Team]):
    """The tasks of a team, page by page."""

    model = PostIncidentTask
    noun = "post-incident task"
    schema = PostIncidentTaskSchema()
    page = PostIncidentTaskPageSchema()
    parent_field = PostIncidentTask.team
    id_arg = "post_incident_task_id"
    permissions = get_permissions("post_incident_task")
    is_configuration = False
    # What people write about incidents is no configuration, and does not come back.
    records_changes = False

    def select_rows(self, parent: Team) -> "peewee.ModelSelect[PostIncidentTask]":
        tasks = PostIncidentTask.select(PostIncidentTask, User).join(User, peewee.JOIN.LEFT_OUTER)
        return tasks.where(PostIncidentTask.team == parent)

    def check_values(
        self, values: dict[str, Any], parent: Team, row: PostIncidentTask | None
    ) -> dict[str, object]:
        if values.get("assigned_to"):
            values["assigned_to"] = get_account_member(parent.account, values["assigned_to"], "assigned_to")
        return values


POST_INCIDENT_TASKS = PostIncidentTasks()
