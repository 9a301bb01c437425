"""Since when an incident's time-outs count, apart from its chain; and whether a chain came to its end."""

from peewee import BooleanField

from models.base import UtcField


def up(migrator, db):
    migrator.migrate(
        migrator.add_column("incident", "timeouts_from", UtcField(null=True)),
        migrator.add_column("incident", "chain_over", BooleanField(default=False)),
    )
    db.execute_sql("UPDATE incident SET timeouts_from = chain_started_at WHERE chain > 1")
    db.execute_sql(
        "UPDATE incident SET chain_over = TRUE WHERE NOT EXISTS (SELECT 1 FROM timer WHERE"
        " timer.incident_id = incident.id AND timer.kind = 'escalate' AND timer.done_at IS NULL)"
    )
