"""The one database handle, the store behind it, and the field types that behave alike on both stores.

SQLite is the embedded default, PostgreSQL the store of larger installations. What differs between
the two is decided here, once, by the subclasses of Store.
"""

import fcntl
import logging
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledSqliteDatabase

from models.store import postgresql

db: Any = peewee.DatabaseProxy()

# What the database is called in the data folder.
SQLITE_FILE = "tocsin.db"

# Errors of the store itself, never of the rows that were being written: they are tried again and
# never count against an alert (law 9). InternalError is what a server says that may only be read, since
# another one took over.
STORE_ERRORS = (
    peewee.OperationalError,
    peewee.InterfaceError,
    peewee.InternalError,
    MaxConnectionsExceeded,
)


class Busy(Exception):
    """Somebody else holds what was to be locked without waiting, or without waiting for so long."""


def _get_driver_error(error: BaseException) -> object:
    """The driver's own error, of which peewee made this one."""
    return getattr(error, "orig", error)


class UtcField(peewee.Field):
    """An aware moment: TIMESTAMPTZ on PostgreSQL, fixed-width UTC text (which sorts) on SQLite.

    Refuses naive values. Reads back as aware UTC.
    """

    field_type = "TIMESTAMPTZ"

    def db_value(self, value: datetime | None) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{self.name} needs an aware datetime")
        return store().encode_datetime(value.astimezone(UTC))

    def python_value(self, value: Any) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        moment: datetime = value
        return moment.astimezone(UTC)


class JsonField(peewee.TextField):
    """JSON kept as text: the same bytes on both stores, never queried into."""

    def db_value(self, value: Any) -> str | None:
        return None if value is None else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()

    def python_value(self, value: str | None) -> Any:
        return None if value is None else orjson.loads(value)


class SequenceField(peewee.BigAutoField):
    """A number that is never given twice, even after the newest row is deleted."""

    def ddl_datatype(self, ctx: Any) -> Any:
        return peewee.SQL(store().sequence_type)

    def ddl(self, ctx: Any) -> Any:
        return peewee.NodeList((super().ddl(ctx), peewee.SQL(store().sequence_suffix)))


# To the type checker a row is Any: peewee makes attributes (id, team_id ...) that no stub can know.
if TYPE_CHECKING:
    _Model: Any
else:
    _Model = peewee.Model


class Table(_Model):
    class Meta:
        database = db
        legacy_table_names = False


class Store(ABC):
    """A place to keep rows; one instance per process, made by open_store()."""

    name: str
    # How many alerts a worker takes from a lane in one transaction.
    lane_batch: int
    # Whether a lane that is being worked on keeps everybody else from writing.
    has_single_writer: bool
    # How a number that is never given twice is declared.
    sequence_type: str
    sequence_suffix: str

    def __init__(self, database: Any) -> None:
        self.database = database

    @abstractmethod
    @contextmanager
    def write_transaction(self) -> Iterator[None]:
        """A write transaction: committed at the end, rolled back on any exception."""
        yield

    @abstractmethod
    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """A transaction that sees all rows as they are at one moment, and in which none can be written. Not
        within another one."""
        yield

    @abstractmethod
    def encode_datetime(self, value: datetime) -> Any:
        """An aware UTC moment as this store keeps it."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement of models/store/bulk.py for all rows at once."""

    @abstractmethod
    def for_update(self, query: Any, *, skip_locked: bool = False) -> Any:
        """Lock the rows that a select finds until the transaction ends."""

    @abstractmethod
    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        """Within a write transaction, no lock of a row is waited for longer than this: Busy is raised then,
        which ends the transaction."""
        yield

    @abstractmethod
    def is_unavailable(self, error: BaseException) -> bool:
        """Whether an error says that nobody can use the store at present, whatever they do: not only this
        connection's statement, or these rows."""

    @abstractmethod
    def now(self) -> datetime:
        """The clock by which due work is judged: one clock for all hosts where the store has one."""


