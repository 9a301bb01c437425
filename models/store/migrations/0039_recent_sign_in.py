"""Remember when a person proved who it is, and let an identity at a provider belong to several accounts.

Sessions of before have no such moment: their persons sign in again before they add a passkey. Processes of
the previous version may still run. They use the first of several rows of an identity.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "session" ADD COLUMN "proven_at" TIMESTAMPTZ')
    db.execute_sql(
        'CREATE UNIQUE INDEX "identity_issuer_subject_user_id" ON "identity" ("issuer", "subject", "user_id")'
    )
    db.execute_sql('DROP INDEX "identity_issuer_subject"')
