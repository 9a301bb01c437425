"""Store whether a user wants a mail when an incident is resolved.

Processes of the previous version may still run: the new column may be NULL, which means yes.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "user" ADD COLUMN "recovery_mails" BOOLEAN')
