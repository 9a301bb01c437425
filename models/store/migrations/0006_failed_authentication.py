"""Count invalid tokens by client address. Processes of the previous version do not use the new table."""

import peewee


class FailedAuthentication(peewee.Model):
    address = peewee.CharField(max_length=64, unique=True)
    minute = peewee.IntegerField()
    count = peewee.IntegerField()

    class Meta:
        table_name = "failed_authentication"


def up(migrator, db):
    with db.bind_ctx([FailedAuthentication]):
        db.create_tables([FailedAuthentication])
