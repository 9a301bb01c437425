"""Paths into a payload, as people write them: `$.alerts[0].labels["app.name"]`, `a.b[*].c`, `a.0.b`.

A path finds any number of values: `[*]` (or `*`) stands for each item of a list and each value of an
object. It only ever reads; there are no filters, slices or searches in depth.
"""

import json
import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Any

LONGEST_PATH = 1_000


class Wild(Enum):
    """Each item of a list, each value of an object."""

    EACH = "*"


Segment = str | int | Wild
Path = tuple[Segment, ...]


class BadPath(ValueError):
    """Text that is no path; says what is wrong with it."""


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
    """The steps of a path; `$` and a leading dot may be left out. Raises BadPath."""
    if len(text) > LONGEST_PATH:
        raise BadPath(f"a path may have {LONGEST_PATH} characters")
    rest = text.strip()
    if rest == "$" or rest.startswith(("$.", "$[")):
        rest = rest[1:]
    return tuple(_steps(rest, text))


def _steps(rest: str, text: str) -> Iterator[Segment]:
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        # Only the first name may stand without a dot before it.
        if step is None or (at and step["name"] is not None and rest[at] != "."):
            raise BadPath(f"{text[:100]!r} is no path: look at {rest[at : at + 20]!r}")
        at = step.end()
        yield _segment(step)


def _segment(step: re.Match[str]) -> Segment:
    if step["number"] is not None:
        return int(step["number"])
    if step["each"] is not None or step["name"] == "*":
        return Wild.EACH
    quoted = step["double"] if step["double"] is not None else step["single"]
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted)
    return step["bare"] or step["name"]


def find(value: Any, path: Path) -> list[Any]:
    """Every value at the path, in the order of the payload; none where a step leads nowhere."""
    found = [value]
    for segment in path:
        found = [inner for outer in found for inner in _inside(outer, segment)]
    return found


def _inside(value: Any, segment: Segment) -> Iterator[Any]:
    if isinstance(value, dict):
        if segment is Wild.EACH:
            yield from value.values()
        elif str(segment) in value:
            yield value[str(segment)]
    elif isinstance(value, list):
        yield from _items(value, segment)


def _items(value: list[Any], segment: Segment) -> Iterator[Any]:
    if segment is Wild.EACH:
        yield from value
        return
    # "0" as in a.0.b, but no other spelling of digits that Python knows.
    if isinstance(segment, str) and segment.isascii() and segment.isdigit() and len(segment) < 10:
        segment = int(segment)
    if isinstance(segment, int) and -len(value) <= segment < len(value):
        yield value[segment]


def text_of(value: Any) -> str:
    """A value as people compare and read it: null and empty things are "", true is "true", 5 is "5".

    Lists and objects are their JSON.
    """
    if isinstance(value, str):
        return value
    if value is None or value == [] or value == {}:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
