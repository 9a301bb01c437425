"""Store that a message led to the next contact of its person; count the recent messages of a user.

Processes of the previous version may still run: the new columns may be NULL.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "message" ADD COLUMN "failed_over_at" TIMESTAMPTZ')
    db.execute_sql('ALTER TABLE "message" ADD COLUMN "failed_over" BOOLEAN')
    columns = '"user_id", "channel", "state", "done_at"'
    db.execute_sql(f'CREATE INDEX "message_of_user" ON "message" ({columns})')
    # The new index begins with the same column.
    db.execute_sql('DROP INDEX "message_user_id"')
