"""Hold the locks that other processes and programs can hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.store.write_lock import LockFile


@contextmanager
def hold_write_lock(home: Path) -> Iterator[None]:
    """Hold the lock of SQLite's writers in the block, as another process does."""
    lock = LockFile(home / "write.lock")
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()
