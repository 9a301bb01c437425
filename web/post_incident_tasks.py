"""What a team wants to do after its incidents: contract section 3.12."""

from contextlib import AbstractContextManager
from typing import Any

import peewee
from marshmallow import fields

from models.accounts import User
from models.base import store
from models.enums import TaskStatus
from models.tasks import PostIncidentTask
from models.teams import Team
from web.paging import PageShape
from web.permissions import named
from web.resource import Resource
from web.shapes import LONG_TEXT, Choice, MaybeMoment, Moment, Reference, Several, Shape, Text, Username
from web.teams import account_member


class AssigneeShape(Shape):
    first_name = Text(dump_only=True)
    last_name = Text(dump_only=True)
    username = Text(dump_only=True)


class PostIncidentTaskShape(Shape):
    unique_id = Text(dump_only=True)
    title = Text(required=True)
    description = Text(limit=LONG_TEXT)
    team = Reference(dump_only=True)
    status = Choice(TaskStatus)
    due_in_time = MaybeMoment()
    creation_date = Moment(dump_only=True)
    assigned_to = Username(absent="")
    assigned_to_obj = fields.Nested(AssigneeShape, attribute="assigned_to", dump_only=True, allow_none=True)


class PostIncidentTaskPageShape(PageShape):
    results = Several(fields.Nested(PostIncidentTaskShape), dump_only=True)


class PostIncidentTasks(Resource):
    """The tasks of a team, page by page."""

    model = PostIncidentTask
    noun = "post-incident task"
    schema = PostIncidentTaskShape()
    page = PostIncidentTaskPageShape()
    parent_field = PostIncidentTask.team
    id_arg = "post_incident_task_id"
    needs = named("post_incident_task")

    def writing(self) -> AbstractContextManager[None]:
        return store().writing()

    def rows(self, parent: Team) -> Any:
        tasks = PostIncidentTask.select(PostIncidentTask, User).join(User, peewee.JOIN.LEFT_OUTER)
        return tasks.where(PostIncidentTask.team == parent)

    def checked(self, values: dict[str, Any], parent: Team, row: Any) -> dict[str, Any]:
        if values.get("assigned_to"):
            values["assigned_to"] = account_member(parent.account, values["assigned_to"], "assigned_to")
        return values


POST_INCIDENT_TASKS = PostIncidentTasks()
