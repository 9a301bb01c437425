"""What the interface shows of objects, to compare before a change and after its undo."""

from typing import Any

# What an undo changes: nobody else has seen the object in this version.
VERSIONED = {"last_edited", "updated_at"}


def read_history(ask: Any, paths: list[str]) -> list[object]:
    """Return what the interface answers at these paths, without the times of the last change."""
    return [_strip(ask("GET", path).json) for path in paths]


def _strip(value: object) -> object:
    if isinstance(value, list):
        return [_strip(each) for each in value]
    if isinstance(value, dict):
        return {name: _strip(each) for name, each in value.items() if name not in VERSIONED}
    return value
