"""The database for commands that only look: it is neither made nor changed.

Their exit codes stand in docs/operating.md.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from models.store.base import SQLITE_FILE, STORE_ERRORS, connection, open_store
from models.store.migrate import SchemaOutdated, SchemaUnknown, require_schema
from models.store.postgresql import BadUrl
from runtime.settings import Settings, load
from tocsin.commands.output import to_printable

PROBLEMS_FOUND, BAD_REQUEST, UNAVAILABLE, TRUNCATED = 1, 2, 3, 4


class BadRequest(click.ClickException):
    """What was asked cannot be used; nobody has looked."""

    exit_code = BAD_REQUEST

    def format_message(self) -> str:
        return to_printable(self.message)


class Unavailable(click.ClickException):
    """Nobody could look: nothing is known of what was asked."""

    exit_code = UNAVAILABLE

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"tocsin: {to_printable(self.message)}", err=True)


@contextmanager
def open_read_only() -> Iterator[Settings]:
    """The settings and, while this lasts, their database. Raises CouldNotLook for whatever goes wrong
    meanwhile, unless that has an exit code of its own."""
    settings = load()
    try:
        # To open it would make it.
        if not settings.database_url and not (settings.home / SQLITE_FILE).is_file():
            raise Unavailable(f"no database in {settings.home}: see TOCSIN_HOME")
        open_store(settings.database_url, settings.home)
        with connection():
            require_schema()
            yield settings
    except (click.ClickException, click.exceptions.Exit, BadUrl):
        raise
    except (*STORE_ERRORS, OSError, SchemaOutdated, SchemaUnknown) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise Unavailable(first[0]) from None
    except Exception as error:
        # A mistake of our own must not be taken for an answer.
        traceback.print_exc()
        raise Unavailable(f"it failed: {type(error).__name__}") from None
