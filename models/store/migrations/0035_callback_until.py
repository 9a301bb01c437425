"""Remember some callbacks for longer than others. Rows of the previous version have no end of their own.

Processes of the previous version may still run. They delete all callbacks after ten minutes.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "callback" ADD COLUMN "until" TIMESTAMPTZ')
    db.execute_sql('CREATE INDEX "callback_until" ON "callback" ("until")')
