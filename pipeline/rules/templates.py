"""Replace the placeholders `{{...}}` in a text by values of an alert. A placeholder is a path, never code."""

import re
from collections.abc import Mapping

from pipeline.rules.conditions import Budget, Work, paths

# Enough for the longest text of an alert. The caller truncates the result to its own limit.
MAX_RESULT_LENGTH = 32 * 1024
# A placeholder with [*] can read the whole payload. This number is enough for any sensible message.
MAX_PLACEHOLDERS = 200

_SEPARATOR = ", "
_PLACEHOLDER = re.compile(r"\{\{([^{}]{0,1000})\}\}")


def render(template: str, subject: Mapping[str, object], budget: Budget) -> str:
    """Return the template with each placeholder replaced by its value; a missing value is empty.

    Names are those of `conditions.build_subject`, with or without `alert.` before them. Several values are
    joined with ", ". Placeholders in an inserted value are not replaced. The result is truncated at
    MAX_RESULT_LENGTH. Placeholders after the first MAX_PLACEHOLDERS are empty. Raises BudgetExceeded.
    """
    budget.spend(Work.WRITTEN, len(template))
    parts: list[str] = []
    remaining, position = MAX_RESULT_LENGTH, 0
    for number, placeholder in enumerate(_PLACEHOLDER.finditer(template)):
        value = _resolve(placeholder[1], subject, remaining, budget) if number < MAX_PLACEHOLDERS else ""
        for part in (template[position : placeholder.start()], value):
            parts.append(part[:remaining])
            remaining -= len(parts[-1])
        position = placeholder.end()
        if not remaining:
            break
    parts.append(template[position:][:remaining])
    return "".join(parts)


def _resolve(name: str, subject: Mapping[str, object], limit: int, budget: Budget) -> str:
    """Return the value of a placeholder, truncated at about `limit` characters."""
    # Measured: half a microsecond for each character of a path that is not cached.
    budget.spend(Work.STEPS, 2 * len(name))
    try:
        path = paths.parse(name)
    except paths.BadPath:
        return ""
    if not path:
        return ""
    texts: list[str] = []
    for value in paths.find(subject, path, budget):
        texts.append(paths.to_text_within(value, budget)[: max(limit, 0)])
        written = len(texts[-1]) + len(_SEPARATOR)
        budget.spend(Work.WRITTEN, written)
        limit -= written
        if limit <= 0:
            break
    return _SEPARATOR.join(texts)
