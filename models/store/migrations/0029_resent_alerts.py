"""Store when entities expire whose alerts are sent again while they fire.

Processes of the previous version may still run. They write neither column: such an entity ends only by an
alert, as before.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "entity" ADD COLUMN "expires_at" TIMESTAMPTZ')
    db.execute_sql('ALTER TABLE "entity" ADD COLUMN "repeats_at" TIMESTAMPTZ')
    db.execute_sql('CREATE INDEX "entity_expiring" ON "entity" ("expires_at") WHERE expires_at IS NOT NULL')
