"""Back up and restore a PostgreSQL database with COPY, in one transaction each."""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from graphlib import TopologicalSorter
from pathlib import Path

from psycopg import Cursor, sql

from models.store.backup import other_store, sqlite
from models.store.backup.file import BackupError, Header, Reader, Writer, ignore
from models.store.migrate import SCHEMA_TABLE, list_applied, migrate_in_transaction
from models.store.store import connection, db, store
from runtime import data_folder

# The text of values must not depend on the settings of the server.
_SETTINGS = (
    "set local datestyle = 'ISO, YMD'; set local client_encoding = 'UTF8'; set local extra_float_digits = 1"
)

# Tables with their columns, and the tables that their foreign keys or triggers (decision 0094) refer to.
_TABLES = r"""
select c.oid, c.relname,
  array(select a.attname::text from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
  array(select k.confrelid from pg_constraint k where k.conrelid = c.oid and k.contype = 'f'),
  array(select target.oid from pg_trigger t
    join lateral string_to_array(encode(t.tgargs, 'escape'), '\000') as targets on true
    join pg_class target on target.relname = any(targets) and target.relnamespace = c.relnamespace
    where t.tgrelid = c.oid and t.tgname = 'check_references_of_' || c.relname)
from pg_class c where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
"""
_SEQUENCES = """
select sequencename::text, last_value from pg_sequences
where schemaname = current_schema() and last_value is not null
"""
_ALL_SEQUENCES = "select sequencename::text from pg_sequences where schemaname = current_schema()"
# A process that ran on an earlier database of this name would not know that the restored copy is paused.
_OTHERS = """
select exists (select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
and application_name <> '' and application_name = current_setting('application_name'))
"""
# In the header of a backup.
STORE = "postgresql"


def write_rows(writer: Writer, version: str) -> None:
    """Write all rows of one snapshot."""
    with connection(), store().read_transaction():
        db.execute_sql(_SETTINGS)
        # The snapshot begins with the first query.
        created_at = store().now().isoformat()
        tables = _list_tables()
        migrations = tuple(list_applied()) if SCHEMA_TABLE in tables else ()
        if not migrations:
            raise BackupError("the database is empty: there is nothing to back up")
        writer.write_header(Header(STORE, version, created_at, migrations))
        for table, columns in tables.items():
            if table != SCHEMA_TABLE:
                _write_table(writer, table, columns)
        writer.end_series()
        # Numbers that were taken meanwhile do no harm: they only leave gaps.
        writer.write_json({name: str(value) for name, value in db.execute_sql(_SEQUENCES).fetchall()})


def _write_table(writer: Writer, table: str, columns: list[str]) -> None:
    writer.write_json({"table": table, "columns": columns})
    with _open_cursor() as cursor, cursor.copy(_build_copy(table, columns, "to stdout")) as rows:
        for block in rows:
            writer.write_block(block)
    writer.end_series()


def _open_cursor() -> Cursor[tuple[object, ...]]:
    cursor: Cursor[tuple[object, ...]] = db.connection().cursor()
    return cursor


def _build_copy(table: str, columns: list[str], direction: str) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("copy {} ({}) {}").format(sql.Identifier(table), names, sql.SQL(direction))


def _list_tables() -> dict[str, list[str]]:
    """Return the columns of each table. Each table follows those that its rows refer to."""
    rows = {
        oid: (name, columns, {*by_key, *by_trigger} - {oid})
        for oid, name, columns, by_key, by_trigger in db.execute_sql(_TABLES)
    }
    ordered = TopologicalSorter({oid: needed for oid, (_, _, needed) in rows.items()}).static_order()
    return {rows[oid][0]: rows[oid][1] for oid in ordered}


def require_unused() -> None:
    """Raise BackupError if a table has rows, or if another process of Tocsin is connected."""
    with connection():
        if db.execute_sql(_OTHERS).fetchone()[0]:
            raise BackupError("processes of Tocsin are connected to the database: stop them first")
        for table in _list_tables():
            has_rows = f'select exists (select 1 from "{table}")'  # noqa: S608 - a name from the catalogue
            if table != SCHEMA_TABLE and db.execute_sql(has_rows).fetchone()[0]:
                raise BackupError(
                    f"the database is in use (the table {table} has rows): use an empty database"
                )


@contextmanager
def restore_rows(reader: Reader, home: Path) -> Iterator[None]:
    """Write the rows of a backup, with the schema of this program, in one transaction with the block.

    Processes that start meanwhile wait for its end.
    """
    with connection(), store().lock_migrations(home), store().write_transaction():
        require_unused()
        if later := sorted(set(list_applied()) - set(reader.header.migrations)):
            raise BackupError(
                f"the database has {', '.join(later)}, but the backup is older: use an empty database"
            )
        is_own = reader.header.store == STORE
        migrate_in_transaction(max(reader.header.migrations) if is_own else None)
        db.execute_sql(_SETTINGS)
        # A migration may have written rows; the backup has them.
        tables = {name: columns for name, columns in _list_tables().items() if name != SCHEMA_TABLE}
        db.execute_sql("; ".join(f'delete from "{name}"' for name in reversed(tables)))  # noqa: S608
        if is_own:
            for head in iter(reader.read_json, {}):
                _read_table(reader, str(head["table"]), list(head["columns"]))
            for name, value in reader.read_json().items():
                db.execute_sql("select setval(%s::regclass, %s)", (_quote(name), int(str(value))))
            migrate_in_transaction()
        else:
            _copy_from_sqlite(reader, home, tables)
        yield


def _copy_from_sqlite(reader: Reader, home: Path, tables: Mapping[str, list[str]]) -> None:
    """Write the rows of a backup of SQLite, whose file is in the data folder for this time."""
    # Times of SQLite are in UTC, without an offset.
    db.execute_sql("set local timezone = 'UTC'")
    data_folder.prepare(home)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=home) as draft:
        path = Path(draft, "backup.db")
        # The rows take longer than the file, so progress is that of the rows.
        on_bytes, reader.on_bytes = reader.on_bytes, ignore
        sqlite.write_file(reader, path)
        with closing(sqlite3.connect(path)) as opened:
            bytes_of_row = path.stat().st_size // max(_count_rows(opened, tables), 1)
            for table, columns in tables.items():
                other_store.list_types(opened, table, columns)
                rows = opened.execute(f'select {other_store.quote(columns)} from "{table}"')  # noqa: S608
                with (
                    _open_cursor() as cursor,
                    cursor.copy(_build_copy(table, columns, "from stdin")) as copied,
                ):
                    for row in rows:
                        copied.write_row(row)
                        on_bytes(bytes_of_row)
            taken = dict(opened.execute("select name, seq from sqlite_sequence"))
    for (name,) in db.execute_sql(_ALL_SEQUENCES).fetchall():
        table = name.removesuffix("_id_seq")
        newest = db.execute_sql(f'select max(id) from "{table}"').fetchone()[0] or 0  # noqa: S608
        if last := max(newest, taken.get(table, 0)):
            db.execute_sql("select setval(%s::regclass, %s)", (_quote(name), last))


def _count_rows(opened: sqlite3.Connection, tables: Iterable[str]) -> int:
    counts = (opened.execute(f'select count(*) from "{table}"').fetchone()[0] for table in tables)  # noqa: S608
    return sum(map(int, counts))


def _quote(name: str) -> str:
    return f'"{name}"'


def _read_table(reader: Reader, table: str, columns: list[str]) -> None:
    with _open_cursor() as cursor, cursor.copy(_build_copy(table, columns, "from stdin")) as rows:
        for block in reader.read_series():
            rows.write(block)
