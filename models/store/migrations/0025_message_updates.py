"""Store which sent messages must be changed, which process holds a lease, and how far a listener has come."""

import peewee

from models.store.base import UtcField


class MessageUpdate(peewee.Model):
    message_row = peewee.BigIntegerField(unique=True)
    channel = peewee.SmallIntegerField()
    version = peewee.IntegerField(default=1)
    due_at = UtcField()
    attempts = peewee.IntegerField(default=0)

    class Meta:
        table_name = "message_update"


class Lease(peewee.Model):
    name = peewee.CharField(max_length=64, unique=True)
    holder = peewee.CharField(max_length=64)
    until = UtcField()

    class Meta:
        table_name = "lease"


class ListenerPosition(peewee.Model):
    name = peewee.CharField(max_length=64, unique=True)
    number = peewee.BigIntegerField()

    class Meta:
        table_name = "listener_position"


def up(migrator, db):
    tables = [MessageUpdate, Lease, ListenerPosition]
    with db.bind_ctx(tables):
        db.create_tables(tables)
    db.execute_sql('CREATE INDEX "message_update_due" ON "message_update" ("channel", "due_at")')
