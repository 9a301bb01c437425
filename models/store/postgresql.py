"""Connections to PostgreSQL: settings, the pool, and the size of statements.

The pool is peewee's with three differences:

- If the server does not answer, one thread waits for the timeout, not each thread in turn.
- A connection that the server closed is detected by its socket, without a query.
- A thread that waits for a connection gets the next one that is returned.
"""

import select
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from peewee import Database, Psycopg3Adapter
from playhouse.pool import MaxConnectionsExceeded, PooledPostgresqlDatabase
from psycopg.conninfo import conninfo_to_dict

from models.store.limits import Limits

# Maximum number of connections of one process. The default limit of a server is 100.
MAX_CONNECTIONS = 40
# How long a thread waits for a free connection.
POOL_TIMEOUT_S = 5.0
# After a failed connection attempt, no thread tries again for this time.
RECONNECT_DELAY_S = 0.3

# Defaults that the URL can override. With libpq's defaults, a lost host would block a thread without limit.
DEFAULTS = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "tocsin",
}

# Settings of each new connection.
SESSION_SETTINGS = {
    # Release the locks of a host that is lost during a transaction. Tocsin is never idle in one.
    "idle_in_transaction_session_timeout": "60s",
    # A query plan for a small table, or from before ANALYZE, scans the whole table. In the first alert storm,
    # each batch would do this (decision 0009). Tables without a matching index are still scanned.
    "enable_seqscan": "off",
    # PostgreSQL would compile queries without an index. That takes more time than all our queries.
    "jit": "off",
}
SESSION_SQL = "; ".join(f"set {name} = '{value}'" for name, value in SESSION_SETTINGS.items())

# Approximate size of the values of one statement, in characters and bytes. The server closes a connection
# that sends a gigabyte at once. The cost of sending grows with the square: measured, 12 s for 200 MiB.
MAX_STATEMENT_SIZE = 8 * 1024 * 1024


def split_rows(rows: Sequence[tuple[object, ...]]) -> Iterator[Sequence[tuple[object, ...]]]:
    """Split rows, in order, into batches of at most MAX_STATEMENT_SIZE, with at least one row per batch."""
    if sum(map(_measure, zip(*rows, strict=True))) <= MAX_STATEMENT_SIZE:
        yield rows
        return
    first, size = 0, 0
    for index, row in enumerate(rows):
        length = sum(_measure((value,)) for value in row)
        if index > first and size + length > MAX_STATEMENT_SIZE:
            yield rows[first:index]
            first, size = index, 0
        size += length
    yield rows[first:]


def _measure(column: Sequence[Any]) -> int:
    """Return the size of the texts or bytes of a column; 0 for other types, which are short."""
    kind = type(next((value for value in column if value is not None), None))
    if kind is str:
        return sum(len(value) for value in column if value is not None)
    if kind is psycopg.Binary:
        return sum(len(value.obj) for value in column if value is not None)
    return 0


LOCK_TIMEOUT = psycopg.errors.LockNotAvailable

# Prefixes of SQLSTATE: no connection, full disk, too many connections, server shuts down or starts, and a
# server that became read-only after a failover.
UNAVAILABLE = ("08", "53100", "53300", "57P", "25006")


def is_unavailable(error: object) -> bool:
    """Return whether an error of the driver means that the whole server is unusable now."""
    return (getattr(error, "sqlstate", None) or "").startswith(UNAVAILABLE)


class BadUrl(ValueError):
    """The URL of the database is not valid. The text says what to change, without parts of the URL."""


def parse_url(url: str) -> dict[str, str | int | None]:
    """Return the parameters of a URL by libpq's names. Raises BadUrl."""
    try:
        parsed = conninfo_to_dict(url)
    except psycopg.Error:
        parsed = {"host": "@"}
    # With @ or / in the password, libpq reads parts of it as host, port or name, and errors show them.
    ports = str(parsed.get("port", "")).replace(",", "")
    if "@" in f"{parsed.get('host')}{parsed.get('dbname')}" or not (ports.isdecimal() or not ports):
        raise BadUrl(
            "TOCSIN_DATABASE_URL cannot be used: it must be postgresql://USER:PASSWORD@HOST:5432/NAME; "
            "in the password write %40 for @, %2F for /, and so on"
        )
    return parsed


class Adapter(Psycopg3Adapter):
    """Opens connections for peewee, and checks whether an idle connection still works."""

    def __init__(self) -> None:
        super().__init__()
        self._unavailable_until = 0.0

    def connect(self, db: Database, **params: Any) -> psycopg.Connection:
        # Threads connect one after the other. After a failure, the next thread must not wait too.
        if time.monotonic() < self._unavailable_until:
            raise psycopg.OperationalError("the last attempt to connect to the database just failed")
        try:
            opened = psycopg.connect(db.database, autocommit=True, **params)
            opened.execute(SESSION_SQL)
        except psycopg.OperationalError as error:
            self._unavailable_until = time.monotonic() + RECONNECT_DELAY_S
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            text = f"cannot connect to the database, see TOCSIN_DATABASE_URL: {reason}"
            raise psycopg.OperationalError(text) from None
        return opened

    def is_connection_closed(self, conn: psycopg.Connection) -> bool:
        """Return whether a connection is closed; close it if it cannot be used.

        Input on the socket of an idle connection means that the server closed it.
        """
        if self.txn_status(conn) == self.txn_idle:
            socket = select.poll()
            socket.register(conn.pgconn.socket, select.POLLIN)
            if not socket.poll(0):
                return False
        conn.close()
        return True


class Pool(PooledPostgresqlDatabase):
    """The connection pool of one process."""

    psycopg3_adapter = Adapter

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._capacity = threading.Semaphore(MAX_CONNECTIONS)
        missing = {name: value for name, value in DEFAULTS.items() if name not in parsed}
        super().__init__(
            url, prefer_psycopg3=True, max_connections=MAX_CONNECTIONS, stale_timeout=300, **missing
        )

    def set_limits(self, limits: Limits) -> None:
        """Limit locks and statements in new connections, and close the idle ones.

        The limits are options of the start of the session, so that DEFAULT returns to them.
        """
        values = {"lock_timeout": limits.lock_s, "statement_timeout": limits.statement_s}
        options = [f"-c {name}={value * 1000:.0f}" for name, value in values.items() if value is not None]
        given = parse_url(self.database).get("options") or ""
        self.connect_params["options"] = " ".join([str(given), *options]).strip()
        self.close_idle()

    def connect(self, reuse_if_open: bool = False) -> bool:
        if not self.is_closed():
            return bool(super().connect(reuse_if_open))
        if not self._capacity.acquire(timeout=POOL_TIMEOUT_S):
            raise MaxConnectionsExceeded(
                f"all {MAX_CONNECTIONS} connections were in use for {POOL_TIMEOUT_S:.0f} s"
            )
        try:
            return bool(super().connect())
        except BaseException:
            self._capacity.release()
            raise

    def _close(self, conn: psycopg.Connection, close_conn: bool = False) -> None:
        held = self.conn_key(conn) in self._in_use
        super()._close(conn, close_conn)
        if held:
            self._capacity.release()
