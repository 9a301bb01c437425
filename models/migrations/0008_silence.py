"""What is known of a thing that is silent: since when, and what was made of it."""

from peewee import BooleanField

from models.base import UtcField


def up(migrator, db):
    migrator.migrate(
        migrator.add_column("integration", "heard_at", UtcField(null=True)),
        migrator.add_column("integration", "is_missing", BooleanField(default=False)),
        migrator.add_column("integration", "is_excused", BooleanField(default=False)),
    )
    # What is noted of those who look has other words now.
    db.execute_sql("DELETE FROM heartbeat WHERE process = 'pings'")
