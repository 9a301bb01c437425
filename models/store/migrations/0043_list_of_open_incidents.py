"""Replace the index `incident_open` by one that only the lists of incidents use.

PostgreSQL does not know that `status <= 2` and `status < 3` are the same. A query with `status < 3` searches
the other indexes of open incidents.

Processes of the previous version may still run: their lists are read from `incident_listed`. On PostgreSQL,
no incident changes while the new index is built: about a second for a million of them. The old one is dropped
last, because that waits for all transactions that read incidents, and other readers wait behind it. So do not
migrate during a dump.
"""


def up(migrator, db):
    db.execute_sql(
        'CREATE INDEX "incident_listed_open" ON "incident" ("account_id", "creation_date", "id", "status", '
        '"team_id", "service_id", "assigned_to_id", "escalation_policy_id", "sla_id", "team_priority_id") '
        "WHERE status <= 2"
    )
    db.execute_sql('DROP INDEX "incident_open"')
