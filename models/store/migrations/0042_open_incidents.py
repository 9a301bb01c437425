"""Index the open incidents: their list and their count need not read the resolved ones."""


def up(migrator, db):
    db.execute_sql(
        'CREATE INDEX "incident_open" ON "incident" ("account_id", "creation_date", "id", "status", '
        '"team_id", "service_id", "assigned_to_id", "escalation_policy_id", "sla_id", "team_priority_id") '
        "WHERE status < 3"
    )
