"""The short ids of incidents, notes, responders and alerts."""

# Short ids: 22 characters without look-alikes (contract 1.5).
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def short(number: int) -> str:
    """A 128-bit number as 22 characters of ALPHABET."""
    letters = []
    for _ in range(22):
        number, rest = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[rest])
    return "".join(reversed(letters))
