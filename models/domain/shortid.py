"""The short ids of incidents, notes, responders and alerts."""

# Short ids: 22 characters without look-alikes (contract 1.5).
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Two at a time: an alert needs several ids, and the divisions are most of what they cost.
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


def encode_short_id(number: int) -> str:
    """A 128-bit number as 22 characters of ALPHABET."""
    pairs = []
    for _ in range(11):
        number, rest = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[rest])
    return "".join(reversed(pairs))
