"""The database handle, the two stores, and field types that behave the same on both stores.

SQLite is the embedded default, PostgreSQL the store of larger installations. The subclasses of Store contain
the differences between the two.
"""

import logging
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledSqliteDatabase

from models.domain.reasons import Reason, from_json
from models.store import limits, postgresql
from models.store.limits import Limits, Use
from models.store.write_lock import LockFile, LockTimeoutError, WriteLock
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


class LockTimeout(peewee.OperationalError):
    """Other transactions held the lock of SQLite's single writer for too long."""


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
        return _read_reason(value)


@lru_cache(maxsize=256)
def _read_reason(stored: str) -> Reason:
    """Return a stored reason. The notifications of a mail mostly have the same one."""
    return from_json(orjson.loads(stored) if stored.startswith('{"code":') else stored)


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


# The values of rows, by column.
Columns = Sequence[Sequence[object]]


class _PendingWorks(threading.local):
    """What a thread does after the commit of its transaction."""

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []


class Store(ABC):
    """A database with its dialect; open_store() creates one instance per process."""

    name: str
    # The maximum number of alerts that a worker takes from a lane in one transaction, and that it writes at
    # once. While the database writes the first ones, the worker decides on the next ones.
    lane_batch: int
    write_batch: int
    # Whether only one transaction can write at a time. Then a batch of a lane blocks all other writers.
    has_single_writer: bool
    # The SQL declaration of SequenceField.
    sequence_type: str
    sequence_suffix: str

    def __init__(self, database: peewee.Database) -> None:
        self.database = database
        self._limits = Limits()
        self._pending = _PendingWorks()

    def set_limits(self, process_limits: Limits) -> None:
        """Set how long this process waits for the store, in all later transactions.

        A longer wait is an error of STORE_ERRORS; for a lock, see is_lock_timeout.
        """
        self._limits = process_limits

    @contextmanager
    def write_transaction(self, lock_s: float | None = None) -> Iterator[None]:
        """Open a write transaction: committed at the end, rolled back on any exception.

        In another one, do nothing: all is committed at the end of that one. `lock_s` limits each wait for a
        lock, in seconds. None: the limit of the process.
        """
        if self.database.in_transaction():
            yield
            return
        works = self._pending.works = []
        with self._begin_write(lock_s):
            yield
        for work in works:
            work()

    @abstractmethod
    @contextmanager
    def _begin_write(self, lock_s: float | None) -> Iterator[None]:
        """Open a write transaction that is in no other one, see write_transaction()."""
        yield

    def after_commit(self, work: Callable[[], object]) -> None:
        """Do this after the commit of the write transaction of this thread; at once if there is none.

        Never do it if the transaction is rolled back. `work` must not raise.
        """
        if self.database.in_transaction():
            self._pending.works.append(work)
        else:
            work()

    @abstractmethod
    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Open a read-only transaction with a consistent snapshot. Must not be nested in another one."""
        yield

    @abstractmethod
    def encode_datetime(self, value: datetime) -> datetime | str:
        """Convert an aware UTC datetime to the stored form."""

    @abstractmethod
    def execute_many(self, build: Callable[[tuple[bool, ...]], str], columns: Columns) -> None:
        """Run a statement of models/store/bulk.py for all rows.

        `build` builds it. Its argument says which columns are sent as one value for all rows.
        """

    @contextmanager
    def sending_ahead(self) -> Iterator[None]:
        """Send the statements of the block without a wait for the result of each.

        So this process prepares the next statement while the database executes the last one. A statement
        whose rows are read is waited for. The error of another one is raised by a later statement or at the
        end of the block, and the number of rows that it changed is unknown. Needs a write transaction.
        """
        yield

    def reserve_row_numbers(self, table: type["Table"], count: int) -> list[int] | None:
        """Return row numbers for new rows of a table, in ascending order; None: the insert gives them."""
        return None

    @abstractmethod
    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        """Return the select with a lock of its rows until the transaction ends."""

    def for_deletion(self, query: Query) -> Query:
        """Return the select with a lock that also waits for inserts of references to its rows."""
        return query

    @abstractmethod
    def lock_key(self, key: str) -> None:
        """Lock a text until the transaction ends, for rows that may not exist yet.

        Needs a write transaction. Take it before any lock of a row.
        """

    @abstractmethod
    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        """Limit the time to wait for a row lock. Needs a write transaction.

        Raises Busy after this time; the transaction cannot continue then.
        """
        yield

    @contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Limit the time that the store may need for the block. A longer wait is an error of STORE_ERRORS.

        After it, the outcome of a commit is unknown. On PostgreSQL, the connection is closed, even if the
        server is frozen. On SQLite, only waits for locks end: a write to a disk that hangs cannot be ended.
        """
        with limits.deadline(seconds):
            yield

    @abstractmethod
    @contextmanager
    def long_statements(self, seconds: float) -> Iterator[None]:
        """Let each statement take so long instead of the limit of the process. Needs a write transaction."""
        yield

    @abstractmethod
    def is_unavailable(self, error: BaseException) -> bool:
        """Return whether an error means that the whole store is unusable now.

        False for errors of a single statement or of single rows.
        """

    @abstractmethod
    def refuses_writes(self, error: BaseException) -> bool:
        """Return whether an error means that the store is full or read-only, and can only be read now."""

    @abstractmethod
    def is_lock_timeout(self, error: BaseException) -> bool:
        """Return whether an error means that another transaction held a lock for too long."""

    @abstractmethod
    def give_back_space(self) -> bool:
        """Give some space of deleted rows back to the file system; return whether more is to be given back.

        Do nothing while little space is free, since new rows use it. PostgreSQL's autovacuum does this work.
        """

    @abstractmethod
    def measure_seconds(self, start: UtcField, end: UtcField) -> peewee.ColumnBase:
        """Return the seconds from one column to another, to the microsecond. NULL if one of them is NULL."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the time that decides what is due. On PostgreSQL it is the server's clock for all hosts."""

    def recent_now(self) -> datetime:
        """Return the time, mostly without a statement: for work that may be some seconds early or late."""
        return self.now()


