"""Store whether a timer that fires only once has fired; before, its outcome said so in its first words.

Processes of the previous version may still run: the new column has a default, and no column changes. What
they write stays readable, because a stored text that is not a code is shown as it is.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "timer" ADD COLUMN "fired" BOOLEAN NOT NULL DEFAULT FALSE')
    db.execute_sql("""UPDATE "timer" SET "fired" = TRUE WHERE "outcome" LIKE 'done once: %'""")
