"""The database for commands that only look: it is neither made nor changed.

Their exit codes stand in docs/operating.md.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from models.base import SQLITE_FILE, STORE_ERRORS, connection, open_store
from models.migrate import SchemaBehind, require_schema
from models.postgresql import BadUrl
from tocsin.settings import Settings, load
from tocsin.table import plain

FOUND, UNUSABLE, COULD_NOT_LOOK, CUT_OFF = 1, 2, 3, 4


class Unusable(click.ClickException):
    """What was asked cannot be used; nobody has looked."""

    exit_code = UNUSABLE

    def format_message(self) -> str:
        return plain(self.message)


class CouldNotLook(click.ClickException):
    """Nobody could look: nothing is known of what was asked."""

    exit_code = COULD_NOT_LOOK

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"tocsin: {plain(self.message)}", err=True)


@contextmanager
def reading() -> Iterator[Settings]:
    """The settings and, while this lasts, their database. Raises CouldNotLook for whatever goes wrong
    meanwhile, unless that has an exit code of its own."""
    settings = load()
    try:
        # To open it would make it.
        if not settings.database_url and not (settings.home / SQLITE_FILE).is_file():
            raise CouldNotLook(f"no database in {settings.home}: see TOCSIN_HOME")
        open_store(settings.database_url, settings.home)
        with connection():
            require_schema()
            yield settings
    except (click.ClickException, click.exceptions.Exit, BadUrl):
        raise
    except (*STORE_ERRORS, OSError, SchemaBehind) as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise CouldNotLook(first[0]) from None
    except Exception as error:
        # A mistake of our own must not be taken for an answer.
        traceback.print_exc()
        raise CouldNotLook(f"it failed: {type(error).__name__}") from None