# How long the time of the server is continued by the monotonic clock of this host, which can stand still.
TIME_ANSWER_S = 5.0


class SqliteStore(Store):
    """A SQLite file in the data folder.

    SQLite's own lock for writers is not fair: under load a web commit waited 3.9 s at the 99th percentile.
    Each write transaction first takes a flock in the data folder, which is fair (246 ms in the same run).
    """

    name = "sqlite"
    lane_batch = write_batch = 100
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

    # New alerts use the free pages of the file. More than this share of its pages, and at least this number
    # (16 MiB), are given back, this many in one transaction.
    _FREE_SHARE = 4
    _MIN_FREE_PAGES = 4_096
    _PAGES_PER_STEP = 128

    # How long a statement waits for another program, for example a backup.
    _BUSY_TIMEOUT_S = 10.0

    def __init__(self, path: Path) -> None:
        super().__init__(
            PooledSqliteDatabase(
                str(path),
                max_connections=200,
                check_same_thread=False,
                pragmas={
                    # Takes effect in a new file only, before the first table; the other modes keep it.
                    "auto_vacuum": "incremental",
                    "journal_mode": "wal",
                    "synchronous": "full",
                    "busy_timeout": round(self._BUSY_TIMEOUT_S * 1000),
                    "foreign_keys": 1,
                    "cache_size": -8_000,
                },
            )
        )
        self._lock = WriteLock(path.with_name("write.lock"))

    @contextmanager
    def _begin_write(self, lock_s: float | None) -> Iterator[None]:
        until = self._get_lock_until(lock_s)
        lock = self._take_lock(until)
        try:
            with self._limit_busy_timeout(until), self.database.atomic("IMMEDIATE"):
                yield
        finally:
            lock.unlock()

    def _get_lock_until(self, lock_s: float | None) -> float | None:
        """Return the time until which to wait for the lock: the caller's, its deadline, or the process's."""
        if lock_s is None:
            remaining = limits.get_remaining_s()
            lock_s = self._limits.lock_s if remaining is None else remaining
        return None if lock_s is None else time.monotonic() + lock_s

    def _take_lock(self, until: float | None) -> LockFile:
        try:
            return self._lock.acquire(None if until is None else until - time.monotonic())
        except LockTimeoutError:
            raise LockTimeout("other transactions held the write lock for too long") from None

    @contextmanager
    def _limit_busy_timeout(self, until: float | None) -> Iterator[None]:
        """Wait for another program until this time in the block; None: for as long as elsewhere."""
        if until is None:
            yield
            return
        self._set_busy_timeout(until - time.monotonic())
        try:
            yield
        finally:
            self._set_busy_timeout(self._BUSY_TIMEOUT_S)

    def _set_busy_timeout(self, seconds: float) -> None:
        self.database.connection().execute(f"PRAGMA busy_timeout = {max(seconds, 0.0) * 1000:.0f}")

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        with self.database.atomic("DEFERRED"):
            self.database.execute_sql("PRAGMA query_only = ON")
            try:
                yield
            finally:
                self.database.execute_sql("PRAGMA query_only = OFF")

    def encode_datetime(self, value: datetime) -> str:
        # Fixed width, so that the text sorts by time.
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")

    def execute_many(self, build: Callable[[tuple[bool, ...]], str], columns: Columns) -> None:
        statement = build((False,) * len(columns))
        logging.getLogger("peewee").debug((statement, len(columns[0])))
        with peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self.database.cursor().executemany(statement, zip(*columns, strict=True))

    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        return query

    def lock_key(self, key: str) -> None:
        # This store has only the lock for its single writer, and a write transaction already has it.
        pass

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        # This store has only the lock for its single writer, and a write transaction already has it.
        yield

    @contextmanager
    def long_statements(self, seconds: float) -> Iterator[None]:
        # This store has no limit of statements.
        yield

    def is_unavailable(self, error: BaseException) -> bool:
        code = getattr(_get_driver_error(error), "sqlite_errorcode", None)
        # The lowest byte is the primary error code.
        return isinstance(error, STORE_ERRORS) and code is not None and code & 0xFF in self._UNAVAILABLE

    def refuses_writes(self, error: BaseException) -> bool:
        # Not SQLITE_READONLY: the file belongs to another user, and to wait would not help.
        code = getattr(_get_driver_error(error), "sqlite_errorcode", None)
        return code is not None and code & 0xFF == sqlite3.SQLITE_FULL

    def is_lock_timeout(self, error: BaseException) -> bool:
        code = getattr(_get_driver_error(error), "sqlite_errorcode", 0)
        return isinstance(error, LockTimeout) or code & 0xFF == sqlite3.SQLITE_BUSY

    def give_back_space(self) -> bool:
        pages, free = self._read_pragma("page_count"), self._read_pragma("freelist_count")
        if free < max(self._MIN_FREE_PAGES, pages // self._FREE_SHARE):
            return False
        with self.write_transaction():
            # Python's driver runs one step of a statement: one page.
            for _ in range(self._PAGES_PER_STEP):
                self.database.execute_sql("PRAGMA incremental_vacuum(1)")
        # Files of an earlier version have no such mode, and stay as they are.
        return self._read_pragma("freelist_count") < free

    def _read_pragma(self, name: str) -> int:
        ((value,),) = self.database.execute_sql(f"PRAGMA {name}").fetchall()
        return int(value)

    def measure_seconds(self, start: UtcField, end: UtcField) -> peewee.ColumnBase:
        # The date functions round to milliseconds. So they get the text without its fraction, and the result
        # is rounded to whole seconds: a difference of days is not exact.
        whole = peewee.fn.ROUND((_get_julian_day(end) - _get_julian_day(start)) * _DAY_S)
        return whole + (_get_microseconds(end) - _get_microseconds(start)) / 1e6

    def now(self) -> datetime:
        return datetime.now(UTC)


# The parts of a time as UtcField stores it on SQLite: YYYY-MM-DD HH:MM:SS.ffffff
_SECONDS_END, _FRACTION_START = 19, 21
_DAY_S = 86_400.0


def _get_julian_day(column: UtcField) -> peewee.Function:
    return peewee.fn.julianday(peewee.fn.substr(column, 1, _SECONDS_END))


def _get_microseconds(column: UtcField) -> peewee.Function:
    return peewee.fn.substr(column, _FRACTION_START)


class PostgresStore(Store):
    name = "postgresql"
    lane_batch = 1200
    write_batch = 300
    has_single_writer = False
    sequence_type = "BIGSERIAL"
    sequence_suffix = ""

    def __init__(self, url: str) -> None:
        self._pool = postgresql.Pool(url)
        # The last answer to the question for the time, and the time of this host's monotonic clock then.
        self._last_answer: tuple[datetime, float] | None = None
        super().__init__(self._pool)

    def set_limits(self, process_limits: Limits) -> None:
        super().set_limits(process_limits)
        self._pool.set_limits(process_limits)

    @contextmanager
    def _begin_write(self, lock_s: float | None) -> Iterator[None]:
        with self.database.atomic():
            if lock_s is not None:
                self.database.execute_sql(f"SET LOCAL lock_timeout = '{lock_s * 1000:.0f}ms'")
            yield

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        with self.database.atomic():
            self.database.execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def encode_datetime(self, value: datetime) -> datetime:
        return value

    def execute_many(self, build: Callable[[tuple[bool, ...]], str], columns: Columns) -> None:
        for batch in postgresql.split_columns(columns):
            singles = [column.count(column[0]) == len(column) for column in batch]
            if len(batch[0]) > 1:
                # At least one array says how many rows there are.
                singles[-1] = False
            marked = list(zip(singles, batch, strict=True))
            values = [column[0] for is_single, column in marked if is_single]
            arrays = [postgresql.build_array(column) for is_single, column in marked if not is_single]
            self.database.execute_sql(build(tuple(singles)), [*values, *arrays])

    @contextmanager
    def sending_ahead(self) -> Iterator[None]:
        # Errors at the end of the block are those of the driver; the caller knows those of peewee.
        with peewee.__exception_wrapper__, self.database.connection().pipeline():  # type: ignore[attr-defined]
            yield

    def reserve_row_numbers(self, table: type["Table"], count: int) -> list[int] | None:
        sql = "SELECT nextval(%s::regclass) FROM generate_series(1, %s)"
        rows = self.database.execute_sql(sql, (f"{table._meta.table_name}_id_seq", count)).fetchall()
        return [row for (row,) in rows]

    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        # Not FOR UPDATE: it would block inserts of rows that refer to a locked row. A new alert, and the
        # whole group commit with it, must not wait for a worker that has locked the service.
        # The stubs of peewee do not know that this may be text.
        lock: Any = "FOR NO KEY UPDATE SKIP LOCKED" if skip_locked else "FOR NO KEY UPDATE"
        return query.for_update(lock)

    def for_deletion(self, query: Query) -> Query:
        return query.for_update()

    def lock_key(self, key: str) -> None:
        # Two numbers: the lock of migrations has one, so the two never meet.
        self.database.execute_sql("SELECT pg_advisory_xact_lock(0, hashtext(%s))", (key,))

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

    @contextmanager
    def long_statements(self, seconds: float) -> Iterator[None]:
        self.database.execute_sql(f"SET LOCAL statement_timeout = '{seconds * 1000:.0f}ms'")
        with limits.long_statements(seconds):
            yield
        self.database.execute_sql("SET LOCAL statement_timeout = DEFAULT")

    def is_unavailable(self, error: BaseException) -> bool:
        if not isinstance(error, STORE_ERRORS):
            return False
        ended = self.database.is_closed() or self.database.connection().closed
        return (
            ended
            or isinstance(error, MaxConnectionsExceeded)
            or postgresql.is_unavailable(_get_driver_error(error))
        )

    def refuses_writes(self, error: BaseException) -> bool:
        return isinstance(_get_driver_error(error), postgresql.REFUSED_WRITES)

    def is_lock_timeout(self, error: BaseException) -> bool:
        return isinstance(_get_driver_error(error), postgresql.LOCK_TIMEOUT)

    def give_back_space(self) -> bool:
        return False

    def measure_seconds(self, start: UtcField, end: UtcField) -> peewee.ColumnBase:
        return peewee.fn.date_part("epoch", end - start)

    def now(self) -> datetime:
        moment: datetime = self.database.execute_sql("select clock_timestamp()").fetchone()[0]
        moment = moment.astimezone(UTC)
        self._last_answer = moment, time.monotonic()
        return moment

    def recent_now(self) -> datetime:
        if self._last_answer is None:
            return self.now()
        moment, answered_s = self._last_answer
        passed_s = time.monotonic() - answered_s
        return moment + timedelta(seconds=passed_s) if passed_s < TIME_ANSWER_S else self.now()


_store: Store | None = None


def open_store(url: str, home: Path) -> Store:
    """Bind the tables to a store; an empty url means the SQLite file in the data folder.

    Another store that was open is closed first, see close_store().
    Does not connect: connection() does that per request or message, after any fork. Raises
    postgresql.BadUrl, or BadSetting if others can read the folder of a SQLite file.
    """
    global _store
    close_store()
    if url:
        _store = PostgresStore(url)
    else:
        data_folder.prepare(home)
        _store = SqliteStore(home / SQLITE_FILE)
    db.initialize(_store.database)
    return _store


def close_store() -> None:
    """Close the connection of this thread and those that no thread uses, if a store is open."""
    if _store is not None:
        db.close()
        db.close_idle()


def store() -> Store:
    if _store is None:
        raise RuntimeError("open_store() has not been called")
    return _store


@contextmanager
def connection(use: Use = Use.OTHER) -> Iterator[None]:
    """Open a connection of this thread, for one request, message or pass."""
    with limits.use_connections(use):
        opened = db.connect(reuse_if_open=True)
    try:
        yield
    finally:
        if opened:
            db.close()
