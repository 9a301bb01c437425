"""Store how many alerts of a receipt in pieces are done, and which messages its pieces share.

The progress has its own table. In the row of the receipt, SQLite would read the whole body for each change.
Processes of the previous version may still run: the new columns are nullable or have a default.
"""

import peewee

MESSAGE = """
ALTER TABLE "message" ADD COLUMN "pieces_of" VARCHAR(64);
ALTER TABLE "message" ADD COLUMN "group_key" VARCHAR(64);
ALTER TABLE "message" ADD COLUMN "held_until" TIMESTAMPTZ;
ALTER TABLE "message" ADD COLUMN "is_extended" BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX "message_of_pieces" ON "message" ("pieces_of") WHERE pieces_of IS NOT NULL
"""


class Receipt(peewee.Model):
    id = peewee.BigAutoField()

    class Meta:
        table_name = "receipt"


class ReceiptProgress(peewee.Model):
    receipt = peewee.ForeignKeyField(Receipt, unique=True, on_delete="CASCADE")
    alerts_done = peewee.IntegerField()
    events_written = peewee.IntegerField()

    class Meta:
        table_name = "receipt_progress"


def up(migrator, db):
    with db.bind_ctx([Receipt, ReceiptProgress]):
        db.create_tables([ReceiptProgress])
    for statement in MESSAGE.split(";"):
        db.execute_sql(statement.strip())
