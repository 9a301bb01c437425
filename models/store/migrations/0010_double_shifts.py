"""Store how schedule checks report people who are on call by two schedules at the same time.

Processes of the previous version may still run: the new column may be NULL, which is the default.
"""


def up(migrator, db):
    db.execute_sql('ALTER TABLE "schedule" ADD COLUMN "double_shifts" VARCHAR(16)')
