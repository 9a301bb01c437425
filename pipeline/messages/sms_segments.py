"""Count the segments of an SMS, which providers charge one by one, and shorten a text to a few of them.

A segment has 160 characters of the GSM alphabet, or 70 others (3GPP TS 23.038). With several segments, each
loses 7 or 3 characters to a header.
"""

from collections.abc import Collection, Iterable

from pipeline.messages.content import CHOICES

MAX_SEGMENTS = 3

_GSM = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
# These need two characters.
_GSM_EXTENDED = frozenset("^{}\\[~]|€\f")


def count_segments(text: str) -> int:
    """Return how many segments a text has."""
    if all(char in _GSM or char in _GSM_EXTENDED for char in text):
        return _fill((2 if char in _GSM_EXTENDED else 1 for char in text), 160, 153)
    return _fill((2 if ord(char) > 0xFFFF else 1 for char in text), 70, 67)


def _fill(sizes: Iterable[int], only: int, each: int) -> int:
    """Fill segments of the size `each`, or one of the size `only`. No character is divided."""
    segments = 1
    total = used = 0
    for size in sizes:
        total += size
        if used + size > each:
            segments, used = segments + 1, 0
        used += size
    return 1 if total <= only else segments


def write_replies(offered: Collection[str], code: str) -> str:
    """Return what to reply for each of these actions; empty if there is none, or no code."""
    choices = [f"{digit} {code} = {name}" for digit, name in CHOICES.items() if name in offered]
    return f"Reply {', '.join(choices)}" if choices and code else ""


def shorten(text: str, tail: str, segments: int) -> str:
    """Return as much of the text as fits into these segments, and the tail after it."""
    tail = f"\n{tail}" if tail else ""
    if count_segments(text + tail) <= segments:
        return text + tail
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if count_segments(f"{text[:middle]}...{tail}") <= segments:
            fits = middle
        else:
            too_long = middle
    return f"{text[:fits].rstrip()}...{tail}"
