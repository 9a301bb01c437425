"""Connections to PostgreSQL: how they are opened, which of them still work, how threads share them, and how
much goes over one of them at once.

peewee's pool, but for three things. A server that does not answer costs one thread its patience, not each
thread in turn. A connection that the server has ended is found by a look at its socket, without asking the
server. Whoever waits for a connection is woken by the very next one that comes back.
"""

import select
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from peewee import Psycopg3Adapter
from playhouse.pool import MaxConnectionsExceeded, PooledPostgresqlDatabase
from psycopg.conninfo import conninfo_to_dict

# Connections of one process at most; a server takes 100 unless it is told otherwise.
MAX_CONNECTIONS = 40
# How long a thread waits for one of them.
POOL_TIMEOUT_S = 5.0
# After a failure, how long nobody tries to open another.
RECONNECT_DELAY_S = 0.3

# What the URL may say otherwise: libpq would wait for ever for a host that has vanished.
DEFAULTS = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "tocsin",
}

# What each connection is told first.
SESSION_SETTINGS = {
    # A host that vanishes within a transaction must not keep its locks. No transaction of ours rests.
    "idle_in_transaction_session_timeout": "60s",
    # A plan that was made while a table was small, or before anybody had counted its rows, reads all of it
    # for each batch of the first storm (decision 0009). Where there is no index it still may.
    "enable_seqscan": "off",
    # It would be used for whatever has no index now, and costs more than all of our queries.
    "jit": "off",
}
SESSION_SQL = "; ".join(f"set {name} = '{value}'" for name, value in SESSION_SETTINGS.items())

# Characters and bytes of all rows of one statement, about. The server ends a connection that sends it a
# gigabyte at once, and sending costs with the square of it: measured, 12 s for 200 MiB.
MAX_STATEMENT_SIZE = 8 * 1024 * 1024


def split_rows(rows: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Rows in their order, as many together as one statement may carry; at least one."""
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
    """Of the texts or bytes of a column; what is neither is short."""
    kind = type(next((value for value in column if value is not None), None))
    if kind is str:
        return sum(len(value) for value in column if value is not None)
    if kind is psycopg.Binary:
        return sum(len(value.obj) for value in column if value is not None)
    return 0


LOCK_TIMEOUT = psycopg.errors.LockNotAvailable

# By SQLSTATE or its class: no connection, a full disk, no more connections, shutting down or starting, and a
# server that may only be read since another one took over.
UNAVAILABLE = ("08", "53100", "53300", "57P", "25006")


def is_unavailable(error: object) -> bool:
    """Whether a server's error says that it can do nothing for anybody."""
    return (getattr(error, "sqlstate", None) or "").startswith(UNAVAILABLE)


class BadUrl(ValueError):
    """A URL of a database that stops the start; the text says what to change and repeats nothing of it."""


def parse_url(url: str) -> dict[str, Any]:
    """What a URL says, by libpq's names. BadUrl when it cannot be read."""
    try:
        parsed: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        parsed = {"host": "@"}
    # A password with an @ or a / of its own is taken for host, port and name, which errors would tell.
    ports = str(parsed.get("port", "")).replace(",", "")
    if "@" in f"{parsed.get('host')}{parsed.get('dbname')}" or not (ports.isdecimal() or not ports):
        raise BadUrl(
            "TOCSIN_DATABASE_URL cannot be used: it is postgresql://USER:PASSWORD@HOST:5432/NAME, "
            "with %40 for an @ in the password, %2F for a /, and so on"
        )
    return parsed


class Adapter(Psycopg3Adapter):
    """How peewee opens a connection, and finds out whether one that was idle still works."""

    def __init__(self) -> None:
        super().__init__()
        self._unavailable_until = 0.0

    def connect(self, db: Any, **params: Any) -> Any:
        # Threads come here one by one: those behind a failure are not to wait as long as it did.
        if time.monotonic() < self._unavailable_until:
            raise psycopg.OperationalError("the database was away a moment ago")
        try:
            opened = psycopg.connect(db.database, autocommit=True, **params)
            opened.execute(SESSION_SQL)
        except psycopg.OperationalError as error:
            self._unavailable_until = time.monotonic() + RECONNECT_DELAY_S
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            text = f"cannot connect to the database, see TOCSIN_DATABASE_URL: {reason}"
            raise psycopg.OperationalError(text) from None
        return opened

    def is_connection_closed(self, conn: Any) -> bool:
        """An idle connection has only one thing to say: that it ends."""
        if self.txn_status(conn) == self.txn_idle:
            socket = select.poll()
            socket.register(conn.pgconn.socket, select.POLLIN)
            if not socket.poll(0):
                return False
        conn.close()
        return True


class Pool(PooledPostgresqlDatabase):
    """The connections of one process."""

    psycopg3_adapter = Adapter

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._slots = threading.Semaphore(MAX_CONNECTIONS)
        missing = {name: value for name, value in DEFAULTS.items() if name not in parsed}
        super().__init__(
            url, prefer_psycopg3=True, max_connections=MAX_CONNECTIONS, stale_timeout=300, **missing
        )

    def connect(self, reuse_if_open: bool = False) -> bool:
        if not self.is_closed():
            return bool(super().connect(reuse_if_open))
        if not self._slots.acquire(timeout=POOL_TIMEOUT_S):
            raise MaxConnectionsExceeded(
                f"all {MAX_CONNECTIONS} connections were in use for {POOL_TIMEOUT_S:.0f} s"
            )
        try:
            return bool(super().connect())
        except BaseException:
            self._slots.release()
            raise

    def _close(self, conn: Any, close_conn: bool = False) -> None:
        held = self.conn_key(conn) in self._in_use
        super()._close(conn, close_conn)
        if held:
            self._slots.release()
