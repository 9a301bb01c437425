"""What happens by itself: promises of SLAs, what maintenance kept back, and pings that are expected."""

from peewee import CharField, IntegerField

from models.base import UtcField


def up(migrator, db):
    migrator.migrate(
        migrator.add_column("incident", "promised_from", UtcField(null=True)),
        migrator.add_column("incident", "answered_at", UtcField(null=True)),
        migrator.add_column("entity", "kept_back", CharField(max_length=22, null=True)),
        migrator.add_column("integration", "heartbeat_every", IntegerField(default=0)),
        migrator.add_column("integration", "heartbeat_grace", IntegerField(default=0)),
        migrator.add_column("integration", "expected_at", UtcField(null=True)),
    )
    db.execute_sql("UPDATE incident SET promised_from = creation_date, answered_at = acknowledged_date")
    db.execute_sql(
        'CREATE INDEX "entity_kept_back" ON "entity" ("integration_id") WHERE kept_back IS NOT NULL'
    )
    db.execute_sql(
        'CREATE INDEX "integration_expected" ON "integration" ("expected_at") WHERE expected_at IS NOT NULL'
    )
