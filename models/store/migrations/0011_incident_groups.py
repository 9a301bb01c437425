"""Store the values of the alerts that opened incidents. The previous version does not use the table."""

import peewee

from models.store.base import UtcField


class Incident(peewee.Model):
    class Meta:
        table_name = "incident"


class IncidentGroup(peewee.Model):
    id = peewee.BigAutoField()
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    digest = peewee.CharField(max_length=64, index=True)
    created_at = UtcField()

    class Meta:
        table_name = "incident_group"


def up(migrator, db):
    with db.bind_ctx([Incident, IncidentGroup]):
        db.create_tables([IncidentGroup])
