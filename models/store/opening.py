"""Open the store that the settings name."""

from pathlib import Path

from models.store.sqlite import SQLITE_FILE, SqliteStore
from models.store.store import Store, close_store, set_store
from runtime import data_folder


def open_store(url: str, home: Path) -> Store:
    """Bind the tables to a store; an empty url means the SQLite file in the data folder.

    Another store that was open is closed first, see close_store().
    Does not connect: connection() does that per request or message, after any fork. Raises
    store.BadUrl, or BadSetting if others can read the folder of a SQLite file.
    """
    close_store()
    opened: Store
    if url:
        from models.store.postgresql import PostgresStore

        opened = PostgresStore(url)
    else:
        data_folder.prepare(home)
        opened = SqliteStore(home / SQLITE_FILE)
    set_store(opened)
    return opened
