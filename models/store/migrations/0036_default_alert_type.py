"""Store the default level of an integration.

Processes of the previous version may still run. They use the default level of the source.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "source_setup" ADD COLUMN "default_alert_type" SMALLINT')
