"""The database handle, the two stores, and field types that behave the same on both stores.

SQLite is the embedded default, PostgreSQL the store of larger installations. The subclasses of Store contain
the differences between the two.
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
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledSqliteDatabase

from models.domain.reasons import Reason, from_json
from models.store import postgresql
from runtime import data_folder

db: Any = peewee.DatabaseProxy()

# A query of rows, which keeps its type when it gets a lock.
Query = TypeVar("Query", bound=peewee.Select)

# The name of the database file in the data folder.
SQLITE_FILE = "tocsin.db"

# Errors of the store itself, never of the written rows. The work is retried, and an alert does not become a
# dead letter because of them (invariant 9, design, section 2). A server that became read-only after a
# failover raises InternalError.
STORE_ERRORS = (
    peewee.OperationalError,
    peewee.InterfaceError,
    peewee.InternalError,
    MaxConnectionsExceeded,
)


class Busy(Exception):
    """Another transaction holds a lock, and the caller does not wait for it any longer."""


def _get_driver_error(error: BaseException) -> object:
    """Return the error of the driver that peewee wrapped, or the error itself."""
    return getattr(error, "orig", error)


class UtcField(peewee.Field):
    """An aware datetime: TIMESTAMPTZ on PostgreSQL, UTC text of fixed width (which sorts) on SQLite.

    Raises ValueError for naive values. Returns aware UTC values.
    """

    field_type = "TIMESTAMPTZ"

    def db_value(self, value: datetime | None) -> datetime | str | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{self.name} needs an aware datetime")
        return store().encode_datetime(value.astimezone(UTC))

    def python_value(self, value: datetime | str | None) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        return value.astimezone(UTC)


class JsonField(peewee.TextField):
    """JSON stored as text: the same bytes on both stores. Queries do not look inside."""

    def db_value(self, value: object) -> str | None:
        return None if value is None else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()

    def python_value(self, value: str | None) -> object:
        return None if value is None else orjson.loads(value)


class ReasonField(JsonField):
    """A reason, stored as JSON. A text that is no JSON is a sentence of an earlier version."""

    def python_value(self, value: str | None) -> Reason | None:
        if value is None:
            return None
        return from_json(orjson.loads(value) if value.startswith('{"code":') else value)


class SequenceField(peewee.BigAutoField):
    """A row number that is never used twice, even after the newest row is deleted."""

    def ddl_datatype(self, ctx: peewee.Context) -> peewee.SQL:
        return peewee.SQL(store().sequence_type)

    def ddl(self, ctx: peewee.Context) -> peewee.NodeList:
        return peewee.NodeList((super().ddl(ctx), peewee.SQL(store().sequence_suffix)))


# Rows are Any for the type checker: peewee creates attributes (id, team_id ...) that stubs do not have.
if TYPE_CHECKING:
    _Model: Any
else:
    _Model = peewee.Model


class Table(_Model):
    class Meta:
        database = db
        legacy_table_names = False

    @classmethod
    def declare_index(cls, name: str, *columns: str, where: str | None = None, unique: bool = False) -> None:
        """Add an index; with `where` it holds only the rows that meet this SQL condition."""
        fields = [getattr(cls, column) for column in columns]
        condition = None if where is None else peewee.SQL(where)
        cls.add_index(cls.index(*fields, where=condition, unique=unique, name=name))


class ObjectTable(Table):
    """A table of objects that the interface shows by a UUID."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()


class Store(ABC):
    """A database with its dialect; open_store() creates one instance per process."""

    name: str
    # The maximum number of alerts that a worker takes from a lane in one transaction.
    lane_batch: int
    # Whether only one transaction can write at a time. Then a batch of a lane blocks all other writers.
    has_single_writer: bool
    # The SQL declaration of SequenceField.
    sequence_type: str
    sequence_suffix: str

    def __init__(self, database: peewee.Database) -> None:
        self.database = database

    @abstractmethod
    @contextmanager
    def write_transaction(self) -> Iterator[None]:
        """Open a write transaction: committed at the end, rolled back on any exception."""
        yield

    @abstractmethod
    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Open a read-only transaction with a consistent snapshot. Must not be nested in another one."""
        yield

    @abstractmethod
    def encode_datetime(self, value: datetime) -> datetime | str:
        """Convert an aware UTC datetime to the stored form."""

    @abstractmethod
    def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a statement of models/store/bulk.py for all rows."""

    @abstractmethod
    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        """Return the select with a lock of its rows until the transaction ends."""

    @abstractmethod
    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        """Limit the time to wait for a row lock. Needs a write transaction.

        Raises Busy after this time; the transaction cannot continue then.
        """
        yield

    @abstractmethod
    def is_unavailable(self, error: BaseException) -> bool:
        """Return whether an error means that the whole store is unusable now.

        False for errors of a single statement or of single rows.
        """

    @abstractmethod
    def limit_lock_waits(self, seconds: float) -> None:
        """Limit the wait of this process for the lock of a row, in all later transactions.

        A longer wait is an error, see is_lock_timeout. SQLite has no locks of rows.
        """

    @abstractmethod
    def is_lock_timeout(self, error: BaseException) -> bool:
        """Return whether an error means that another transaction held a lock for too long."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the time that decides what is due. On PostgreSQL it is the server's clock for all hosts."""


