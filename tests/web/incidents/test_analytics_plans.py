"""Analytics of 100,000 incidents read only the incidents of the period, by one index."""

import re
from datetime import timedelta

from bench.servers.plans import list_scans
from models.store.store import db, store
from tests.support.stores import SERVER
from tests.support.web.analytics import PATH

INCIDENTS = 100_000
# One incident each ten minutes: a day has this number, and each fourth is in the account of Mallory.
PER_DAY = 144
FOREIGN = 4
ID = "00000000-0000-4000-8000-000000000000"

# How a store makes a table with the numbers 1 to INCIDENTS, and a time from a number.
NUMBERS, MOMENT = (
    "WITH RECURSIVE one(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < {count})",
    "strftime('%Y-%m-%d %H:%M:%S', '{start}', (n * 600 + {plus}) || ' seconds') || '.000000'",
)
if SERVER:
    NUMBERS, MOMENT = (
        "WITH one(n) AS (SELECT generate_series(1, {count}))",
        "timestamptz '{start}+00' + make_interval(secs => n * 600 + {plus})",
    )


def insert_incidents(world, start):
    """Insert resolved incidents, one each ten minutes, with one statement."""
    created, acknowledged, resolved = (
        MOMENT.format(start=start.strftime("%Y-%m-%d %H:%M:%S"), plus=plus) for plus in (0, 60, 3600)
    )
    is_foreign = f"CASE WHEN n / {FOREIGN} * {FOREIGN} = n THEN {{}} ELSE {{}} END".format
    values = {
        "unique_id": "CAST(n AS VARCHAR)", "incident_key": "CAST(n AS VARCHAR)", "incident_number": "n",
        "account_id": is_foreign(world.mallory.account_id, world.account.id),
        "team_id": is_foreign(world.mallorys_team.id, world.team.id),
        "service_id": is_foreign("NULL", world.service.id),
        "title": "'Disk full'", "summary": "''", "status": "3", "urgency": "1", "creation_date": created,
        "acknowledged_date": acknowledged, "resolved_date": resolved, "run_started_at": created,
        "collecting": "FALSE", "escalating": "FALSE", "escalation_run": "1", "next_step": "0",
        "paged_someone": "FALSE", "exhausted": "FALSE",
    }  # fmt: skip
    with store().write_transaction():
        db.execute_sql(
            f"INSERT INTO incident ({', '.join(values)}) {NUMBERS.format(count=INCIDENTS)}"
            f" SELECT {', '.join(values.values())} FROM one"
        )
    if SERVER:
        db.execute_sql("ANALYZE incident")


QUESTIONS = (
    {},
    {"team_ids": [ID], "service_ids": [ID], "priority_ids": [ID], "tag_ids": [ID]},
    {"sla_ids": [ID], "escalation_policy_ids": [ID], "user_ids": ["Unassigned", "x"]},
    {
        "urgency": 1,
        "child_incident": "exclude",
        "tta": 59,
        "tta_comparator": "gt",
        "ttr": 3600,
        "ttr_comparator": "lt",
    },
)
DAYS = 30


def test_only_the_period_is_read_by_the_index_of_lists(ask, world, statements, now):
    insert_incidents(world, now - timedelta(days=INCIDENTS // PER_DAY))
    period = {
        "from_date": (now - timedelta(days=DAYS)).date().isoformat(),
        "to_date": (now - timedelta(days=1)).date().isoformat(),
    }
    expected = DAYS * PER_DAY * (FOREIGN - 1) // FOREIGN

    for kind in ("incident_stats", "team_analytics", "service_analytics", "user_analytics"):
        for who in ("alice", "bob"):
            for limits in QUESTIONS:
                with statements() as seen:
                    answer = ask("POST", PATH.format(kind), {**period, **limits}, who=who)
                assert answer.status_code == 200, answer.json
                check_plans(seen, expected)
        totals = next(iter(ask("POST", PATH.format(kind), period).json.values()))
        assert (totals if kind == "incident_stats" else totals["total_incidents"]) == expected


def check_plans(seen, most):
    """Check that a question reads at most this number of incidents, and no rows about single incidents."""
    assert list_scans(seen) == []
    assert [each for each in seen if re.search('"(event|incident_log|notification)"', each[0])] == []
    read = [each for each in seen if 'FROM "incident"' in each[0]]
    # Whether the period has too many incidents, and the question.
    assert len(read) == 2
    for statement, values in read:
        check_plan(statement, values, most)


def check_sqlite(statement, values, most):
    plan = [row[3] for row in db.execute_sql(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()]
    (read,) = [each for each in plan if re.match("SEARCH (incident|t1) ", each)]
    assert "INDEX incident_listed (account_id=? AND creation_date>? AND creation_date<?)" in read


def check_postgresql(statement, values, most):
    db.execute_sql("set enable_seqscan = off")
    plan = [row[0] for row in db.execute_sql(f"EXPLAIN (ANALYZE) {statement}", values).fetchall()]
    scans = [each for each in plan if re.search(r"Scan .*\bincident(_\w+)?\b", each)]
    assert {*re.findall(r"(?:using|Scan on) (incident_\w+)", "\n".join(scans))} <= {"incident_listed", *TAGS}
    for scan in scans:
        # A filter that matches nothing ends the statement before.
        if "never executed" not in scan:
            rows, loops = map(int, re.search(r"actual .*rows=(\d+) loops=(\d+)", scan).groups())
            # A page of an index also has rows of the neighbouring days: a tenth more, once a sixth.
            assert rows * loops <= most * 13 // 10


# The indexes of the tags of incidents.
TAGS = ("incident_tag_incident_id_team_tag_id", "incident_tag_team_tag_id")
check_plan = check_postgresql if SERVER else check_sqlite
