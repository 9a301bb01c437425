"""Store the IDs of applications that accounts bring, and what alerts show of deleted integrations.

Processes of the previous version may still run: the new columns may be NULL. They cannot show an integration
whose application has an ID that they do not know, and alerts of integrations that they delete show none. The
index is empty: PostgreSQL reads the table once to build it. Alerts are accepted meanwhile, because this
migration locks no table that acceptance reads: the kind of an integration has a migration of its own.
"""

import peewee

from models.store.base import UtcField

EVENT = """
ALTER TABLE "event" ADD COLUMN "deleted_integration_id" INTEGER
    REFERENCES "deleted_integration" ("id") ON DELETE SET NULL;
CREATE INDEX event_of_deleted_integration ON "event" (deleted_integration_id)
    WHERE deleted_integration_id IS NOT NULL
"""


class Account(peewee.Model):
    class Meta:
        table_name = "account"


class Team(peewee.Model):
    class Meta:
        table_name = "team"


class AddedApplication(peewee.Model):
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    unique_id = peewee.CharField(max_length=36)
    kind = peewee.CharField(max_length=32)
    creation_date = UtcField()

    class Meta:
        table_name = "added_application"
        indexes = ((("account", "unique_id"), True),)


class DeletedIntegration(peewee.Model):
    unique_id = peewee.CharField(max_length=36)
    team = peewee.ForeignKeyField(Team, on_delete="CASCADE")
    service = peewee.CharField(max_length=36)
    name = peewee.CharField(max_length=255)
    summary = peewee.TextField()
    creation_date = UtcField()
    integration_key = peewee.CharField(max_length=36)
    is_enabled = peewee.BooleanField()
    integration_type = peewee.SmallIntegerField()

    class Meta:
        table_name = "deleted_integration"


def up(migrator, db):
    with db.bind_ctx([Account, Team, AddedApplication, DeletedIntegration]):
        db.create_tables([AddedApplication, DeletedIntegration])
    for statement in EVENT.split(";"):
        db.execute_sql(statement.strip())
