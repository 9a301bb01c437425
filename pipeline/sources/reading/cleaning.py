"""Clean the text of an alert so that it can be stored, shown and sent.

An alert is never refused because of its form: invariant 11 (design, section 2).
"""

import math
import re
from collections.abc import Iterable
from typing import Any

MESSAGE_LIMIT = 1_000
SUMMARY_LIMIT = 16 * 1024
URL_LIMIT = 2 * 1024

# Control characters except newline and tab; DEL and the C1 block; the marks that change the direction of text
# (Unicode TR9) and zero-width ones; lone surrogates, which no encoding accepts.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c\ufeff\ud800-\udfff]"
)
_NEWLINE = re.compile("\r\n|\r|\u2028|\u2029|\x85|\x0b|\x0c")
# Where a name would go on in another line or column.
_BREAK = re.compile(f"{_NEWLINE.pattern}|\n|\t")
_BLANKS = re.compile(r"\s+")


def clean_text(text: str, limit: int = SUMMARY_LIMIT) -> str:
    """Return text of several lines: uniform newlines, unfit characters removed, truncated at the limit."""
    if text.isprintable():
        # It has no newline and no unfit character: the expressions would search it twice for nothing.
        return text[: limit * 2].strip()[:limit]
    return _UNFIT.sub("", _NEWLINE.sub("\n", text[: limit * 2])).strip()[:limit]


def clean_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return text of one line: newlines and runs of blanks become one blank."""
    if "  " not in text and text.isprintable():
        return text[: limit * 4].strip()[: limit * 2].strip()[:limit]
    return _BLANKS.sub(" ", clean_text(text, limit * 2)).strip()[:limit]


def clean_name(text: str) -> str:
    """Return text of one line without unfit characters; a newline or tab becomes a blank."""
    return _UNFIT.sub("", _BREAK.sub(" ", text))


def remove_unfit(text: str) -> str:
    """Return text of several lines without unfit characters; its newlines stay as they are."""
    return "\r".join(_UNFIT.sub("", part) for part in text.split("\r"))


def clean_entity_id(text: str) -> str:
    """Return an identifier without unfit characters.

    The identifier is never truncated: two different identifiers could then become equal.
    """
    return _UNFIT.sub("", _NEWLINE.sub(" ", text)).strip()


def clean_url(text: str) -> str | None:
    """Return an http or https address without blanks, or None. A link must never run as a script."""
    url = clean_text(text, URL_LIMIT * 2)
    if len(url) > URL_LIMIT or len(url.split(None, 1)) > 1:
        return None
    return url if url[:8].lower().startswith(("http://", "https://")) else None


PAYLOAD_DEPTH = 100
# Stands for what is nested too deeply in an alert that cannot be read.
TOO_DEEP_TEXT = "(nested too deeply)"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**63 - 1
_INTEGERS = frozenset((int, bool))
_CONTAINERS = (dict, list)


class TooDeep(ValueError):
    """A payload is nested deeper than PAYLOAD_DEPTH."""


def clean_payload(value: object, depth: int = PAYLOAD_DEPTH) -> Any:
    """Return a payload that every store and reader can hold: no lone surrogates, no numbers over 64 bits.

    Everything else stays as it was sent. Raises TooDeep.
    """
    return value if _is_fit(value, depth) else _copy_fit(value, depth)


def trim_payload(value: object, depth: int = PAYLOAD_DEPTH) -> object:
    """Return a payload without the objects and lists that are nested deeper than `depth`."""
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return TOO_DEEP_TEXT
    if isinstance(value, list):
        return [trim_payload(item, depth - 1) for item in value]
    return {name: trim_payload(item, depth - 1) for name, item in value.items()}


def _is_fit(value: object, depth: int) -> bool:
    """Return whether nothing in a payload must be changed. This is much faster than to copy it.

    Most of a payload is short ASCII texts and integers, so these are checked without a call for each.
    """
    if not isinstance(value, _CONTAINERS):
        return _is_fit_scalar(value)
    if depth == 0:
        return False
    if isinstance(value, dict):
        if not "".join(value).isascii() and not all(map(_is_fit_text, value)):
            return False
        items: Iterable[object] = value.values()
    else:
        items = value
        if len(value) > 1 and _INTEGERS.issuperset(map(type, value)):
            # No step for each number of a long list.
            return min(value) >= _MIN_INTEGER and max(value) <= _MAX_INTEGER
    for item in items:
        if isinstance(item, str):
            if not item.isascii() and not _is_fit_text(item):
                return False
        elif isinstance(item, int):
            if not _MIN_INTEGER <= item <= _MAX_INTEGER:
                return False
        elif not _is_fit(item, depth - 1):
            return False
    return True


def _is_fit_scalar(value: object) -> bool:
    if isinstance(value, str):
        return _is_fit_text(value)
    if isinstance(value, int):
        return _MIN_INTEGER <= value <= _MAX_INTEGER
    return not isinstance(value, float) or math.isfinite(value)


def _is_fit_text(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None


def _copy_fit(value: object, depth: int) -> object:
    if isinstance(value, str):
        return _SURROGATE.sub("", value)
    if not isinstance(value, dict | list):
        return value if _is_fit_scalar(value) else str(value)
    if depth == 0:
        raise TooDeep
    if isinstance(value, list):
        return [_copy_fit(item, depth - 1) for item in value]
    return {_SURROGATE.sub("", key): _copy_fit(item, depth - 1) for key, item in value.items()}
