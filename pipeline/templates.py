"""Text with `{{...}}` in it, filled from an alert. Placeholders are paths and nothing else: never code."""

import re
from collections.abc import Mapping
from typing import Any

from pipeline import paths

# Room for the longest text that an alert may hold; whoever stores the result cuts it to its own limit.
LONGEST_RESULT = 32 * 1024
# A placeholder with [*] may walk the whole payload; so many of them fill any sensible message.
MOST_PLACEHOLDERS = 200

_PLACEHOLDER = re.compile(r"\{\{([^{}]{0,1000})\}\}")


def render(template: str, subject: Mapping[str, Any]) -> str:
    """The template with each placeholder replaced by what it names; what is missing is empty.

    Names are those of `conditions.subject_of`, with or without `alert.` before them. Several values
    are joined with ", ". Text that was filled in is not looked at again. The result is cut at
    LONGEST_RESULT; placeholders beyond MOST_PLACEHOLDERS are empty.
    """
    parts: list[str] = []
    room, done = LONGEST_RESULT, 0
    for number, hole in enumerate(_PLACEHOLDER.finditer(template)):
        filling = _filling(hole[1], subject) if number < MOST_PLACEHOLDERS else ""
        for part in (template[done : hole.start()], filling):
            parts.append(part[:room])
            room -= len(parts[-1])
        done = hole.end()
        if not room:
            break
    parts.append(template[done:][:room])
    return "".join(parts)


def _filling(name: str, subject: Mapping[str, Any]) -> str:
    try:
        path = paths.parse(name)
    except paths.BadPath:
        return ""
    if not path:
        return ""
    return ", ".join(paths.text_of(value) for value in paths.find(subject, path))
