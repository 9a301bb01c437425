"""Back up and restore the open store, SQLite or PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.store.backup import file, other_store, sqlite
from models.store.backup.file import Header, OnBytes, ignore
from models.store.migrate import SchemaUnknown, list_unknown


def back_up(path: Path, database_url: str, home: Path, version: str, on_bytes: OnBytes = ignore) -> None:
    """Write all committed rows into a new file. Needs an open store on PostgreSQL.

    `on_bytes` gets the number of bytes that were written, again and again.
    """
    with file.create(path, on_bytes) as writer:
        if database_url:
            from models.store.backup import postgresql

            postgresql.write_rows(writer, version)
        else:
            sqlite.write_rows(writer, home, path.parent, version)


@contextmanager
def restore(path: Path, database_url: str, home: Path, on_bytes: OnBytes = ignore) -> Iterator[Header]:
    """Restore a backup of either store into an unused data folder or database. The block can change its rows.

    Other processes see the rows at the end of the block. `on_bytes` gets the number of bytes of the backup
    that were restored, again and again.

    Nothing is changed if the backup or the target cannot be used: BackupError or SchemaUnknown. Needs an open
    store on PostgreSQL, and opens it on SQLite.
    """
    store_name = "postgresql" if database_url else "sqlite"
    with file.open_backup(path, on_bytes) as reader:
        header = reader.header
        if unknown := list_unknown(header.migrations):
            raise SchemaUnknown(
                f"this program does not know {', '.join(unknown)}, which the backup has:"
                f" restore it with Tocsin {header.version} or later"
            )
        if header.store != store_name:
            other_store.require_same_schema(header.migrations, header.version)
        if database_url:
            from models.store.backup import postgresql

            restored = postgresql.restore_rows(reader, home)
        else:
            restored = sqlite.restore_rows(reader, home)
        with restored:
            yield header
