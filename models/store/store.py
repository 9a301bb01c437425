"""The database handle of this process, and the interface of the two stores.

Whatever differs between them is a method or a property of Store: sqlite.py and postgresql.py implement it.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import peewee
from playhouse.pool import MaxConnectionsExceeded

from models.store import limits
from models.store.limits import Limits, Use

db: Any = peewee.DatabaseProxy()

# A query of rows, which keeps its type when it gets a lock.
Query = TypeVar("Query", bound=peewee.Select)

# Errors of the store itself, never of the written rows. The work is retried, and an alert does not become a
# dead letter because of them (invariant 9, design, section 2). A server that became read-only after a
# failover raises InternalError.
STORE_ERRORS = (
    peewee.OperationalError,
    peewee.InterfaceError,
    peewee.InternalError,
    MaxConnectionsExceeded,
)


class BadUrl(ValueError):
    """The URL of the database is not valid. The text says what to change, without parts of the URL."""


class LockTimeout(peewee.OperationalError):
    """Other transactions held the lock of SQLite's single writer for too long."""


class Busy(Exception):
    """Another transaction holds a lock, and the caller does not wait for it any longer."""


def get_driver_error(error: BaseException) -> object:
    """Return the error of the driver that peewee wrapped, or the error itself."""
    return getattr(error, "orig", error)


def build_sql(*parts: str | peewee.ColumnBase) -> peewee.NodeList:
    """Return an SQL text of texts and expressions."""
    return peewee.NodeList([peewee.SQL(each) if isinstance(each, str) else each for each in parts], glue="")


# The values of rows, by column.
Columns = Sequence[Sequence[object]]
# The quoted name of a column and its type, as peewee names it.
Column = tuple[str, str]
# Two columns, or two lists.
Pair = tuple[peewee.ColumnBase, peewee.ColumnBase]


class _PendingWorks(threading.local):
    """What a thread does after the commit of its transaction."""

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []


class Hold(ABC):
    """A number that this process holds until it ends."""

    @abstractmethod
    def is_kept(self) -> bool:
        """Return whether the number is still held, without asking the store."""

    @abstractmethod
    def release(self) -> None:
        """End the hold; never raise."""


class Store(ABC):
    """A database with its dialect; open_store() creates one instance per process."""

    name: str
    # The maximum number of alerts that a worker takes from a lane in one transaction, and that it writes at
    # once. While the database writes the first ones, the worker decides on the next ones.
    lane_batch: int
    write_batch: int
    # Whether only one transaction can write at a time. Then a batch of a lane blocks all other writers.
    has_single_writer: bool
    # Whether a subquery of FROM can use the columns of another one.
    has_lateral_joins: bool
    # Whether each connection reads the catalog at its first queries, and plans them (warm_up.py).
    learns_schema_by_connection: bool
    # Whether triggers check the references of tables that grow with the alerts (decision 0094).
    has_reference_triggers: bool
    # What a database in production does by itself within minutes of a large load.
    upkeep_sql: str
    # A number that is held is free when its process has ended. On PostgreSQL, it is also free for a moment
    # after the server restarted: so that a process counts as dead after so many looks that found it free.
    looks_until_dead: int
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

    @staticmethod
    @abstractmethod
    def build_rows(columns: Sequence[Column], singles: Sequence[bool]) -> str:
        """Return the rows of an INSERT whose values execute_many() sends; `singles` is what it gives."""

    @staticmethod
    @abstractmethod
    def build_update(table: str, columns: Sequence[Column], singles: Sequence[bool]) -> str:
        """Return the UPDATE of a quoted table for execute_many(). Its last column is `id`, which it keeps."""

    @abstractmethod
    def encode_list(self, values: Iterable[object]) -> object:
        """Return any number of values as one parameter, for the conditions below."""

    @abstractmethod
    def in_list(self, field: peewee.ColumnBase, values: peewee.ColumnBase) -> peewee.Expression:
        """Return the condition that a column is in a list, which is one parameter."""

    @abstractmethod
    def in_pairs(self, fields: Pair, lists: Pair, type_: str) -> peewee.Expression:
        """Return the condition that two columns are a pair of two lists, see prepared.in_bound_pairs()."""

    @abstractmethod
    def contains_any(self, field: peewee.ColumnBase, texts: peewee.ColumnBase) -> peewee.NodeList:
        """Return the condition that a column contains one of the texts of a list."""

    @contextmanager
    def sending_ahead(self) -> Iterator[None]:
        """Send the statements of the block without a wait for the result of each.

        So this process prepares the next statement while the database executes the last one. A statement
        whose rows are read is waited for. The error of another one is raised by a later statement or at the
        end of the block, and the number of rows that it changed is unknown. Needs a write transaction.
        """
        yield

    def reserve_row_numbers(self, table: type[peewee.Model], count: int) -> list[int] | None:
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
    def lock_table(self, table: type[peewee.Model]) -> None:
        """Let no other transaction write into a table until this one ends. Needs a write transaction."""

    def lock_all_tables(self, seconds: float) -> None:
        """Let no other transaction use any table until this one ends. Needs a write transaction.

        Raises Busy after this time; the transaction cannot continue then. A single writer needs nothing.
        """
        return

    @abstractmethod
    def list_columns(self) -> set[tuple[str, str, bool]]:
        """Return the table, the name and whether a value is required, of each column of the database."""

    @abstractmethod
    def hold(self, number: int) -> Hold:
        """Hold a number that no other process holds, for others to see that this process lives."""

    @abstractmethod
    def is_held(self, number: int) -> bool:
        """Return whether a process holds a number. Needs a connection."""

    def has_long_writer(self, seconds: float) -> bool:
        """Return whether a write transaction has been open for so long. Needs a connection.

        False if there is a single writer: then everybody waits for it, and no commit succeeds.
        """
        return False

    def list_locked(self, table: type[peewee.Model], rows: Collection[int]) -> set[tuple[int, str]]:
        """Return those of these rows that a transaction has locked, each with what identifies the lock.

        Needs a connection without a transaction.
        """
        return set()

    @abstractmethod
    @contextmanager
    def lock_migrations(self, home: Path) -> Iterator[None]:
        """Let no other process change the schema in the block. Needs a connection."""
        yield

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
    def measure_seconds(self, start: peewee.Field, end: peewee.Field) -> peewee.ColumnBase:
        """Return the seconds from one column to another, to the microsecond. NULL if one of them is NULL."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the time that decides what is due. On PostgreSQL it is the server's clock for all hosts."""

    def recent_now(self) -> datetime:
        """Return the time, mostly without a statement: for work that may be some seconds early or late."""
        return self.now()


_store: Store | None = None


def set_store(opened: Store) -> None:
    """Bind the tables to this store, see open_store()."""
    global _store
    _store = opened
    db.initialize(opened.database)


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
