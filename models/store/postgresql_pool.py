"""Connections to PostgreSQL: settings, the pool, and the size of statements.

The pool is peewee's with these differences:

- Connections are opened outside the locks of the pool. If the server does not answer, only the threads that
  need a new connection wait, all at the same time, and at most until their own deadlines.
- A connection that the server closed is detected by its socket, without a query.
- A thread that waits for a connection gets the next one that is returned.
- A statement has a limit in this process too, because a frozen server does not end it.
- A connection that was opened before such a failure is not used again.
"""

import select
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import psycopg
from peewee import Database, Psycopg3Adapter
from playhouse.pool import MaxConnectionsExceeded
from psycopg.abc import PQGen
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from models.store import limits
from models.store.limits import MAX_CONNECTIONS, Limits, Use
from models.store.peewee_internals import PoolOfConnections, wrap_errors
from models.store.psycopg_internals import StoppableConnection, TimedOut
from models.store.store import BadUrl
from runtime.waiting import Pause, get_pause

# How long a thread waits for a free connection.
POOL_TIMEOUT_S = 5.0
# A connection that is older is closed before its next use, so that those of a busy moment do not stay open. A
# new one needs some tens of milliseconds more for its first alert (models/store/warm_up.py).
MAX_AGE_S = 3600
# How long a new connection waits for the answer to SESSION_SQL, as long as for the connection itself.
SESSION_TIMEOUT_S = 3.0
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
    # Decisions, and the triggers that check references (decision 0094), must see what others have committed.
    "default_transaction_isolation": "read committed",
    # Release the locks of a process that hangs in a transaction. Tocsin is never idle in one, and a process
    # that is frozen for some seconds keeps its work.
    "idle_in_transaction_session_timeout": "15s",
    # The server ends the session of a host that vanished, which would keep its locks, after about 9 s. On a
    # Unix socket, the server ignores these settings. They count in seconds, but the last one in milliseconds.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "10000",
    # A query plan for a small table, or from before ANALYZE, scans the whole table. In the first alert storm,
    # each batch would do this (decision 0009). Tables without a matching index are still scanned.
    "enable_seqscan": "off",
    # PostgreSQL would compile queries without an index. That takes more time than all our queries.
    "jit": "off",
    # For a query by index, PostgreSQL would start a process to help, which takes longer than the query.
    "max_parallel_workers_per_gather": "0",
}
SESSION_SQL = "; ".join(f"set {name} = '{value}'" for name, value in SESSION_SETTINGS.items())

# Approximate size of the values of one statement, in characters and bytes. The server closes a connection
# that sends a gigabyte at once. The cost of sending grows with the square: measured, 12 s for 200 MiB.
MAX_STATEMENT_SIZE = 8 * 1024 * 1024


def split_columns(columns: Sequence[Sequence[object]]) -> Iterator[Sequence[Sequence[object]]]:
    """Split rows, given by column, in order, into batches of at most MAX_STATEMENT_SIZE, at least one row."""
    if sum(map(_measure, columns)) <= MAX_STATEMENT_SIZE:
        yield columns
        return
    first, size, count = 0, 0, len(columns[0])
    for index in range(count):
        length = sum(_measure((column[index],)) for column in columns)
        if index > first and size + length > MAX_STATEMENT_SIZE:
            yield [column[first:index] for column in columns]
            first, size = index, 0
        size += length
    yield [column[first:] for column in columns]


def _measure(column: Sequence[Any]) -> int:
    """Return the size of the texts or bytes of a column; 0 for other types, which are short."""
    kind = _find_type(column)
    if kind is str:
        return sum(len(value) for value in column if value is not None)
    if kind is psycopg.Binary:
        return sum(len(value.obj) for value in column if value is not None)
    return 0


def _find_type(column: Sequence[object]) -> type:
    return type(next((value for value in column if value is not None), None))


def build_array(column: Sequence[object]) -> list[object]:
    """Return the values of a column as one value for the driver."""
    return _Texts(column) if _find_type(column) is str else list(column)


class _Texts(list[Any]):
    """A list of texts and None."""


class _TextsDumper(Dumper):
    """Encodes texts as an array of PostgreSQL in binary form (array_send in its source).

    The encoder of the driver calls two functions for each value, and took a tenth of the time of a batch.
    """

    format = psycopg.pq.Format.BINARY
    oid = psycopg.postgres.types["text"].array_oid

    def dump(self, obj: _Texts) -> bytes:
        # One dimension, which begins at 1.
        pieces = [_ARRAY_HEAD.pack(1, None in obj, psycopg.postgres.types["text"].oid, len(obj), 1)]
        for text in obj:
            if text is None:
                pieces.append(_NULL)
            else:
                data = text.encode()
                pieces += (_LENGTH.pack(len(data)), data)
        return b"".join(pieces)


_ARRAY_HEAD, _LENGTH = struct.Struct("!iiIii"), struct.Struct("!i")
_NULL = _LENGTH.pack(-1)
psycopg.adapters.register_dumper(_Texts, _TextsDumper)


