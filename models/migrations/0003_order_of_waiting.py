"""The index of waiting events has them in their order: a lane finds the first without reading them all."""

COLUMNS = ("service_id", "receipt_id", "position", "id")


def up(migrator, db):
    names = ", ".join(f'"{column}"' for column in COLUMNS)
    db.execute_sql('DROP INDEX "event_waiting"')
    db.execute_sql(f'CREATE INDEX "event_waiting" ON "event" ({names}) WHERE state = 0')
