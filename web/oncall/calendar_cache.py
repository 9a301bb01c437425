"""Keep calendars that were built, by everything that they depend on. Building one takes up to a second.

The key is the content of the configuration, not its version: so a change of another schedule leaves the
calendar as it is, and no change can be missed.
"""

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime

from web.oncall import ical
from web.oncall.ical import Calendar

# Number of kept calendars. Measured: a text of 640 kB takes 67 kB compressed.
CACHE_SIZE = 200


@dataclass(frozen=True, slots=True)
class BuiltCalendar:
    """A calendar as text, with the digest of its content. `DTSTAMP` is the time at which it was built."""

    digest: str
    compressed: bytes

    @property
    def text(self) -> bytes:
        return zlib.decompress(self.compressed)


_lock = threading.Lock()
_calendars: OrderedDict[Hashable, BuiltCalendar] = OrderedDict()


def get(key: Hashable, now: datetime, build: Callable[[], Calendar]) -> BuiltCalendar:
    """Return the calendar of this key, or build it."""
    with _lock:
        found = _calendars.get(key)
        if found is not None:
            _calendars.move_to_end(key)
            return found
    calendar = build()
    built = BuiltCalendar(calendar.digest(), zlib.compress(ical.render(calendar, now), 1))
    with _lock:
        _calendars[key] = built
        if len(_calendars) > CACHE_SIZE:
            _calendars.popitem(last=False)
    return built


def clear() -> None:
    with _lock:
        _calendars.clear()