LOCK_TIMEOUT = psycopg.errors.LockNotAvailable
# The errors of a statement that waited for a lock for too long, or was chosen to end a deadlock.
GAVE_WAY = (LOCK_TIMEOUT, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
REFUSED_WRITES = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.DiskFull)

# Prefixes of SQLSTATE: no connection, full disk, too many connections, server shuts down or starts, and a
# server that became read-only after a failover.
UNAVAILABLE = ("08", "53100", "53300", "57P", "25006")


def is_unavailable(error: object) -> bool:
    """Return whether an error of the driver means that the whole server is unusable now."""
    return (getattr(error, "sqlstate", None) or "").startswith(UNAVAILABLE)


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
            "TOCSIN_DATABASE_URL must be postgresql://USER:PASSWORD@HOST:5432/NAME; "
            "in the password write %40 for @, %2F for /, and so on"
        )
    return parsed


# The server ends a statement first, if it can: then the connection remains usable.
GRACE_S = 2.0
# How often a failure closes the other connections. While the disk of the server is slow, to open them again
# would cost it more than it helps. While it is read-only, each new session is too, and must not stay so.
TIMEOUTS_EVERY_S = 10.0
READ_ONLY_EVERY_S = 1.0
# The driver checks the time this often while it waits for the server.
CHECK_EVERY_S = 0.1


class StatementTimeout(psycopg.OperationalError):
    """The server did not answer in time. The connection is closed; the outcome of a commit is unknown."""


# What a generator of the driver returns.
Result = TypeVar("Result")


class Connection(StoppableConnection):
    """A connection that ends a wait for the server at the limit of the process or the deadline of the thread.

    The driver waits for the server here and nowhere else, and never in a call that blocks.
    """

    limits = Limits()
    opened_at = 0.0
    has_failed = False
    adapter: "Adapter | None" = None

    @classmethod
    def must_stop(cls) -> bool:
        return limits.get_remaining_s() == 0.0

    def wait(
        self, gen: PQGen[Result], interval: float = CHECK_EVERY_S, timeout: float | None = None
    ) -> Result:
        """Run a generator of the driver until it is done, as in the base class."""
        pause = get_pause()
        if pause is not None:
            return self._wait_without_place(pause, gen, interval, timeout)
        return self._wait(gen, interval, timeout)

    def _wait_without_place(
        self, pause: Pause, gen: PQGen[Result], interval: float, timeout: float | None
    ) -> Result:
        resume = pause()
        try:
            return self._wait(gen, interval, timeout)
        finally:
            # In a transaction it may hold locks, for which others would wait.
            resume(self.pgconn.transaction_status == TransactionStatus.IDLE)

    def _wait(self, gen: PQGen[Result], interval: float, timeout: float | None) -> Result:
        try:
            return super().wait(gen, interval, self._get_timeout_s() if timeout is None else timeout)
        except TimedOut:
            # Closing the socket also tells the server, when it runs again, that nobody waits for the answer.
            self.close()
            self._fail(TIMEOUTS_EVERY_S)
            raise StatementTimeout("the database did not answer in time") from None
        except psycopg.errors.ReadOnlySqlTransaction:
            # The mode of a session is set at its start, so this one would stay read-only after a failover.
            self._fail(READ_ONLY_EVERY_S)
            raise

    def _fail(self, every_s: float) -> None:
        self.has_failed = True
        if self.adapter is not None:
            self.adapter.suspect_all(every_s)

    def _get_timeout_s(self) -> float | None:
        limit = limits.get_statement_s(self.limits)
        remaining = limits.get_remaining_s()
        candidates = [] if limit is None else [limit + GRACE_S]
        return min(candidates if remaining is None else [*candidates, remaining], default=None)


class NotOpened(Exception):
    """The pool needs a new connection, which must be opened outside its locks."""


