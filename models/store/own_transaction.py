"""Run a short transaction of its own while the transaction of the thread continues.

It has another connection, and commits before the other transaction ends. So its locks are held for a moment.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from models.store.base import connection, db, store

T = TypeVar("T")

# One that waits for a lock delays no others.
THREADS = 2


@cache
def _get_executor() -> ThreadPoolExecutor:
    # Each thread needs one connection more. They are created after any fork.
    return ThreadPoolExecutor(THREADS, thread_name_prefix="own transaction")


def run(work: Callable[[], T], timeout_s: float) -> T:
    """Run `work` in a transaction of its own on PostgreSQL and return its result.

    It does not wait for the disk: a later commit of this process, which does, also makes it durable. Raises
    what `work` raises, and TimeoutError after `timeout_s`; then the transaction may still be committed.
    """
    future: Future[T] = _get_executor().submit(_run, work, timeout_s / 2)
    try:
        return future.result(timeout_s)
    finally:
        # One that has not begun must not run for nobody.
        future.cancel()


def _run(work: Callable[[], T], lock_s: float) -> T:
    with connection(), store().write_transaction(lock_s=lock_s):
        db.execute_sql("SET LOCAL synchronous_commit = off")
        return work()
