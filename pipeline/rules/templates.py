"""Text with `{{...}}` in it, filled from an alert. Placeholders are paths and nothing else: never code."""

import re
from collections.abc import Mapping
from typing import Any

from pipeline.rules.conditions import paths

# Room for the longest text that an alert may hold; whoever stores the result cuts it to its own limit.
MAX_RESULT_LENGTH = 32 * 1024
# A placeholder with [*] may walk the whole payload; so many of them fill any sensible message.
MAX_PLACEHOLDERS = 200

_PLACEHOLDER = re.compile(r"\{\{([^{}]{0,1000})\}\}")


def render(template: str, subject: Mapping[str, Any]) -> str:
    """The template with each placeholder replaced by what it names; what is missing is empty.

    Names are those of `conditions.subject_of`, with or without `alert.` before them. Several values
    are joined with ", ". Text that was filled in is not looked at again. The result is cut at
    LONGEST_RESULT; placeholders beyond MOST_PLACEHOLDERS are empty.
    """
    parts: list[str] = []
    remaining, position = MAX_RESULT_LENGTH, 0
    for number, placeholder in enumerate(_PLACEHOLDER.finditer(template)):
        value = _resolve(placeholder[1], subject) if number < MAX_PLACEHOLDERS else ""
        for part in (template[position : placeholder.start()], value):
            parts.append(part[:remaining])
            remaining -= len(parts[-1])
        position = placeholder.end()
        if not remaining:
            break
    parts.append(template[position:][:remaining])
    return "".join(parts)


def _resolve(name: str, subject: Mapping[str, Any]) -> str:
    try:
        path = paths.parse(name)
    except paths.BadPath:
        return ""
    if not path:
        return ""
    return ", ".join(paths.to_text(value) for value in paths.find(subject, path))
