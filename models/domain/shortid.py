"""The short ids of incidents, notes, responders and alerts."""

# Short ids have 22 characters; characters that look alike are left out (contract 1.5).
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Encode two characters per division: an alert needs several ids, and the divisions cost the most.
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


def encode_short_id(number: int) -> str:
    """Encode a 128-bit number as 22 characters of ALPHABET."""
    pairs = []
    for _ in range(11):
        number, rest = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[rest])
    return "".join(reversed(pairs))
