"""Whether anything goes out by a channel: its last message that was sent, and what failed since."""


def up(migrator, db):
    db.execute_sql('CREATE INDEX "message_sent" ON "message" ("channel", "done_at") WHERE state = 1')
    db.execute_sql('CREATE INDEX "message_failed" ON "message" ("channel", "done_at") WHERE state = 3')
