"""Store the secrets with which webhooks to contacts are signed.

Processes of the previous version may still run. They have no webhooks and ignore the table.
"""

import peewee

from models.store.base import UtcField


class ContactMethod(peewee.Model):
    class Meta:
        table_name = "contact_method"


class ContactSecret(peewee.Model):
    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    secret = peewee.CharField(max_length=64)
    created_at = UtcField()

    class Meta:
        table_name = "contact_secret"


def up(migrator, db):
    with db.bind_ctx([ContactMethod, ContactSecret]):
        db.create_tables([ContactSecret])