class Adapter(Psycopg3Adapter):
    """Opens connections for peewee, and checks whether an idle connection still works."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = Limits()
        self._unavailable_until = 0.0
        # Connections that were opened before this time are closed instead of used again.
        self._oldest = 0.0
        self._local = threading.local()

    def connect(self, db: Database, **params: object) -> psycopg.Connection:
        """Return the connection that this thread has opened; raise NotOpened without one.

        peewee holds its locks here, so that other threads cannot even give their connections back.
        """
        opened: Connection | None = self._take_opened()
        if opened is None:
            raise NotOpened
        return opened

    def _take_opened(self) -> Connection | None:
        return vars(self._local).pop("opened", None)

    def open(self, url: str, params: Mapping[str, Any]) -> None:
        """Open a connection for the next connect() of this thread."""
        # After a failure, the next thread must not wait too.
        if time.monotonic() < self._unavailable_until:
            raise psycopg.OperationalError("the last attempt to connect to the database just failed")
        try:
            opened = Connection.connect(url, autocommit=True, **params)
            opened.limits, opened.opened_at, opened.adapter = self.limits, time.monotonic(), self
            with limits.deadline(SESSION_TIMEOUT_S):
                opened.execute(SESSION_SQL)
        except psycopg.OperationalError as error:
            # A short deadline of this thread says nothing about the server.
            if limits.get_remaining_s() != 0.0:
                self._unavailable_until = time.monotonic() + RECONNECT_DELAY_S
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            text = f"cannot connect to the database, see TOCSIN_DATABASE_URL: {reason}"
            raise psycopg.OperationalError(text) from None
        self._local.opened = opened

    def close_opened(self) -> None:
        """Close the connection that this thread has opened, if an idle one was used instead."""
        opened = self._take_opened()
        if opened is not None:
            opened.close()

    def suspect_all(self, every_s: float) -> None:
        """Close all connections before they are used again, at most every so many seconds.

        What failed for one connection may fail for all: another one that hangs would cost the next request
        its whole limit.
        """
        now = time.monotonic()
        if now - self._oldest >= every_s:
            self._oldest = now

    def is_connection_reusable(self, conn: Connection) -> bool:
        return not self._is_suspect(conn) and bool(super().is_connection_reusable(conn))

    def _is_suspect(self, conn: Connection) -> bool:
        return conn.has_failed or conn.opened_at <= self._oldest

    def is_connection_closed(self, conn: Connection) -> bool:
        """Return whether a connection is closed; close it if it cannot be used."""
        if not self._is_suspect(conn) and self.txn_status(conn) == self.txn_idle and not has_ended(conn):
            return False
        conn.close()
        return True


def has_ended(conn: psycopg.Connection) -> bool:
    """Return whether an idle connection is closed or has input, which means that the server closed it."""
    if conn.closed:
        return True
    socket = select.poll()
    socket.register(conn.pgconn.socket, select.POLLIN)
    return bool(socket.poll(0))


class Pool(PoolOfConnections):
    """The connection pool of one process."""

    psycopg3_adapter = Adapter

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._capacities = _build_capacities({})
        # The semaphores that connections in use have taken, by the keys of the pool.
        self._taken: dict[int, threading.Semaphore] = {}
        missing = {name: value for name, value in DEFAULTS.items() if name not in parsed}
        super().__init__(
            url, prefer_psycopg3=True, max_connections=MAX_CONNECTIONS, stale_timeout=MAX_AGE_S, **missing
        )

    @property
    def opener(self) -> Adapter:
        return cast(Adapter, self.get_adapter())

    def set_limits(self, process_limits: Limits) -> None:
        """Limit locks and statements in new connections, and close the idle ones.

        The limits are options of the start of the session, so that DEFAULT returns to them.
        """
        values = {
            "lock_timeout": process_limits.lock_s,
            "statement_timeout": process_limits.statement_s,
        }
        options = [f"-c {name}={value * 1000:.0f}" for name, value in values.items() if value is not None]
        given = parse_url(self.database).get("options") or ""
        self.connect_params["options"] = " ".join([str(given), *options]).strip()
        self._capacities = _build_capacities(process_limits.connections)
        self.opener.limits = process_limits
        self.opener.suspect_all(every_s=0.0)

    def connect(self, reuse_if_open: bool = False) -> bool:
        if not self.is_closed():
            return bool(super().connect(reuse_if_open))
        capacity = self._capacities[limits.get_use()]
        remaining = limits.get_remaining_s()
        timeout = POOL_TIMEOUT_S if remaining is None else min(remaining, POOL_TIMEOUT_S)
        if not capacity.acquire(timeout=timeout):
            raise MaxConnectionsExceeded(f"all connections of this kind were in use for {timeout:.0f} s")
        try:
            opened = self._connect_outside()
            self._taken[self.conn_key(self.connection())] = capacity
        except BaseException:
            capacity.release()
            raise
        return opened

    def _connect_outside(self) -> bool:
        """Take an idle connection, or open one outside the locks."""
        try:
            return bool(super().connect())
        except NotOpened:
            # As for errors of the driver inside the locks.
            with wrap_errors:
                self.opener.open(self.database, self.connect_params)
        try:
            return bool(super().connect())
        finally:
            self.opener.close_opened()

    def open_session(self) -> psycopg.Connection:
        """Open a connection that no other thread uses, and that is not one of the pool."""
        self.opener.open(self.database, self.connect_params)
        return self.opener.connect(self)

    def give_back(self, conn: psycopg.Connection, close_conn: bool) -> None:
        capacity = self._taken.pop(self.conn_key(conn), None)
        super().give_back(conn, close_conn)
        if capacity is not None:
            capacity.release()


def _build_capacities(connections: Mapping[Use, int]) -> dict[Use, threading.Semaphore]:
    """Return a semaphore for each use: its share, or one for all."""
    shared = threading.Semaphore(MAX_CONNECTIONS)
    return {use: threading.Semaphore(connections[use]) if use in connections else shared for use in Use}
