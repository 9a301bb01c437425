"""Compare e-mail addresses in one normal form, which does not depend on the store.

Only the letters of ASCII are the same in both cases. Unicode has other letters whose small form is one of
ASCII: an address with one of them belongs to somebody else.
"""

import string

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def normalize(address: str) -> str:
    """Return the normal form of an address."""
    return address.strip().translate(_SMALL)


def is_same_address(one: str | None, other: str) -> bool:
    """Return whether two addresses have the same normal form. None: there is no first one."""
    return one is not None and normalize(one) == normalize(other)
