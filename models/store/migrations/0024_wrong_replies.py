"""Count wrong replies to SMS. Processes of the previous version do not use the new table."""

import peewee

from models.store.base import UtcField


class WrongReply(peewee.Model):
    number = peewee.CharField(max_length=64)
    at = UtcField(index=True)

    class Meta:
        table_name = "wrong_reply"
        indexes = ((("number", "at"), False),)


def up(migrator, db):
    with db.bind_ctx([WrongReply]):
        db.create_tables([WrongReply])
