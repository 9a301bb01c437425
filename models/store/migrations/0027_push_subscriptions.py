"""Store where and with which keys a browser receives messages."""

import peewee

from models.store.base import UtcField


class ContactMethod(peewee.Model):
    class Meta:
        table_name = "contact_method"


class PushSubscription(peewee.Model):
    contact = peewee.ForeignKeyField(ContactMethod, unique=True, on_delete="CASCADE")
    endpoint = peewee.TextField()
    p256dh = peewee.CharField(max_length=128)
    auth = peewee.CharField(max_length=64)
    created_at = UtcField()

    class Meta:
        table_name = "push_subscription"


def up(migrator, db):
    with db.bind_ctx([ContactMethod, PushSubscription]):
        db.create_tables([PushSubscription])
