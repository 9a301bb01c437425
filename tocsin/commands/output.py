"""What commands print, aligned, of names that somebody chose; and the same for machines."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

# Of longer names a terminal shows the beginning.
MAX_NAME = 40


def to_printable(text: str) -> str:
    """Names are what somebody chose: without what would steer a terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def shorten(text: str, max_length: int = MAX_NAME) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def format_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with their columns below each other."""
    rows = [tuple(map(to_printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def to_json(data: Any) -> str:
    """For machines: moments as the interface tells them, in letters that steer no terminal either."""
    return json.dumps(data, indent=2, default=_encode_value)


def _encode_value(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
