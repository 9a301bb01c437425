"""What commands print, aligned, of names that somebody chose."""

from collections.abc import Sequence


def plain(text: str) -> str:
    """Names are what somebody chose: without what would steer a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with their columns below each other."""
    rows = [tuple(map(plain, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
