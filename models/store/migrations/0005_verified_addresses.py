"""Store which addresses are verified, and the codes that verify them.

Addresses that exist now count as verified, so that the upgrade silences nobody. Processes of the previous
version may still run: the new columns may be NULL, and an address that they write is not verified.
"""

import peewee

from models.store.base import UtcField


def up(migrator, db):
    db.execute_sql('ALTER TABLE "user" ADD COLUMN "verified_email" VARCHAR(254)')
    db.execute_sql('ALTER TABLE "contact_method" ADD COLUMN "verified_value" VARCHAR(320)')
    db.execute_sql('UPDATE "user" SET "verified_email" = "email"')
    db.execute_sql('UPDATE "contact_method" SET "verified_value" = "value"')

    class Contact(peewee.Model):
        class Meta:
            table_name = "contact_method"

    class ContactCode(peewee.Model):
        contact = peewee.ForeignKeyField(Contact, unique=True, on_delete="CASCADE")
        value = peewee.CharField(max_length=320)
        code = peewee.CharField(max_length=6)
        expires_at = UtcField()
        attempts = peewee.IntegerField()

        class Meta:
            table_name = "contact_code"

    with db.bind_ctx([Contact, ContactCode]):
        db.create_tables([ContactCode])
