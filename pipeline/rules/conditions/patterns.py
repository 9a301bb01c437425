"""Regular expressions that people wrote, matched in time linear in the text. Only this module uses re2.

re2 has no look-around and no back-references. A pattern that uses them is refused.
"""

from functools import lru_cache

import re2

from pipeline.rules.conditions.bad import quote

MAX_PATTERN_LENGTH = 1_000
# Steps of the compiled pattern. Measured: the slowest patterns take about 4 ns per step and character of the
# text. So 5,000 steps on a text of 16k characters take less than half a second.
MAX_PROGRAM_SIZE = 5_000
# Patterns with at most this number of steps have few states, which are found in the first bytes of a text.
# Measured: each further byte takes 2 ns. Larger patterns can need a new state for each byte.
SMALL_SIZE = 24
WARM_UP = 1_000
# The work to call the search, and to compile a pattern that is not cached any more, for each of its steps; in
# bytes of 5 ns.
CALL_COST = 400
COMPILE_COST = 40
# Bytes for one compiled pattern and its caches; 512 patterns are kept.
MAX_MEMORY = 1 << 20


class BadPattern(ValueError):
    """The pattern cannot be used; the error says why."""


class Pattern:
    """A compiled pattern. `size` is the number of its steps, the maximum work per character."""

    __slots__ = ("_regexp", "size")

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        options.never_capture = True
        self._regexp = re2.compile(text, options)
        self.size: int = self._regexp.programsize

    def get_cost(self, text: str) -> int:
        """Return the work to search a text, in bytes; a pattern that can be slow counts each byte by its
        size.
        """
        length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        rest = max(length - WARM_UP, 0)
        return self.size * (length - rest + COMPILE_COST) + (
            CALL_COST + rest * (1 if self.size <= SMALL_SIZE else self.size)
        )

    def is_found_in(self, text: str) -> bool:
        # For a text, the library would also count the characters before the match.
        return self._regexp.search(text.encode()) is not None


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> Pattern:
    """Return the compiled pattern. Raises BadPattern."""
    if len(text) > MAX_PATTERN_LENGTH:
        raise BadPattern(f"a pattern may have {MAX_PATTERN_LENGTH} characters")
    try:
        pattern = Pattern(text)
    except re2.error as error:
        raise BadPattern(f"the pattern {quote(text)} cannot be used: {_get_message(error)}") from None
    if pattern.size > MAX_PROGRAM_SIZE:
        raise BadPattern(f"the pattern {quote(text)} is too large")
    return pattern


def _get_message(error: Exception) -> str:
    message = error.args[0] if error.args else "unknown error"
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
