"""Connections to PostgreSQL that a test takes over from the test before.

In a new session, PostgreSQL starts a process, reads its catalog at the first query of each table and compiles
the triggers: half of the time of most tests. All tests of a process use the same database, so that a session
is as good as a new one after its settings and locks are reset.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from models.store.postgresql_pool import Connection

# More are only open in tests with many threads.
MOST = 4

# By what they were opened with.
_kept: dict[object, list[Connection]] = {}
_keys: dict[Connection, object] = {}
_is_keeping = False

_connect, _close = Connection.connect.__func__, Connection.close


def install() -> None:
    """Let the tests of this process take over connections."""
    Connection.connect = classmethod(_take_or_connect)
    Connection.close = _keep_or_close


@contextmanager
def keeping() -> Iterator[None]:
    """Keep the connections that are closed in the block for the next test."""
    global _is_keeping
    _is_keeping = True
    try:
        yield
    finally:
        _is_keeping = False


def close_all() -> None:
    """Close the connections that no test has taken over."""
    for connections in _kept.values():
        for each in connections:
            _close(each)
    _kept.clear()


def _take_or_connect(cls: type[Connection], conninfo: str = "", **parameters: Any) -> Connection:
    key = (conninfo, *sorted(parameters.items()))
    while kept := _kept.get(key):
        taken = kept.pop()
        if _reset(taken):
            return taken
        _close(taken)
    opened: Connection = _connect(cls, conninfo, **parameters)
    _keys[opened] = key
    return opened


def _reset(connection: Connection) -> bool:
    try:
        connection.execute("reset all; discard temp; select pg_advisory_unlock_all()")
    except psycopg.Error:
        return False
    return True


def _keep_or_close(connection: Connection) -> None:
    key = _keys.get(connection)
    kept = _kept.setdefault(key, [])
    is_usable = not connection.closed and not connection.has_failed
    if (
        _is_keeping
        and key is not None
        and is_usable
        and connection.info.transaction_status is TransactionStatus.IDLE
        and len(kept) < MOST
    ):
        connection.adapter = None
        kept.append(connection)
    else:
        _keys.pop(connection, None)
        _close(connection)
