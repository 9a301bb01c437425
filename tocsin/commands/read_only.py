"""Open the database for commands. Those that only read neither create nor change it.

Their exit codes are listed in docs/commands.md.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import click

from models.store.migrate import SchemaOutdated, SchemaUnknown, require_schema
from models.store.opening import open_store
from models.store.sqlite import SQLITE_FILE
from models.store.store import STORE_ERRORS, BadUrl, connection
from runtime.late_logs import configure_later
from runtime.settings import Settings, load
from tocsin.commands.output import to_printable

PROBLEMS_FOUND, BAD_REQUEST, UNAVAILABLE, TRUNCATED = 1, 2, 3, 4


class BadArguments(click.ClickException):
    """The arguments are invalid; the command has not read anything."""

    exit_code = BAD_REQUEST

    def format_message(self) -> str:
        return to_printable(self.message)


class NoResult(click.ClickException):
    """The database could not be read, so the command has no result."""

    exit_code = UNAVAILABLE

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"tocsin: {to_printable(self.message)}", err=True)


class NoData(click.ClickException):
    """The data folder has no data, so a command that writes has changed nothing."""

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"tocsin: {to_printable(self.message)}", err=True)


def find_missing_data(settings: Settings) -> str | None:
    """Return what to do if the data folder has no data; None if it has. Opening a missing SQLite file would
    create it."""
    if settings.database_url or (settings.home / SQLITE_FILE).is_file():
        return None
    return f"no data of Tocsin in {settings.home}: choose the data folder with --home or TOCSIN_HOME"


def require_data(settings: Settings) -> None:
    """Raise NoData if the data folder of a command that writes has no data. Create nothing."""
    if text := find_missing_data(settings):
        raise NoData(text)


def configure_logs() -> None:
    """Show only errors: a command prints its findings itself, and other lines must not mix with them.

    This does not load structlog, see runtime/late_logs.py, unless something has loaded it already.
    """
    if (structlog := sys.modules.get("structlog")) and not structlog.is_configured():
        importlib.import_module("runtime.logs").configure("error", "command")
    configure_later("error", "command")


@contextmanager
def open_read_only() -> Iterator[Settings]:
    """Open the database of the settings for reading and return the settings.

    Raise NoResult for every error inside, unless the error has an exit code of its own.
    """
    settings = load()
    configure_logs()
    try:
        if text := find_missing_data(settings):
            raise NoResult(text)
        open_store(settings.database_url, settings.home)
        with connection():
            require_schema()
            yield settings
    except (click.ClickException, click.exceptions.Exit, BadUrl):
        raise
    except (*STORE_ERRORS, OSError, SchemaOutdated, SchemaUnknown) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise NoResult(first[0]) from None
    except Exception as error:
        # An error in our code must not look like a result: Python's exit code 1 means "problems found".
        traceback.print_exc()
        raise NoResult(f"the command failed: {type(error).__name__}") from None
