"""Back up and restore the open store, SQLite or PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.store.backup import file, other_store, postgresql, sqlite
from models.store.backup.file import Header
from models.store.migrate import SchemaUnknown, list_unknown


def back_up(path: Path, database_url: str, home: Path, version: str) -> None:
    """Write all committed rows into a new file. Needs an open store on PostgreSQL."""
    with file.create(path) as writer:
        if database_url:
            postgresql.write_rows(writer, version)
        else:
            sqlite.write_rows(writer, home, path.parent, version)


@contextmanager
def restore(path: Path, database_url: str, home: Path) -> Iterator[Header]:
    """Restore a backup of either store into an unused data folder or database. The block can change its rows.

    Other processes see the rows at the end of the block.

    Nothing is changed if the backup or the target cannot be used: BackupError or SchemaUnknown. Needs an open
    store on PostgreSQL, and opens it on SQLite.
    """
    store_name = "postgresql" if database_url else "sqlite"
    with file.open_backup(path) as reader:
        header = reader.header
        if unknown := list_unknown(header.migrations):
            raise SchemaUnknown(
                f"this program does not know {', '.join(unknown)}, which the backup has:"
                f" restore it with Tocsin {header.version} or later"
            )
        if header.store != store_name:
            other_store.require_same_schema(header.migrations, header.version)
        restored = (
            postgresql.restore_rows(reader, home) if database_url else sqlite.restore_rows(reader, home)
        )
        with restored:
            yield header
