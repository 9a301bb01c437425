"""What commands print, aligned, of names that somebody chose; and the same for machines."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

# Of longer names a terminal shows the beginning.
LONGEST_NAME = 40


def plain(text: str) -> str:
    """Names are what somebody chose: without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def short(text: str, longest: int = LONGEST_NAME) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with their columns below each other."""
    rows = [tuple(map(plain, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def as_json_text(told: Any) -> str:
    """For machines: moments as the interface tells them, in letters that steer no terminal either."""
    return json.dumps(told, indent=2, default=_as_json)


def _as_json(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