class _LockFile:
    """An open file that is closed with the thread that it belongs to: a web server's threads come and go."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


class SqliteStore(Store):
    """A file in the data folder.

    SQLite's own waiting for the write lock is unfair: under load a web commit waited 3.9 s at the
    99th percentile. A flock in the data folder, taken before every write transaction, makes the
    queue fair (246 ms in the same run).
    """

    name = "sqlite"
    lane_batch = 100
    has_single_writer = True
    sequence_type = "INTEGER"
    sequence_suffix = "AUTOINCREMENT"

    # Somebody else has the file, the disk is full, the folder is gone, and so on.
    _UNAVAILABLE = frozenset(
        {
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_NOTADB,
        }
    )

    def __init__(self, path: Path) -> None:
        super().__init__(
            PooledSqliteDatabase(
                str(path),
                max_connections=200,
                check_same_thread=False,
                pragmas={
                    "journal_mode": "wal",
                    "synchronous": "full",
                    "busy_timeout": 10_000,
                    "foreign_keys": 1,
                    "cache_size": -8_000,
                },
            )
        )
        self._lock_path = path.with_name("write.lock")
        self._local = threading.local()

    @contextmanager
    def write_transaction(self) -> Iterator[None]:
        if self.database.in_transaction():
            yield
            return
        fcntl.flock(self._lock_file(), fcntl.LOCK_EX)
        try:
            with self.database.atomic("IMMEDIATE"):
                yield
        finally:
            fcntl.flock(self._lock_file(), fcntl.LOCK_UN)

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        with self.database.atomic("DEFERRED"):
            self.database.execute_sql("PRAGMA query_only = ON")
            try:
                yield
            finally:
                self.database.execute_sql("PRAGMA query_only = OFF")

    def _lock_file(self) -> "_LockFile":
        # A file handle per thread: flock queues open files, not threads. A fork must not share it.
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.file = _LockFile(self._lock_path)
            self._local.pid = os.getpid()
        file: _LockFile = self._local.file
        return file

    def encode_datetime(self, value: datetime) -> str:
        # Fixed width, so that text sorts as time does.
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")

    def execute_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        logging.getLogger("peewee").debug((statement, len(rows)))
        with peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self.database.cursor().executemany(statement, rows)

    def for_update(self, query: Any, *, skip_locked: bool = False) -> Any:
        return query

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        # The lock of this store is that of its one writer, and whoever is in a transaction has it.
        yield

    def is_unavailable(self, error: BaseException) -> bool:
        code = getattr(_get_driver_error(error), "sqlite_errorcode", None)
        # The lowest byte tells the kind of error.
        return isinstance(error, STORE_ERRORS) and code is not None and code & 0xFF in self._UNAVAILABLE

    def now(self) -> datetime:
        return datetime.now(UTC)


class PostgresStore(Store):
    name = "postgresql"
    lane_batch = 300
    has_single_writer = False
    sequence_type = "BIGSERIAL"
    sequence_suffix = ""

    def __init__(self, url: str) -> None:
        super().__init__(postgresql.Pool(url))

    @contextmanager
    def write_transaction(self) -> Iterator[None]:
        if self.database.in_transaction():
            yield
            return
        with self.database.atomic():
            yield

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        with self.database.atomic():
            self.database.execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def encode_datetime(self, value: datetime) -> datetime:
        return value

    def execute_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        # One array per column: psycopg sends it in binary form, PostgreSQL takes it apart.
        for batch in postgresql.split_rows(rows):
            self.database.execute_sql(statement, [list(column) for column in zip(*batch, strict=True)])

    def for_update(self, query: Any, *, skip_locked: bool = False) -> Any:
        # Not plain FOR UPDATE: rows that refer to a locked one may be inserted all the same. An alert for a
        # service whose lane is at work must not wait for it, and the group commit with it.
        return query.for_update("FOR NO KEY UPDATE SKIP LOCKED" if skip_locked else "FOR NO KEY UPDATE")

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        self.database.execute_sql(f"SET LOCAL lock_timeout = '{seconds * 1000:.0f}ms'")
        try:
            yield
        except peewee.OperationalError as error:
            if isinstance(_get_driver_error(error), postgresql.LOCK_TIMEOUT):
                raise Busy from None
            raise
        self.database.execute_sql("SET LOCAL lock_timeout = DEFAULT")

    def is_unavailable(self, error: BaseException) -> bool:
        if not isinstance(error, STORE_ERRORS):
            return False
        ended = self.database.is_closed() or self.database.connection().closed
        return (
            ended
            or isinstance(error, MaxConnectionsExceeded)
            or postgresql.is_unavailable(_get_driver_error(error))
        )

    def now(self) -> datetime:
        moment: datetime = self.database.execute_sql("select clock_timestamp()").fetchone()[0]
        return moment.astimezone(UTC)


_store: Store | None = None


def open_store(url: str, home: Path) -> Store:
    """Bind the tables to their store; an empty url means the SQLite file in the data folder.

    Opens no connection: that is done per request or message, after any fork, by connection(). Raises
    postgresql.BadUrl.
    """
    global _store
    if url:
        _store = PostgresStore(url)
    else:
        home.mkdir(parents=True, exist_ok=True)
        _store = SqliteStore(home / SQLITE_FILE)
    db.initialize(_store.database)
    return _store


def store() -> Store:
    if _store is None:
        raise RuntimeError("open_store() has not been called")
    return _store


@contextmanager
def connection() -> Iterator[None]:
    """A connection of this thread for the length of one request, message or pass."""
    opened = db.connect(reuse_if_open=True)
    try:
        yield
    finally:
        if opened:
            db.close()
