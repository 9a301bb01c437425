"""Keep reports of providers that arrive early. Processes of the previous version do not use the new table."""

import peewee

from models.store.base import ReasonField, UtcField


class EarlyReport(peewee.Model):
    key = peewee.CharField(max_length=64, unique=True)
    state = peewee.CharField(max_length=32)
    reason = ReasonField(null=True)
    at = UtcField(index=True)

    class Meta:
        table_name = "early_report"


def up(migrator, db):
    with db.bind_ctx([EarlyReport]):
        db.create_tables([EarlyReport])
