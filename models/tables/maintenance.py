"""Maintenance windows, in which alerts of services notify nobody (contract sections 3.11 and 4.6)."""

import peewee

from models.store.fields import NumberedObject, Table, UtcField
from models.tables.services import Service
from models.tables.teams import Team


class Maintenance(NumberedObject):
    """A window from `start_time` to `end_time`.

    It repeats every `repeat_interval` days (0: never) until `repeat_until` (None: without end), in the local
    time of `time_zone`.
    """

    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    name = peewee.CharField(max_length=255, default="")
    start_time = UtcField()
    end_time = UtcField()
    repeat_interval = peewee.IntegerField(default=0)
    repeat_until = UtcField(null=True)
    time_zone = peewee.CharField(max_length=64, default="UTC")


class MaintenanceService(Table):
    """A service of a maintenance window."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    maintenance = peewee.ForeignKeyField(Maintenance, on_delete="CASCADE", index=False)
    service = peewee.ForeignKeyField(Service, on_delete="CASCADE")

    class Meta:
        indexes = ((("maintenance", "service"), True),)
