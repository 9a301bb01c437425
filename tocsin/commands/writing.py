"""Open the database for commands that write."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from models.changes.differences import Values, compare
from models.changes.record import Actor, ChangedObject, Content, add_change
from models.domain.effects import Author
from models.domain.enums import AuthorKind, Way
from models.store.ids import make_short_id
from models.store.migrate import require_schema
from models.store.opening import open_store
from models.store.store import connection, store
from runtime import metrics
from runtime.settings import Settings, load
from tocsin.commands.read_only import configure_logs, require_data

# Who does what a command does, in the history.
COMMAND = Actor("command line", Way.COMMAND)


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


def record_change(
    account: int,
    changed: ChangedObject,
    action: str,
    before: Values,
    after: Values,
    removed: str | None = None,
) -> None:
    """Record that this command changed an object, in the history of its account. Needs a write transaction.

    `before` and `after` are values of fields as the interface shows them. Addresses are not kept.
    """
    differences = compare(before, after, ("email",))
    if differences:
        content = Content(action, differences, removed)
        add_change(account, store().now(), COMMAND, changed, content, make_short_id())


def build_author() -> Author:
    """Return this command as the author of changes."""
    return Author(AuthorKind.COMMAND, f"command on {socket.gethostname()}")
