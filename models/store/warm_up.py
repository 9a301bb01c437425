"""Warm up connections to PostgreSQL, so that the first alerts after a start are as fast as later ones.

In a new session, PostgreSQL reads its catalog at the first query of each table. For the queries of one alert
that takes some tens of milliseconds, in each connection.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from models.store import prepared
from models.store.limits import MAX_CONNECTIONS
from models.store.store import STORE_ERRORS, connection, db, store

# Longer than a server needs that works. With one that does not, the process must start, too.
TIMEOUT_S = 3.0


def warm_up(connections: int) -> None:
    """Open so many connections of this process, and let each of them plan all prepared queries.

    No query is run. The triggers that check references (decision 0094) are compiled, too. Errors are ignored:
    the first work that needs a connection reports them. Does nothing on SQLite, which reads its whole
    schema once.
    """
    if not store().learns_schema_by_connection:
        return
    count = min(connections, MAX_CONNECTIONS)
    # Each thread must have its connection before one of them gives it back.
    all_open = threading.Barrier(count)
    with ThreadPoolExecutor(count, thread_name_prefix="warm up") as threads:
        for _ in range(count):
            threads.submit(_plan_queries, all_open)


def _plan_queries(all_open: threading.Barrier) -> None:
    with suppress(*STORE_ERRORS, threading.BrokenBarrierError), store().deadline(TIMEOUT_S), connection():
        all_open.wait(TIMEOUT_S)
        prepared.explain_all()
        compile_triggers()


def compile_triggers() -> None:
    """Insert no rows into each table whose references triggers check. It saves the first alert 5 ms."""
    for (table,) in db.execute_sql(_CHECKED_TABLES).fetchall():
        db.execute_sql(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE false')  # noqa: S608 - a name


_CHECKED_TABLES = """
select c.relname from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = current_schema()::regnamespace and t.tgname = 'check_references_of_' || c.relname
"""
