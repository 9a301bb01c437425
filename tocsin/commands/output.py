"""Format the output of commands: aligned tables, printable names, JSON."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

# Characters of a name that a terminal shows; longer names are shortened.
MAX_NAME = 40


def to_printable(text: str) -> str:
    """Replace all control characters: users choose names, and a name must not control the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def shorten(text: str, max_length: int = MAX_NAME) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def format_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the rows as lines with aligned columns."""
    rows = [tuple(map(to_printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def to_json(data: object) -> str:
    """Return JSON with times as in the interface. It is ASCII, so it cannot control a terminal either."""
    return json.dumps(data, indent=2, default=_encode_value)


def _encode_value(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
