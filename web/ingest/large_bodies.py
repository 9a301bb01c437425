"""Parse large bodies one after the other, so that they need little memory and leave time for small ones.

Accounts take turns, and only bodies to known keys get one: nobody's bodies keep out those of the others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from web.http.limits.places import NoPlaceError, Places, places

# The groups of most installations are smaller. To parse this much costs up to 0.1 s of CPU and 10 MB.
LARGE_BYTES = 256 * 1024
# A smaller body than this costs little. A larger one is dear work as that of other requests.
DEAR_BYTES = 64 * 1024


class TooManyError(Exception):
    """Other large bodies are being parsed; the sender should send this one again later."""


class LargeBodies:
    """Admits one large body at a time; small bodies pass at once."""

    def __init__(self) -> None:
        self._turn = Places(1)

    @contextmanager
    def take_turn(self, size: int, account: str, seconds: float) -> Iterator[None]:
        """Parse a body of this many bytes for this account while the context is open.

        Raise TooManyError if too many large bodies wait already, or after so many seconds, at most the limit
        of places. The longest parse of 8 MiB took 3 s of CPU (measured).
        """
        if size <= DEAR_BYTES:
            yield
            return
        try:
            with (self._turn if size > LARGE_BYTES else places).hold(account, seconds):
                yield
        except NoPlaceError:
            raise TooManyError from None
