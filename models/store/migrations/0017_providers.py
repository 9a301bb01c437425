"""Store who took a message, its id there and what was reported later; callbacks; codes that link contacts.

Processes of the previous version may still run: the new columns may be NULL.
"""

import peewee

from models.store.base import UtcField

COLUMNS = (
    '"provider" VARCHAR(32)',
    '"provider_id" VARCHAR(128)',
    '"provider_state" VARCHAR(32)',
    '"reported_at" TIMESTAMPTZ',
)


class ContactMethod(peewee.Model):
    class Meta:
        table_name = "contact_method"


class ContactLink(peewee.Model):
    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    digest = peewee.CharField(max_length=64, unique=True)
    expires_at = UtcField()

    class Meta:
        table_name = "contact_link"


class Callback(peewee.Model):
    key = peewee.CharField(max_length=64, unique=True)
    at = UtcField(index=True)

    class Meta:
        table_name = "callback"


def up(migrator, db):
    for column in COLUMNS:
        db.execute_sql(f'ALTER TABLE "attempt" ADD COLUMN {column}')
    where = '"provider_id" IS NOT NULL'
    db.execute_sql(f'CREATE INDEX "attempt_provider" ON "attempt" ("provider_id") WHERE {where}')
    db.execute_sql('CREATE INDEX "event_opener" ON "event" ("incident_id") WHERE "incident_created"')
    with db.bind_ctx([ContactMethod, ContactLink, Callback]):
        db.create_tables([ContactLink, Callback])
