"""Run one statement in a transaction of its own while the transaction of the thread continues.

It has another connection, and commits before the other transaction ends. So its locks are held for a moment.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from models.store.store import connection, db

Rows = list[tuple[int, ...]]

# One that waits for a lock delays no others.
THREADS = 2


@cache
def _get_executor() -> ThreadPoolExecutor:
    # Each thread needs one connection more. They are created after any fork.
    return ThreadPoolExecutor(THREADS, thread_name_prefix="own transaction")


def run(statement: str, timeout_s: float) -> Rows:
    """Run a statement in a transaction of its own on PostgreSQL, and return its rows.

    The text is sent as it is, without values. It does not wait for the disk: a later commit of this process,
    which does, also makes it durable. Raises the error of the statement, and TimeoutError after `timeout_s`;
    then the transaction may still be committed.
    """
    future: Future[Rows] = _get_executor().submit(_run, statement, timeout_s / 2)
    try:
        return future.result(timeout_s)
    finally:
        # One that has not begun must not run for nobody.
        future.cancel()


def _run(statement: str, lock_s: float) -> Rows:
    # PostgreSQL runs statements that are sent together in one transaction. Each request would cost a wait.
    settings = f"SET LOCAL lock_timeout = '{lock_s * 1000:.0f}ms'; SET LOCAL synchronous_commit = off"
    with connection():
        cursor = db.execute_sql(f"{settings}; {statement}")
        while cursor.nextset():
            pass
        return list(cursor.fetchall())
