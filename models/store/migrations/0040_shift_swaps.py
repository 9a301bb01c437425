"""Store requests to swap shifts. Processes of the previous version do not use the new table."""

import peewee

from models.store.base import UtcField


class Schedule(peewee.Model):
    class Meta:
        table_name = "schedule"


class User(peewee.Model):
    class Meta:
        table_name = "user"


class ShiftSwap(peewee.Model):
    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()

    schedule = peewee.ForeignKeyField(Schedule, on_delete="CASCADE")
    asker = peewee.ForeignKeyField(User, on_delete="CASCADE")
    asked_start = UtcField()
    asked_end = UtcField()
    partner = peewee.ForeignKeyField(User, on_delete="CASCADE")
    returned_start = UtcField()
    returned_end = UtcField()
    state = peewee.SmallIntegerField(default=1)

    class Meta:
        table_name = "shift_swap"


def up(migrator, db):
    with db.bind_ctx([ShiftSwap]):
        db.create_tables([ShiftSwap])
