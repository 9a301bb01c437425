"""Patterns that people wrote, matched in time linear in the text: the only place that knows re2.

re2 has no look-around and no back-references; a pattern that uses them is refused.
"""

from functools import lru_cache

import re2

from pipeline.conditions.bad import shown

LONGEST_PATTERN = 1_000
# Steps of the compiled pattern. Measured: the slowest patterns cost about 4 ns for each step and
# character of the text, so 5,000 steps on a text of 16k characters stay under half a second.
LARGEST_PROGRAM = 5_000
# Bytes for one compiled pattern and its caches; 512 of them are kept.
MAX_MEM = 1 << 20


class BadPattern(ValueError):
    """A pattern that cannot be used, and why."""


class Pattern:
    """A compiled pattern; `size` is the number of its steps, which is what a character may cost."""

    __slots__ = ("_regexp", "size")

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = MAX_MEM
        options.log_errors = False
        options.never_capture = True
        self._regexp = re2.compile(text, options)
        self.size: int = self._regexp.programsize

    def found_in(self, text: str) -> bool:
        return self._regexp.search(text) is not None


@lru_cache(maxsize=512)
def compiled(text: str) -> Pattern:
    """The pattern, ready to use. Raises BadPattern."""
    if len(text) > LONGEST_PATTERN:
        raise BadPattern(f"a pattern may have {LONGEST_PATTERN} characters")
    try:
        pattern = Pattern(text)
    except re2.error as error:
        raise BadPattern(f"the pattern {shown(text)} cannot be used: {_words(error)}") from None
    if pattern.size > LARGEST_PROGRAM:
        raise BadPattern(f"the pattern {shown(text)} is too large")
    return pattern


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else "unknown error"
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