class _LockFile:
    """An open file of one thread, closed when the thread ends: a web server starts and ends threads."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


class SqliteStore(Store):
    """A SQLite file in the data folder.

    SQLite's own lock for writers is not fair: under load a web commit waited 3.9 s at the 99th percentile.
    Each write transaction first takes a flock in the data folder, which is fair (246 ms in the same run).
    """

    name = "sqlite"
    lane_batch = 100
    has_single_writer = True
    sequence_type = "INTEGER"
    sequence_suffix = "AUTOINCREMENT"

    # Another process has locked the file, the disk is full, the folder is missing, and similar errors.
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
        # One file handle per thread, because a flock belongs to an open file. A fork must not share it.
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.file = _LockFile(self._lock_path)
            self._local.pid = os.getpid()
        file: _LockFile = self._local.file
        return file

    def encode_datetime(self, value: datetime) -> str:
        # Fixed width, so that the text sorts by time.
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")

    def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        logging.getLogger("peewee").debug((statement, len(rows)))
        with peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self.database.cursor().executemany(statement, rows)

    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        return query

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        # This store has only the lock for its single writer, and a write transaction already has it.
        yield

    def is_unavailable(self, error: BaseException) -> bool:
        code = getattr(_get_driver_error(error), "sqlite_errorcode", None)
        # The lowest byte is the primary error code.
        return isinstance(error, STORE_ERRORS) and code is not None and code & 0xFF in self._UNAVAILABLE

    def limit_lock_waits(self, seconds: float) -> None:
        pass

    def is_lock_timeout(self, error: BaseException) -> bool:
        return False

    def now(self) -> datetime:
        return datetime.now(UTC)


class PostgresStore(Store):
    name = "postgresql"
    lane_batch = 300
    has_single_writer = False
    sequence_type = "BIGSERIAL"
    sequence_suffix = ""

    def __init__(self, url: str) -> None:
        self._pool = postgresql.Pool(url)
        super().__init__(self._pool)

    def limit_lock_waits(self, seconds: float) -> None:
        self._pool.set_lock_timeout(seconds)

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

    def execute_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        # One array per column: psycopg sends it in binary form, PostgreSQL expands it to rows.
        for batch in postgresql.split_rows(rows):
            self.database.execute_sql(statement, [list(column) for column in zip(*batch, strict=True)])

    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        # Not FOR UPDATE: it would block inserts of rows that refer to a locked row. A new alert, and the
        # whole group commit with it, must not wait for a worker that has locked the service.
        # The stubs of peewee do not know that this may be text.
        lock: Any = "FOR NO KEY UPDATE SKIP LOCKED" if skip_locked else "FOR NO KEY UPDATE"
        return query.for_update(lock)

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        self.database.execute_sql(f"SET LOCAL lock_timeout = '{seconds * 1000:.0f}ms'")
        try:
            yield
        except peewee.OperationalError as error:
            if self.is_lock_timeout(error):
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

    def is_lock_timeout(self, error: BaseException) -> bool:
        return isinstance(_get_driver_error(error), postgresql.LOCK_TIMEOUT)

    def now(self) -> datetime:
        moment: datetime = self.database.execute_sql("select clock_timestamp()").fetchone()[0]
        return moment.astimezone(UTC)


_store: Store | None = None


def open_store(url: str, home: Path) -> Store:
    """Bind the tables to a store; an empty url means the SQLite file in the data folder.

    Does not connect: connection() does that per request or message, after any fork. Raises
    postgresql.BadUrl, or BadSetting if others can read the folder of a SQLite file.
    """
    global _store
    if url:
        _store = PostgresStore(url)
    else:
        data_folder.prepare(home)
        _store = SqliteStore(home / SQLITE_FILE)
    db.initialize(_store.database)
    return _store


def store() -> Store:
    if _store is None:
        raise RuntimeError("open_store() has not been called")
    return _store


@contextmanager
def connection() -> Iterator[None]:
    """Open a connection of this thread, for one request, message or pass."""
    opened = db.connect(reuse_if_open=True)
    try:
        yield
    finally:
        if opened:
            db.close()
