"""A prepared query finds its rows by an index, also when a storm begins after a quiet week.

PostgreSQL plans a prepared query once, from statistics of some minutes ago, which say that nothing is open or
pending. It then takes any index of open or pending rows for empty. A plan that reads all of such an index is
fast until the first thousand alerts, and then needs longer for each batch.
"""

import importlib
import json
import pkgutil
import re
from itertools import count

import pytest

import models
import pipeline
import schedules
import web
import workers
from models.load import incident_states
from models.store import prepared
from models.store.peewee_internals import get_table_name
from models.store.store import db
from tests.models.store.done_rows import TABLES, fill_with_done_rows
from tests.support.stores import SERVER
from workers.alerts import pending
from workers.periodic import release_maintenance

GROWING = {get_table_name(table) for table in TABLES}

# Queries that list all work of a kind, or that run seldom: when a maintenance window ends, or after a change
# of a policy or an SLA.
READS_ALL = {
    *incident_states._OPEN_BY_COLUMN.values(),
    incident_states._RESOLVED_WITH_TIMERS,
    pending._PENDING_ROUTERS,
    pending._PENDING_SERVICES,
    pending._PENDING_STAGES,
    *release_maintenance._BACKLOG_QUERIES,
}


def import_all_modules():
    for package in (models, pipeline, schedules, web, workers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def explain_without_values(sql):
    """Return the plan that PostgreSQL makes for a prepared query without knowing the values."""
    numbers = count(1)
    text = re.sub("%s", lambda _: f"${next(numbers)}", sql).replace("%", "%%")
    values = ", ".join(["NULL"] * sql.count("%s"))
    with db.atomic():
        db.execute_sql("SET LOCAL plan_cache_mode = force_generic_plan")
        db.execute_sql(f"PREPARE explained AS {text}")
        explain = f"EXPLAIN (FORMAT JSON) EXECUTE explained{f'({values})' if values else ''}"
        ((found,),) = db.execute_sql(explain).fetchall()
        db.execute_sql("DEALLOCATE explained")
    return (found if isinstance(found, list) else json.loads(found))[0]["Plan"]


def list_whole_scans(plan):
    """Return the indexes and tables that a plan reads completely, if their number of rows has no limit."""
    inner = [found for each in plan.get("Plans", ()) for found in list_whole_scans(each)]
    scans = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan")
    if plan["Node Type"] in scans and "Index Cond" not in plan:
        # A bitmap's node names only its index.
        table = plan.get("Relation Name") or plan["Index Name"].split("_")[0]
        if table in GROWING:
            inner.append(plan.get("Index Name", table))
    return inner


def test_prepared_queries_search_the_tables_of_alerts_by_an_index(world):
    if not SERVER:
        pytest.skip("SQLite has no plans that are made from statistics")
    import_all_modules()
    fill_with_done_rows()

    statements = [query._get_compiled().sql for query in prepared._all if query not in READS_ALL]
    found = {sql: scans for sql in statements if (scans := list_whole_scans(explain_without_values(sql)))}

    assert found == {}
