"""Rows of one store for the other: the text of PostgreSQL's COPY, and the values of SQLite.

Both stores have the same tables and columns. A time is text in UTC on SQLite, and a truth value is a number.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from models.store.backup.file import BackupError
from models.store.migrate import list_names

Value = str | int | bytes | None

# Rows that are written into SQLite at once.
BATCH = 5_000

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NULL = r"\N"


def require_same_schema(migrations: Sequence[str], version: str) -> None:
    """Raise BackupError if a backup of the other store is not of the schema of this program."""
    if missing := sorted(set(list_names()) - set(migrations)):
        raise BackupError(
            f"the backup (Tocsin {version}) is of another store and has not {', '.join(missing)}:"
            " restore it into its own store, run `tocsin migrate` there, and write another backup"
        )


def read_copied(blocks: Iterable[bytes], types: Sequence[str]) -> Iterator[list[Value]]:
    """Yield the rows in the text of a COPY as values of SQLite. `types` are those of SQLite's columns."""
    convert = [_CONVERSIONS.get(each, _unescape) for each in types]
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            cells = line.decode().split("\t")
            yield [
                None if cell == _NULL else change(cell) for cell, change in zip(cells, convert, strict=True)
            ]


def _unescape(cell: str) -> str:
    return _ESCAPED.sub(lambda found: _CONTROL.get(found[1], found[1]), cell) if "\\" in cell else cell


def _read_number(cell: str) -> int:
    return {"t": 1, "f": 0}[cell] if cell in ("t", "f") else int(cell)


def _read_time(cell: str) -> str:
    """Return a time as SqliteStore.encode_datetime() does."""
    at = datetime.fromisoformat(cell).astimezone(UTC)
    return at.replace(tzinfo=None).isoformat(" ", "microseconds")


def _read_bytes(cell: str) -> bytes:
    return bytes.fromhex(_unescape(cell).removeprefix(r"\x"))


_CONVERSIONS: dict[str, Callable[[str], Value]] = {
    "INTEGER": _read_number,
    "TIMESTAMPTZ": _read_time,
    "BLOB": _read_bytes,
}


def list_types(opened: sqlite3.Connection, table: str, columns: Sequence[str]) -> list[str]:
    """Return the types of these columns of a SQLite table. Raise BackupError if one is missing."""
    types = {name: declared for _, name, declared, *_ in opened.execute(f'pragma table_info("{table}")')}
    if missing := sorted(set(columns) - set(types)):
        raise BackupError(f"the table {table} has no columns {', '.join(missing)} here")
    return [types[name] for name in columns]


def quote(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
