"""Store which message is tried in turn with another one: the same notifications for the user's own address.

Processes of the previous version may still run: the new column may be NULL. They send and record such a
message like any other one.
"""


def up(migrator, db):
    db.execute_sql(
        'ALTER TABLE "message" ADD COLUMN "instead_of_id" INTEGER'
        ' REFERENCES "message" ("id") ON DELETE SET NULL'
    )
    db.execute_sql(
        'CREATE INDEX message_instead_of ON "message" (instead_of_id) WHERE instead_of_id IS NOT NULL'
    )
