"""Store whether a timer that fires only once has fired. Before, the first words of its outcome showed it.

Processes of the previous version may still run: the new column has a default, and no column changes. The
reasons that they write stay readable, because a stored sentence is shown unchanged.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "timer" ADD COLUMN "fired" BOOLEAN NOT NULL DEFAULT FALSE')
    # Not LIKE: the driver of PostgreSQL reads % as a placeholder.
    db.execute_sql("""UPDATE "timer" SET "fired" = TRUE WHERE SUBSTR("outcome", 1, 11) = 'done once: '""")
