"""Task templates of teams and post-incident tasks (contract 3.11 and 3.12)."""

import peewee

from models.store.base import Table, UtcField
from models.tables.accounts import User
from models.tables.teams import IncidentRole, Team


class TaskTemplate(Table):
    """A list of tasks. With `due_immediately`, tasks without a due time of their own are due immediately."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField(default="")
    due_immediately = peewee.SmallIntegerField(default=0)
    creation_date = UtcField()


class TemplateTask(Table):
    """A task of a template. `due_in` is in minutes, -1: no due time. `role` names the role that does it."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    task_template = peewee.ForeignKeyField(TaskTemplate, on_delete="CASCADE")
    title = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    due_in = peewee.IntegerField(default=-1)
    role = peewee.ForeignKeyField(IncidentRole, null=True, on_delete="SET NULL")
    position = peewee.IntegerField()
    creation_date = UtcField()


class PostIncidentTask(Table):
    """A task of a team after incidents; `status` is a models.domain.enums.TaskStatus."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    title = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    status = peewee.SmallIntegerField(default=0)
    due_in_time = UtcField(null=True)
    assigned_to = peewee.ForeignKeyField(User, null=True)
    creation_date = UtcField()
