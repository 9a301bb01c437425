"""Store headers of requests that sources read, and per integration what its source needs.

Processes of the previous version may still run. They write no headers: the column may be NULL. They do not
read the new table, so they accept alerts of a source without its signature.
"""

import peewee

from models.store.base import JsonField, UtcField


class Integration(peewee.Model):
    class Meta:
        table_name = "integration"


class SourceSetup(peewee.Model):
    integration = peewee.ForeignKeyField(Integration, unique=True, on_delete="CASCADE")
    secret = peewee.CharField(max_length=256, null=True)
    mapping = JsonField(null=True)
    updated_at = UtcField()

    class Meta:
        table_name = "source_setup"


def up(migrator, db):
    db.execute_sql('ALTER TABLE "receipt" ADD COLUMN "headers" TEXT')
    with db.bind_ctx([Integration, SourceSetup]):
        db.create_tables([SourceSetup])
