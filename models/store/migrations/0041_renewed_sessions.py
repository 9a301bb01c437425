"""Accept the previous secret of a session for a short time, and keep the token of its forms.

Processes of the previous version may still run: after a change of rights, they refuse the previous secret and
the forms of pages that were open before.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "session" ADD COLUMN "previous_digest" VARCHAR(64)')
    db.execute_sql('ALTER TABLE "session" ADD COLUMN "previous_until" TIMESTAMPTZ')
    db.execute_sql('ALTER TABLE "session" ADD COLUMN "form_token" VARCHAR(64)')
    db.execute_sql('CREATE INDEX "session_previous_digest" ON "session" ("previous_digest")')
