"""Paths into a payload, as people write them: `$.alerts[0].labels["app.name"]`, `a.b[*].c`, `a.0.b`.

A path finds any number of values. `[*]` (or `*`) means each item of a list and each value of an object.
There are no filters, slices or recursive searches.
"""

import json
import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache

from pipeline.rules.conditions.budget import STEPS, Budget, count_items

MAX_PATH_LENGTH = 1_000


class Wildcard(Enum):
    """Each item of a list, each value of an object."""

    EACH = "*"


PathStep = str | int | Wildcard
Path = tuple[PathStep, ...]


class BadPath(ValueError):
    """The text is not a path; the error says what is wrong with it."""


# One step of a path: .name, [3], [-1], [*], ["quoted"], ['quoted'] or, tolerated, [name].
_STEP = re.compile(
    r"""\.?\[\s*(?:
            (?P<number>-?\d{1,9}) | (?P<each>\*)
          | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
          | (?P<bare>[^\]\["'\s?():,@]+)
        )\s*\]
      | \.?(?P<name>[^.\[\]]+)""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)")


@lru_cache(maxsize=4096)
def parse(text: str) -> Path:
    """Return the steps of a path; `$` and a leading dot are optional. Raises BadPath."""
    if len(text) > MAX_PATH_LENGTH:
        raise BadPath(f"a path may have {MAX_PATH_LENGTH} characters")
    rest = text.strip()
    if rest == "$" or rest.startswith(("$.", "$[")):
        rest = rest[1:]
    return tuple(_parse_steps(rest, text))


def _parse_steps(rest: str, text: str) -> Iterator[PathStep]:
    position = 0
    while position < len(rest):
        step = _STEP.match(rest, position)
        # Only the first name can have no dot before it.
        if step is None or (position and step["name"] is not None and rest[position] != "."):
            raise BadPath(f"{text[:100]!r} is not a path: look at {rest[position : position + 20]!r}")
        position = step.end()
        yield _parse_step(step)


def _parse_step(step: re.Match[str]) -> PathStep:
    if step["number"] is not None:
        return int(step["number"])
    if step["each"] is not None or step["name"] == "*":
        return Wildcard.EACH
    quoted = step["double"] if step["double"] is not None else step["single"]
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted)
    return step["bare"] or step["name"]


def find(value: object, path: Path, budget: Budget) -> list[object]:
    """Return every value at the path, in the order of the payload. Raises BudgetExceeded."""
    found = [value]
    for key in path:
        visited = len(found)
        if key is Wildcard.EACH:
            visited += sum(len(outer) for outer in found if isinstance(outer, dict | list))
        budget.spend(STEPS, visited)
        if visited == 1 and type(key) is str and type(found[0]) is dict:
            # Most steps are a name in one object.
            found = [found[0][key]] if key in found[0] else []
        else:
            found = [inner for outer in found for inner in _select(outer, key)]
    return found


def _select(value: object, key: PathStep) -> Iterator[object]:
    if isinstance(value, dict):
        if key is Wildcard.EACH:
            yield from value.values()
        elif str(key) in value:
            yield value[str(key)]
    elif isinstance(value, list):
        yield from _select_items(value, key)


def _select_items(value: list[object], key: PathStep) -> Iterator[object]:
    if key is Wildcard.EACH:
        yield from value
        return
    # "0" as in a.0.b, but not the other spellings of digits that Python accepts.
    if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 10:
        key = int(key)
    if isinstance(key, int) and -len(value) <= key < len(value):
        yield value[key]


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_text(value: object) -> str:
    """Return a value as text, as people compare and read it: null and empty values are "", true is "true".

    Lists and objects become JSON.
    """
    if isinstance(value, str):
        return value
    if value is None or value == [] or value == {}:
        return ""
    return _encode(value)


def to_text_within(value: object, budget: Budget) -> str:
    """Return a value as text, as `to_text`. Raises BudgetExceeded."""
    if not isinstance(value, str):
        # Measured: some microseconds for each value that is not a text.
        budget.spend(STEPS, 10 + 2 * count_items(value, budget.get_left(STEPS)))
    return to_text(value)
