"""Replace the placeholders `{{...}}` in a text by values of an alert. A placeholder is a path, never code."""

import re
from collections.abc import Mapping
from functools import lru_cache

from pipeline.rules.conditions import STEPS, Budget, Work, paths

# Enough for the longest text of an alert. The caller truncates the result to its own limit.
MAX_RESULT_LENGTH = 32 * 1024
# A placeholder with [*] can read the whole payload. This number is enough for any sensible message.
MAX_PLACEHOLDERS = 200
# Longer templates are not cached, and at most MAX_CACHED others, so that the cache needs less than 20 MB.
MAX_CACHED_LENGTH = 1_000
MAX_CACHED = 1_024

_SEPARATOR = ", "
_PLACEHOLDER = re.compile(r"\{\{([^{}]{0,1000})\}\}")
_WRITTEN = Work.WRITTEN


def render(template: str, subject: Mapping[str, object], budget: Budget) -> str:
    """Return the template with each placeholder replaced by its value; a missing value is empty.

    Names are those of `conditions.build_subject`, with or without `alert.` before them. Several values are
    joined with ", ". Placeholders in an inserted value are not replaced. The result is truncated at
    MAX_RESULT_LENGTH. Placeholders after the first MAX_PLACEHOLDERS are empty. Raises BudgetExceeded.
    """
    budget.spend(_WRITTEN, len(template))
    placeholders, last = _split_cached(template) if len(template) <= MAX_CACHED_LENGTH else _split(template)
    parts: list[str] = []
    remaining = MAX_RESULT_LENGTH
    for number, (text, name) in enumerate(placeholders):
        value = _resolve(name, subject, remaining, budget) if number < MAX_PLACEHOLDERS else ""
        for part in (text, value):
            parts.append(part[:remaining])
            remaining -= len(parts[-1])
        if not remaining:
            break
    parts.append(last[:remaining])
    return "".join(parts)


def _split(template: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the names in the placeholders, each with the text before it, and the text after the last one."""
    *found, last = _PLACEHOLDER.split(template)
    return tuple(zip(found[::2], found[1::2], strict=True)), last


_split_cached = lru_cache(MAX_CACHED)(_split)


def _resolve(name: str, subject: Mapping[str, object], limit: int, budget: Budget) -> str:
    """Return the value of a placeholder, truncated at about `limit` characters."""
    # Measured: half a microsecond for each character of a path that is not cached.
    budget.spend(STEPS, 2 * len(name))
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
        budget.spend(_WRITTEN, written)
        limit -= written
        if limit <= 0:
            break
    return _SEPARATOR.join(texts)
