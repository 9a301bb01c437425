"""Back up and restore a SQLite file, by SQLite's online backup: other processes continue to write."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from models.store.backup import other_store
from models.store.backup.file import BLOCK_SIZE, BackupError, Header, Reader, Writer, publish
from models.store.migrate import migrate
from models.store.opening import open_store
from models.store.sqlite import SQLITE_FILE
from models.store.store import connection, db
from runtime import data_folder

# In the header of a backup.
STORE = "sqlite"


def write_rows(writer: Writer, home: Path, folder: Path, version: str) -> None:
    """Write all rows as they are now. `folder` gets a copy of the database for this time."""
    if not (home / SQLITE_FILE).is_file():
        raise BackupError(f"no database in {home}: see TOCSIN_HOME")
    with tempfile.TemporaryDirectory(prefix=".tocsin-", dir=folder) as draft:
        created_at = datetime.now(UTC).isoformat()
        pages = Path(draft, SQLITE_FILE)
        _copy_pages(home / SQLITE_FILE, pages)
        with closing(sqlite3.connect(pages)) as copied:
            migrations = _read_migrations(copied)
        writer.write_header(Header(STORE, version, created_at, migrations))
        with pages.open("rb") as file:
            while block := file.read(BLOCK_SIZE):
                writer.write_block(block)
        writer.end_series()


def _copy_pages(source: Path, target: Path) -> None:
    """Copy the file in one step, as it is at its start. Readers and writers continue."""
    uri = f"{source.as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True)) as opened, closing(sqlite3.connect(target)) as copied:
        # The copy is read once and deleted, so that it need not reach the disk.
        copied.execute("PRAGMA synchronous = OFF")
        opened.backup(copied)


def _read_migrations(copied: sqlite3.Connection) -> tuple[str, ...]:
    tables = copied.execute("select name from sqlite_master where name = 'schema_migration'").fetchall()
    rows = copied.execute("select name from schema_migration order by name").fetchall() if tables else []
    if not rows:
        raise BackupError("the database is empty: there is nothing to back up")
    return tuple(name for (name,) in rows)


def require_unused(home: Path) -> None:
    """Raise BackupError if a data folder has a database or credentials."""
    used = sorted(path.name for name in (f"{SQLITE_FILE}*", "credentials.json") for path in home.glob(name))
    if used:
        raise BackupError(f"{home} is in use (it has {', '.join(used)}): restore into a new data folder")


# The name of a folder with a restore that has not ended. A data folder may have files with such names.
_DRAFT = ".restore-"


@contextmanager
def restore_rows(reader: Reader, home: Path) -> Iterator[None]:
    """Open a store with the rows of a backup and the schema of this program.

    The data folder gets its database at the end of the block, complete or not at all.
    """
    require_unused(home)
    data_folder.prepare(home)
    for killed in home.glob(f"{_DRAFT}*"):
        shutil.rmtree(killed)
    with tempfile.TemporaryDirectory(prefix=_DRAFT, dir=home) as draft:
        if reader.header.store == STORE:
            write_file(reader, Path(draft, SQLITE_FILE))
        open_store("", Path(draft))
        try:
            migrate(Path(draft))
            with connection():
                if reader.header.store != STORE:
                    _insert_rows(reader, db.connection())
                yield
        finally:
            # The last connection writes everything into the file.
            db.close_all()
        _move(Path(draft, SQLITE_FILE), home)
    open_store("", home)


def write_file(reader: Reader, path: Path) -> None:
    """Write the database file that a backup of SQLite has."""
    with path.open("wb") as file:
        for block in reader.read_series():
            file.write(block)


def _insert_rows(reader: Reader, opened: sqlite3.Connection) -> None:
    """Write the rows of a backup of PostgreSQL into a database of the same schema, in one transaction."""
    opened.execute("begin immediate")
    # A row can refer to a later one of the same table.
    opened.execute("pragma defer_foreign_keys = on")
    for head in iter(reader.read_json, {}):
        table, columns = str(head["table"]), list(head["columns"])
        types = other_store.list_types(opened, table, columns)
        # A migration may have written rows; the backup has them.
        opened.execute(f'delete from "{table}"')  # noqa: S608 - a name of a table that exists
        insert = (
            f'insert into "{table}" ({other_store.quote(columns)}) values ({", ".join("?" * len(columns))})'  # noqa: S608
        )
        rows = other_store.read_copied(reader.read_series(), types)
        while batch := list(islice(rows, other_store.BATCH)):
            opened.executemany(insert, batch)
    for name, value in reader.read_json().items():
        # Only tables whose numbers are never used twice have a row there.
        of_table = (int(str(value)), name.removesuffix("_id_seq"))
        opened.execute("update sqlite_sequence set seq = ? where name = ?", of_table)
    opened.execute("commit")


def _move(complete: Path, home: Path) -> None:
    with complete.open("rb+") as file:
        os.fsync(file.fileno())
    try:
        publish(complete, home / SQLITE_FILE)
    except FileExistsError:
        raise BackupError(f"{home} is in use: another process created a database") from None
