"""Task templates of teams and post-incident tasks (contract 3.11 and 3.12)."""

import peewee

from models.store.fields import NumberedObject, UtcField
from models.tables.accounts import User
from models.tables.teams import IncidentRole, Team


class TaskTemplate(NumberedObject):
    """A list of tasks. With `due_immediately`, tasks without a due time of their own are due immediately."""

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    due_immediately = peewee.SmallIntegerField(default=0)


class TemplateTask(NumberedObject):
    """A task of a template. `due_in` is in minutes, -1: no due time. `role` names the role that does it."""

    task_template = peewee.ForeignKeyField(TaskTemplate, on_delete="CASCADE")
    title = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    due_in = peewee.IntegerField(default=-1)
    role = peewee.ForeignKeyField(IncidentRole, null=True, on_delete="SET NULL")
    position = peewee.IntegerField()


class PostIncidentTask(NumberedObject):
    """A task of a team after incidents; `status` is a models.domain.enums.TaskStatus."""

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    title = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    status = peewee.SmallIntegerField(default=0)
    due_in_time = UtcField(null=True)
    assigned_to = peewee.ForeignKeyField(User, null=True)
