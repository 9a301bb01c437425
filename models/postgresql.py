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
MOST = 40
# How long a thread waits for one of them.
WAIT_S = 5.0
# After a failure, how long nobody tries to open another.
AWAY_S = 0.3

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
SESSION = {
    # A host that vanishes within a transaction must not keep its locks. No transaction of ours rests.
    "idle_in_transaction_session_timeout": "60s",
    # A plan that was made while a table was small, or before anybody had counted its rows, reads all of it
    # for each batch of the first storm (decision 0009). Where there is no index it still may.
    "enable_seqscan": "off",
    # It would be used for whatever has no index now, and costs more than all of our queries.
    "jit": "off",
}
AT_FIRST = "; ".join(f"set {name} = '{value}'" for name, value in SESSION.items())

# Characters and bytes of all rows of one statement, about. The server ends a connection that sends it a
# gigabyte at once, and sending costs with the square of it: measured, 12 s for 200 MiB.
LARGEST_STATEMENT = 8 * 1024 * 1024


def pieces(rows: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Rows in their order, as many together as one statement may carry; at least one."""
    if sum(map(_length, zip(*rows, strict=True))) <= LARGEST_STATEMENT:
        yield rows
        return
    first, size = 0, 0
    for place, row in enumerate(rows):
        length = sum(_length((value,)) for value in row)
        if place > first and size + length > LARGEST_STATEMENT:
            yield rows[first:place]
            first, size = place, 0
        size += length
    yield rows[first:]


def _length(column: Sequence[Any]) -> int:
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
AWAY = ("08", "53100", "53300", "57P", "25006")


def is_away(error: object) -> bool:
    """Whether a server's error says that it can do nothing for anybody."""
    return (getattr(error, "sqlstate", None) or "").startswith(AWAY)


class BadUrl(ValueError):
    """A URL of a database that stops the start; the text says what to change and repeats nothing of it."""


def read_url(url: str) -> dict[str, Any]:
    """What a URL says, by libpq's names. BadUrl when it cannot be read."""
    try:
        said: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        said = {"host": "@"}
    # A password with an @ or a / of its own is taken for host, port and name, which errors would tell.
    ports = str(said.get("port", "")).replace(",", "")
    if "@" in f"{said.get('host')}{said.get('dbname')}" or not (ports.isdecimal() or not ports):
        raise BadUrl(
            "TOCSIN_DATABASE_URL cannot be used: it is postgresql://USER:PASSWORD@HOST:5432/NAME, "
            "with %40 for an @ in the password, %2F for a /, and so on"
        )
    return said


class Adapter(Psycopg3Adapter):
    """How peewee opens a connection, and finds out whether one that was idle still works."""

    def __init__(self) -> None:
        super().__init__()
        self._away_until = 0.0

    def connect(self, db: Any, **params: Any) -> Any:
        # Threads come here one by one: those behind a failure are not to wait as long as it did.
        if time.monotonic() < self._away_until:
            raise psycopg.OperationalError("the database was away a moment ago")
        try:
            opened = psycopg.connect(db.database, autocommit=True, **params)
            opened.execute(AT_FIRST)
        except psycopg.OperationalError as error:
            self._away_until = time.monotonic() + AWAY_S
            why = (str(error).splitlines() or [type(error).__name__])[0]
            text = f"cannot connect to the database, see TOCSIN_DATABASE_URL: {why}"
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
        said = read_url(url)
        self._places = threading.Semaphore(MOST)
        unsaid = {name: value for name, value in DEFAULTS.items() if name not in said}
        super().__init__(url, prefer_psycopg3=True, max_connections=MOST, stale_timeout=300, **unsaid)

    def connect(self, reuse_if_open: bool = False) -> bool:
        if not self.is_closed():
            return bool(super().connect(reuse_if_open))
        if not self._places.acquire(timeout=WAIT_S):
            raise MaxConnectionsExceeded(f"all {MOST} connections were in use for {WAIT_S:.0f} s")
        try:
            return bool(super().connect())
        except BaseException:
            self._places.release()
            raise

    def _close(self, conn: Any, close_conn: bool = False) -> None:
        held = self.conn_key(conn) in self._in_use
        super()._close(conn, close_conn)
        if held:
            self._places.release()
