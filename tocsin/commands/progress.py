"""Show on a terminal how far a long command has come. Scripts see nothing of it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

# How often a terminal shows the bytes so far.
EVERY_S = 0.2


@contextmanager
def show_bytes(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of bytes that were just done.

    If standard error is a terminal, it shows a bar or, without a total, the bytes so far.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
    elif total is None:
        yield _Counter(label).add
        click.echo(err=True)
    else:
        with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
            yield bar.update


def show_step(name: str) -> None:
    """Show on a terminal that a step begins."""
    if sys.stderr.isatty():
        click.echo(f"applying {name} ...", err=True)


class _Counter:
    """Shows the bytes so far in one line."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bytes = 0
        self._shown_at = 0.0

    def add(self, count: int) -> None:
        self._bytes += count
        if time.monotonic() >= self._shown_at + EVERY_S:
            self._shown_at = time.monotonic()
            click.echo(f"\r{self._label}  {self._bytes / 1e6:,.0f} MB", nl=False, err=True)
