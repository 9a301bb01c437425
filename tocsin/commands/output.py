"""Format the output of commands: tables that fit the terminal, printable names, colour, JSON.

All JSON has one form: one object, in which a list is `results`, and times as in the interface.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import click

# Characters of a name that a terminal shows; longer names are shortened.
MAX_NAME = 40
# A column of a table is not made narrower than this to fit the terminal.
MIN_COLUMN = 10
SEPARATOR = "  "

# The words of tables that have a colour.
COLOURS = {
    "triggered": "red",
    "acknowledged": "yellow",
    "resolved": "green",
    "critical": "red",
    "error": "red",
    "warning": "yellow",
    "reached nobody": "red",
    "NOBODY": "red",
}


def choose_colour() -> bool | None:
    """Return False if the person wants no colour (https://no-color.org); None: the terminal decides."""
    return False if os.environ.get("NO_COLOR") else None


def to_printable(text: str) -> str:
    """Replace all control characters: users choose names, and a name must not control the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def shorten(text: str, max_length: int = MAX_NAME) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def format_table(
    rows: Sequence[Sequence[str]],
    headings: Sequence[str] = (),
    width: int | None = None,
    *,
    has_colour: bool = False,
) -> list[str]:
    """Return the rows as lines with aligned columns, below their headings.

    `width` is that of the terminal: the widest columns are shortened until the lines fit. None: no limit.
    `has_colour`: with the codes for colours, which click.echo() removes if no terminal shows them.
    """
    if not rows and not headings:
        return []
    cells = [[to_printable(cell) for cell in row] for row in ([headings] if headings else []) + list(rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        widths = _fit(widths, width)
    lines = []
    for place, row in enumerate(cells):
        padded = [f"{shorten(cell, size):{size}}" for cell, size in zip(row, widths, strict=True)]
        padded[-1] = padded[-1].rstrip()
        if has_colour:
            is_heading = bool(headings) and place == 0
            padded = [_colour(cell, is_heading=is_heading) for cell in padded]
        lines.append(SEPARATOR.join(padded).rstrip())
    return lines


def _fit(widths: list[int], total: int) -> list[int]:
    """Return the widths of columns that fit: the widest become narrower first, down to MIN_COLUMN."""
    excess = sum(widths) + len(SEPARATOR) * (len(widths) - 1) - total
    fitting = list(widths)
    while excess > 0:
        widest = max(fitting)
        if widest <= MIN_COLUMN:
            break
        fitting[fitting.index(widest)] -= 1
        excess -= 1
    return fitting


def _colour(cell: str, *, is_heading: bool) -> str:
    if is_heading:
        return click.style(cell, bold=True) if cell.strip() else cell
    colour = COLOURS.get(cell.strip())
    return click.style(cell, fg=colour) if colour else cell


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """Print a table that fits the terminal; `nothing` is the text if it has no rows."""
    if not rows:
        click.echo(nothing)
    for text in format_table(rows, headings, get_width(), has_colour=True) if rows else ():
        click.echo(text)


def get_width() -> int | None:
    """Return the width of the terminal; None: a file or a program reads the output."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(data: Mapping[str, object]) -> None:
    click.echo(to_json(data))


def print_json_list(rows: Iterable[object], **more: object) -> None:
    print_json({"results": list(rows), **more})


def print_result(result: Mapping[str, object], as_json: bool, text: str | None = None) -> None:
    """Print what a command did: as JSON, as this text, or else each value with its name."""
    if as_json:
        print_json(result)
        return
    width = max(12, *map(len, result))
    lines = [f"{name:{width}} {value}" for name, value in result.items()] if text is None else [text]
    for line in lines:
        click.echo(to_printable(line))


def to_json(data: object) -> str:
    """Return JSON with times as in the interface. It is ASCII, so it cannot control a terminal either."""
    return json.dumps(data, indent=2, default=_encode_value)


def _encode_value(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
