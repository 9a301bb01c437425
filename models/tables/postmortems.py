"""Postmortems of incidents (contract sections 3.11 and 4.10)."""

import peewee

from models.store.fields import NumberedObject, Table, UtcField
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.teams import Team


class Postmortem(NumberedObject):
    """A postmortem. `status` is free text. `postmortem_data` is HTML, which Tocsin never renders as HTML."""

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    author = peewee.ForeignKeyField(User)
    status = peewee.CharField(max_length=255, default="")
    title = peewee.CharField(max_length=255, default="")
    postmortem_data = peewee.TextField(default="")
    download_status = peewee.SmallIntegerField(default=0)
    updated_at = UtcField()


class PostmortemIncident(Table):
    """An incident of a postmortem."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    postmortem = peewee.ForeignKeyField(Postmortem, on_delete="CASCADE", index=False)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")

    class Meta:
        indexes = ((("postmortem", "incident"), True),)
