"""On call: turns of round robin, whether a chain has named anybody, and the key of somebody's calendars."""

from peewee import BooleanField, CharField, IntegerField


def up(migrator, db):
    migrator.migrate(
        migrator.add_column("escalation_policy", "turn", IntegerField(default=0)),
        migrator.add_column("incident", "reached", BooleanField(default=False)),
        migrator.add_column("user", "calendar_key", CharField(max_length=36, null=True)),
    )
    db.execute_sql("UPDATE incident SET reached = (next_step > 0)")
