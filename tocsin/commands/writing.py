"""Open the database for commands that write."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from models.domain.effects import Author
from models.domain.enums import AuthorKind
from models.store.migrate import require_schema
from models.store.opening import open_store
from models.store.store import connection, store
from runtime import metrics
from runtime.settings import Settings, load
from tocsin.commands.read_only import configure_logs, require_data

# Who does what a command does, in the audit list.
COMMAND = "command line"


@contextmanager
def open_for_writing() -> Iterator[Settings]:
    """Open the database of the settings and return the settings. Raise NoData if there is none."""
    settings = load()
    configure_logs()
    require_data(settings)
    open_store(settings.database_url, settings.home)
    require_schema()
    # The metrics of a command are not shown: it ends before anybody could ask for them.
    with connection(), metrics.counters.off():
        yield settings


@contextmanager
def write_transaction() -> Iterator[Settings]:
    """Do the same, and open a write transaction."""
    with open_for_writing() as settings, store().write_transaction():
        yield settings


def build_author() -> Author:
    """Return this command as the author of changes."""
    return Author(AuthorKind.COMMAND, f"command on {socket.gethostname()}")
