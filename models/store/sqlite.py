"""The embedded default: a SQLite file in the data folder."""

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson
import peewee
from playhouse.pool import PooledSqliteDatabase

from models.store import limits
from models.store.peewee_internals import wrap_errors
from models.store.store import (
    STORE_ERRORS,
    Column,
    Columns,
    Hold,
    LockTimeout,
    Pair,
    Query,
    Store,
    build_sql,
    get_driver_error,
)
from models.store.write_lock import LockFile, LockTimeoutError, WriteLock

# The name of the database file in the data folder.
SQLITE_FILE = "tocsin.db"


class _FileHold(Hold):
    """A locked file. The system ends the lock with the process, and with nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = LockFile(path)
        self._file.lock()

    def is_kept(self) -> bool:
        return True

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        self._file.unlock()


class SqliteStore(Store):
    """A SQLite file in the data folder.

    SQLite's own lock for writers is not fair: under load a web commit waited 3.9 s at the 99th percentile.
    Each write transaction first takes a flock in the data folder, which is fair (246 ms in the same run).
    """

    name = "sqlite"
    lane_batch = write_batch = 100
    has_single_writer = True
    # A query costs little here: it is a call of a function.
    has_lateral_joins = False
    learns_schema_by_connection = False
    has_reference_triggers = False
    upkeep_sql = "PRAGMA wal_checkpoint"
    looks_until_dead = 1
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
        self._holders = path.with_name("holders")

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
        with wrap_errors:
            self.database.cursor().executemany(statement, zip(*columns, strict=True))

    @staticmethod
    def build_rows(columns: Sequence[Column], singles: Sequence[bool]) -> str:
        return f"VALUES ({', '.join('?' for _ in columns)})"

    @staticmethod
    def build_update(table: str, columns: Sequence[Column], singles: Sequence[bool]) -> str:
        settings = ", ".join(f"{name} = ?" for name, _ in columns[:-1])
        return f"UPDATE {table} SET {settings} WHERE id = ?"  # noqa: S608 - names of our tables

    def encode_list(self, values: Iterable[object]) -> str:
        return orjson.dumps(list(values)).decode()

    def in_list(self, field: peewee.ColumnBase, values: peewee.ColumnBase) -> peewee.Expression:
        return peewee.Expression(field, "IN", build_sql("(SELECT value FROM json_each(", values, "))"))

    def in_pairs(self, fields: Pair, lists: Pair, type_: str) -> peewee.Expression:
        return self.in_list(fields[0], lists[0]) & self.in_list(fields[1], lists[1])

    def contains_any(self, field: peewee.ColumnBase, texts: peewee.ColumnBase) -> peewee.NodeList:
        return build_sql(
            "EXISTS (SELECT 1 FROM json_each(", texts, ") AS one WHERE INSTR(", field, ", one.value) > 0)"
        )

    def for_update(self, query: Query, *, skip_locked: bool = False) -> Query:
        return query

    def lock_key(self, key: str) -> None:
        # This store has only the lock for its single writer, and a write transaction already has it.
        pass

    def lock_table(self, table: type[peewee.Model]) -> None:
        # This store has only the lock for its single writer, and a write transaction already has it.
        pass

    def list_columns(self) -> set[tuple[str, str, bool]]:
        rows = self.database.execute_sql(
            'SELECT t.name, c.name, c."notnull" FROM sqlite_master t, pragma_table_info(t.name) c'
            " WHERE t.type = 'table'"
        )
        return {(table, name, bool(required)) for table, name, required in rows.fetchall()}

    def hold(self, number: int) -> Hold:
        self._holders.mkdir(mode=0o700, exist_ok=True)
        return _FileHold(self._holders / str(number))

    def is_held(self, number: int) -> bool:
        path = self._holders / str(number)
        if not path.exists():
            return False
        if not LockFile(path).lock_if_free():
            return True
        # The process was killed. Each number is used once, so nobody locks the file again.
        path.unlink(missing_ok=True)
        return False

    @contextmanager
    def lock_migrations(self, home: Path) -> Iterator[None]:
        handle = os.open(home / "migrate.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def lock_timeout(self, seconds: float) -> Iterator[None]:
        # This store has only the lock for its single writer, and a write transaction already has it.
        yield

    @contextmanager
    def long_statements(self, seconds: float) -> Iterator[None]:
        # This store has no limit of statements.
        yield

    def is_unavailable(self, error: BaseException) -> bool:
        code = getattr(get_driver_error(error), "sqlite_errorcode", None)
        # The lowest byte is the primary error code.
        return isinstance(error, STORE_ERRORS) and code is not None and code & 0xFF in self._UNAVAILABLE

    def refuses_writes(self, error: BaseException) -> bool:
        # Not SQLITE_READONLY: the file belongs to another user, and to wait would not help.
        code = getattr(get_driver_error(error), "sqlite_errorcode", None)
        return code is not None and code & 0xFF == sqlite3.SQLITE_FULL

    def is_lock_timeout(self, error: BaseException) -> bool:
        code = getattr(get_driver_error(error), "sqlite_errorcode", 0)
        return isinstance(error, LockTimeout) or code & 0xFF == sqlite3.SQLITE_BUSY

    def give_back_space(self) -> bool:
        pages, free = self._read_pragma("page_count"), self._read_pragma("freelist_count")
        if free < max(self._MIN_FREE_PAGES, pages // self._FREE_SHARE):
            return False
        with self.write_transaction():
            # Python's driver runs one step of a statement: one page.
            for _ in range(self._PAGES_PER_STEP):
                self.database.execute_sql("PRAGMA incremental_vacuum(1)")
        return self._read_pragma("freelist_count") < free

    def _read_pragma(self, name: str) -> int:
        ((value,),) = self.database.execute_sql(f"PRAGMA {name}").fetchall()
        return int(value)

    def measure_seconds(self, start: peewee.Field, end: peewee.Field) -> peewee.ColumnBase:
        # The date functions round to milliseconds. So they get the text without its fraction, and the result
        # is rounded to whole seconds: a difference of days is not exact.
        whole = peewee.fn.ROUND((_get_julian_day(end) - _get_julian_day(start)) * _DAY_S)
        return whole + (_get_microseconds(end) - _get_microseconds(start)) / 1e6

    def now(self) -> datetime:
        return datetime.now(UTC)


# The parts of a time as UtcField stores it on SQLite: YYYY-MM-DD HH:MM:SS.ffffff
_SECONDS_END, _FRACTION_START = 19, 21
_DAY_S = 86_400.0


def _get_julian_day(column: peewee.Field) -> peewee.Function:
    return peewee.fn.julianday(peewee.fn.substr(column, 1, _SECONDS_END))


def _get_microseconds(column: peewee.Field) -> peewee.Function:
    return peewee.fn.substr(column, _FRACTION_START)
