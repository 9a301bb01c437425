"""Give a connection to the database back while a provider is asked."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.store.store import db


@contextmanager
def release_connection() -> Iterator[None]:
    """Let other threads use the connection to the database: a provider that hangs must not hold it."""
    if db.in_transaction():
        yield
        return
    db.close()
    try:
        yield
    finally:
        db.connect(reuse_if_open=True)
