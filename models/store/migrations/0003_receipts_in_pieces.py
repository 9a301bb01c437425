"""Store how many alerts of a receipt in pieces are done, and which messages its pieces share.

The progress has its own table. In the row of the receipt, SQLite would read the whole body for each change.
Processes of the previous version may still run: the new columns are nullable or have a default.
"""

STATEMENTS = """
CREATE TABLE "receipt_progress" (
    "receipt_id" BIGINT NOT NULL PRIMARY KEY REFERENCES "receipt" ("id") ON DELETE CASCADE,
    "alerts_done" INTEGER NOT NULL,
    "events_written" INTEGER NOT NULL
);
ALTER TABLE "message" ADD COLUMN "pieces_of" VARCHAR(64);
ALTER TABLE "message" ADD COLUMN "group_key" VARCHAR(64);
ALTER TABLE "message" ADD COLUMN "held_until" TIMESTAMPTZ;
ALTER TABLE "message" ADD COLUMN "is_extended" BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX "message_of_pieces" ON "message" ("pieces_of") WHERE pieces_of IS NOT NULL
"""


def up(migrator, db):
    for statement in STATEMENTS.split(";"):
        db.execute_sql(statement.strip())
