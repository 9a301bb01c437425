"""Store drills. Processes of the previous version treat their incidents like all others."""

import peewee

from models.store.base import ReasonField, UtcField


class Account(peewee.Model):
    class Meta:
        table_name = "account"


class Incident(peewee.Model):
    class Meta:
        table_name = "incident"


class Drill(peewee.Model):
    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    incident = peewee.ForeignKeyField(Incident, unique=True, on_delete="CASCADE")
    policy = peewee.CharField(max_length=255)
    ends_at = UtcField()
    done_at = UtcField(null=True)
    outcome = ReasonField(null=True)

    class Meta:
        table_name = "drill"


Drill.add_index(Drill.index(Drill.account, Drill.done_at, name="drill_of_account"))


def up(migrator, db):
    with db.bind_ctx([Account, Incident, Drill]):
        db.create_tables([Drill])
