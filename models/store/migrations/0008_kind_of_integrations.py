"""Store the kind of an integration whose application is not in the catalogue.

Processes of the previous version may still run: the new column may be NULL.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "integration" ADD COLUMN "kind" VARCHAR(32)')
