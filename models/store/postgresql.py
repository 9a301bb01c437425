"""The store of larger installations: a PostgreSQL server."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import peewee
from playhouse.pool import MaxConnectionsExceeded

from models.store import limits, postgresql_pool
from models.store.limits import Limits
from models.store.peewee_internals import get_table_name, wrap_errors
from models.store.store import (
    STORE_ERRORS,
    Busy,
    Column,
    Columns,
    Hold,
    Pair,
    Query,
    Store,
    build_sql,
    get_driver_error,
)

# How long the time of the server is continued by the monotonic clock of this host, which can stand still.
TIME_ANSWER_S = 5.0


# The number of the advisory lock of migrations: arbitrary, but the same in every process.
_MIGRATIONS = 7_206_247

# The first number of the advisory locks of holds; that of lock_key() is 0.
_HOLDS = 1

# The name of a type in peewee -> the type of values that are sent.
_TYPES = {
    "AUTO": "integer", "BIGAUTO": "bigint", "INT": "integer", "SMALLINT": "smallint", "BIGINT": "bigint",
    "VARCHAR": "text", "TEXT": "text", "BOOL": "boolean", "TIMESTAMPTZ": "timestamptz", "BLOB": "bytea",
    "DOUBLE": "double precision",
}  # fmt: skip


class _SessionHold(Hold):
    """An advisory lock in a session of its own, which ends with the process, or with its network."""

    def __init__(self, pool: postgresql_pool.Pool, number: int) -> None:
        self._session = pool.open_session()
        row = self._session.execute("select pg_try_advisory_lock(%s, %s)", (_HOLDS, number)).fetchone()
        if row != (True,):
            self._session.close()
            # A session of this process whose network was lost still has it.
            raise peewee.OperationalError("the number is held by an earlier session")

    def is_kept(self) -> bool:
        return not postgresql_pool.has_ended(self._session)

    def release(self) -> None:
        self._session.close()


class PostgresStore(Store):
    name = "postgresql"
    lane_batch = 1200
    write_batch = 300
    has_single_writer = False
    has_lateral_joins = True
    learns_schema_by_connection = True
    has_reference_triggers = True
    upkeep_sql = "VACUUM ANALYZE"
    looks_until_dead = 2
    sequence_type = "BIGSERIAL"
    sequence_suffix = ""

    def __init__(self, url: str) -> None:
        self._pool = postgresql_pool.Pool(url)
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
            # It locks no rows, and may compute or write a file for long between two statements.
            self.database.execute_sql("SET LOCAL idle_in_transaction_session_timeout = '60s'")
            yield

    def encode_datetime(self, value: datetime) -> datetime:
        return value

    def execute_many(self, build: Callable[[tuple[bool, ...]], str], columns: Columns) -> None:
        for batch in postgresql_pool.split_columns(columns):
            singles = [column.count(column[0]) == len(column) for column in batch]
            if len(batch[0]) > 1:
                # At least one array says how many rows there are.
                singles[-1] = False
            marked = list(zip(singles, batch, strict=True))
            values = [column[0] for is_single, column in marked if is_single]
            arrays = [postgresql_pool.build_array(column) for is_single, column in marked if not is_single]
            self.database.execute_sql(build(tuple(singles)), [*values, *arrays])

    @staticmethod
    def build_rows(columns: Sequence[Column], singles: Sequence[bool]) -> str:
        # The values: first the singles, then the arrays. They are binary (%b): with text, Python would escape
        # each value, which costs ten times as much.
        selected, listed, arrays = [], [], []
        for (name, type_), is_single in zip(columns, singles, strict=True):
            value = f"%b::{_TYPES[type_]}"
            selected.append(f"{value} AS {name}" if is_single else f"listed.{name}")
            if not is_single:
                listed.append(name)
                arrays.append(f"{value}[]")
        rows = f"SELECT {', '.join(selected)}"
        if not arrays:
            return rows
        return f"{rows} FROM unnest({', '.join(arrays)}) AS listed ({', '.join(listed)})"

    @staticmethod
    def build_update(table: str, columns: Sequence[Column], singles: Sequence[bool]) -> str:
        settings = ", ".join(f"{name} = given.{name}" for name, _ in columns[:-1])
        rows = PostgresStore.build_rows(columns, singles)
        return f"UPDATE {table} SET {settings} FROM ({rows}) AS given WHERE {table}.id = given.id"  # noqa: S608

    def encode_list(self, values: Iterable[object]) -> list[object]:
        return list(values)

    def in_list(self, field: peewee.ColumnBase, values: peewee.ColumnBase) -> peewee.Expression:
        return peewee.Expression(field, "=", build_sql("ANY(", values, ")"))

    def in_pairs(self, fields: Pair, lists: Pair, type_: str) -> peewee.Expression:
        columns = peewee.NodeList(fields, glue=", ", parens=True)
        pairs = build_sql("(SELECT * FROM UNNEST(", lists[0], "::bigint[], ", lists[1], f"::{type_}[]))")
        return peewee.Expression(columns, "IN", pairs)

    def contains_any(self, field: peewee.ColumnBase, texts: peewee.ColumnBase) -> peewee.NodeList:
        before, between = "EXISTS (SELECT 1 FROM UNNEST(", "::text[]) AS one(value) WHERE STRPOS("
        return build_sql(before, texts, between, field, ", one.value) > 0)")

    @contextmanager
    def sending_ahead(self) -> Iterator[None]:
        # Errors at the end of the block are those of the driver; the caller knows those of peewee.
        with wrap_errors, self.database.connection().pipeline():
            yield

    def reserve_row_numbers(self, table: type[peewee.Model], count: int) -> list[int] | None:
        sql = "SELECT nextval(%s::regclass) FROM generate_series(1, %s)"
        rows = self.database.execute_sql(sql, (f"{get_table_name(table)}_id_seq", count)).fetchall()
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

    def lock_table(self, table: type[peewee.Model]) -> None:
        self.database.execute_sql(f'lock table "{get_table_name(table)}" in share row exclusive mode')

    def lock_all_tables(self, seconds: float) -> None:
        names = ", ".join(f'"{name}"' for name in sorted({table for table, *_ in self.list_columns()}))
        if not names:
            return
        self.database.execute_sql(f"SET LOCAL statement_timeout = '{seconds * 1000:.0f}ms'")
        try:
            self.database.execute_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
        except peewee.OperationalError as error:
            if isinstance(get_driver_error(error), postgresql_pool.GAVE_WAY):
                raise Busy from None
            raise
        self.database.execute_sql("SET LOCAL statement_timeout = DEFAULT")

    def list_columns(self) -> set[tuple[str, str, bool]]:
        rows = self.database.execute_sql(
            "SELECT c.relname, a.attname, a.attnotnull FROM pg_attribute a"
            " JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'"
            " AND a.attnum > 0 AND NOT a.attisdropped"
        )
        return set(rows.fetchall())

    def hold(self, number: int) -> Hold:
        with wrap_errors:
            return _SessionHold(self._pool, number)

    def is_held(self, number: int) -> bool:
        sql = (
            "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 2 and granted"
            " and database = (select oid from pg_database where datname = current_database())"
            " and classid = %s and objid = %s"
        )
        ((count,),) = self.database.execute_sql(sql, (_HOLDS, number)).fetchall()
        return bool(count)

    def has_long_writer(self, seconds: float) -> bool:
        sql = (
            "select exists (select 1 from pg_stat_activity where datname = current_database()"
            " and backend_xid is not null and xact_start < clock_timestamp() - %s * interval '1 second')"
        )
        ((found,),) = self.database.execute_sql(sql, (seconds,)).fetchall()
        return bool(found)

    def list_locked(self, table: type[peewee.Model], rows: Collection[int]) -> set[tuple[int, str]]:
        # The shared lock of the free rows ends at once.
        name = get_table_name(table)
        sql = (
            f'with free as (select id from "{name}" where id = any(%s) for share skip locked)'  # noqa: S608
            f' select id, xmax::text from "{name}" where id = any(%s) and id not in (select id from free)'
        )
        return set(self.database.execute_sql(sql, (list(rows), list(rows))).fetchall())

    @contextmanager
    def lock_migrations(self, home: Path) -> Iterator[None]:
        self.database.execute_sql("select pg_advisory_lock(%s)", (_MIGRATIONS,))
        try:
            yield
        finally:
            self.database.execute_sql("select pg_advisory_unlock(%s)", (_MIGRATIONS,))

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
            or postgresql_pool.is_unavailable(get_driver_error(error))
        )

    def refuses_writes(self, error: BaseException) -> bool:
        return isinstance(get_driver_error(error), postgresql_pool.REFUSED_WRITES)

    def is_lock_timeout(self, error: BaseException) -> bool:
        return isinstance(get_driver_error(error), postgresql_pool.LOCK_TIMEOUT)

    def give_back_space(self) -> bool:
        return False

    def measure_seconds(self, start: peewee.Field, end: peewee.Field) -> peewee.ColumnBase:
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
