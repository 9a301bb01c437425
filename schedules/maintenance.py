"""Compute when maintenance windows and their repeats are in force. Contract sections 3.11 and 4.6.

A window repeats at the same local times. Its real length differs if the clock changes within it
(docs/decisions/0016).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache

from models.domain.facts import WindowFacts
from models.domain.reasons import Reason, make_reason
from schedules.oncall.local_time import DAY, from_local, get_zone_or_utc, to_local

INSTANT = timedelta.resolution
NOTHING = timedelta()
# The end of Python's calendar. No window begins at this time, and a window that would end later ends here.
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

# The start (included) and the end (excluded); None: without an end.
Span = tuple[datetime, datetime | None]


@dataclass(frozen=True, slots=True)
class InForce:
    """A maintenance window in force, and its end (None: without an end)."""

    window: WindowFacts
    until: datetime | None

    @property
    def why(self) -> Reason:
        """Return why alerts are suppressed now."""
        window, until = self.window.name, self.until.isoformat() if self.until else None
        if until is None:
            return (
                make_reason("window_without_end", window=window)
                if window
                else make_reason("unnamed_window_without_end")
            )
        if window:
            return make_reason("window_until", window=window, until=until)
        return make_reason("unnamed_window_until", until=until)


def find_in_force(windows: Iterable[WindowFacts], at: datetime) -> InForce | None:
    """Return the window in force at a moment; of several, the one that ends last. None: there is none."""
    found = [InForce(window, span[1]) for window in windows if (span := find_span(window, at)) is not None]
    return max(found, key=lambda one: (one.until is None, one.until or at), default=None)


def find_span(window: WindowFacts, at: datetime) -> Span | None:
    """Return the whole span around a moment in which a window is in force; None if it is not in force then.

    Repeats that overlap or follow each other without a gap are one span.
    """
    if at < window.start or (not window.repeat_interval and at >= window.end):
        return None
    day = datetime.combine(at.astimezone(UTC), time(), UTC)
    return next(
        (span for span in _list_spans_of_day(window, day) if span[0] <= at and _ends_after(span, at)), None
    )


def was_in_force(windows: Iterable[WindowFacts], since: datetime, at: datetime) -> bool:
    """Return whether any window was in force at any time between two moments."""
    return any(_was_in_force(window, since, at) for window in windows)


def _was_in_force(window: WindowFacts, since: datetime, at: datetime) -> bool:
    span = find_span(window, since) or find_next_span(window, since)
    return span is not None and span[0] <= at


def _ends_after(span: Span, at: datetime) -> bool:
    return span[1] is None or at < span[1]


# Cached: this runs for every alert, and the calculation of local times is slow.
@lru_cache(maxsize=4096)
def _list_spans_of_day(window: WindowFacts, day: datetime) -> tuple[Span, ...]:
    """Return the spans of a window that reach into a day of UTC."""
    first = _find_span(window, day)
    found = [] if first is None else [first]
    moment = day
    while (span := find_next_span(window, moment)) is not None and span[0] - day < DAY:
        found.append(span)
        moment = span[0]
    return tuple(found)


def _find_span(window: WindowFacts, at: datetime) -> Span | None:
    if at < window.start:
        return None
    repeats = _get_repeats(window)
    k = repeats.find_begun(at)
    if repeats.is_continuous:
        ends = repeats.end
        return (window.start, ends) if ends is None or at < ends else None
    if at >= repeats.get_span(k)[1]:
        return None
    first = last = k
    while first > 0 and repeats.get_span(first - 1)[1] >= repeats.get_span(first)[0]:
        first -= 1
    while repeats.has_repeat(last + 1) and repeats.get_span(last + 1)[0] <= repeats.get_span(last)[1]:
        last += 1
    return repeats.get_span(first)[0], repeats.get_span(last)[1]


def find_next_span(window: WindowFacts, at: datetime) -> Span | None:
    """Return the next span of a window that begins after a moment; None if there is none."""
    current = _find_span(window, at)
    if current is not None and current[1] is None:
        return None
    repeats = _get_repeats(window)
    k = repeats.find_begun(current[1] if current and current[1] else at) + 1
    while repeats.has_repeat(k):
        found = _find_span(window, repeats.get_span(k)[0])
        # A repeat does not happen if the local clock skips it.
        if found is not None:
            return found
        k += 1
    return None


class _Repeats:
    """The occurrences of a window; number 0 is the window as it was given.

    The last one begins before `repeat_until` and before the end of the calendar.
    """

    def __init__(self, window: WindowFacts) -> None:
        self._window = window
        self._zone = get_zone_or_utc(window.time_zone)
        self._local_start = to_local(window.start, self._zone)
        length = to_local(window.end, self._zone) - self._local_start
        # If the clock is set back within the first occurrence, its local end can be before its local start.
        self._length = length if length > NOTHING else window.end - window.start
        self._every = timedelta(days=window.repeat_interval)
        self._last = max(self._find_unbounded((window.repeat_until or LAST_MOMENT) - INSTANT), 0)

    def get_span(self, k: int) -> tuple[datetime, datetime]:
        """Return start and end of occurrence k: the first as it was given, others by local time."""
        if k == 0:
            return self._window.start, self._window.end
        opens = k * self._every
        return self._get_time(opens), self._get_time(opens + self._length)

    def _get_time(self, later: timedelta) -> datetime:
        """Return when the local clock shows the start plus `later`, or the end of the calendar."""
        try:
            return from_local(self._local_start + later, self._zone)
        except OverflowError:
            return LAST_MOMENT

    def has_repeat(self, k: int) -> bool:
        return k <= self._last

    def find_begun(self, at: datetime) -> int:
        """Return the number of the latest occurrence that has begun at a moment; -1 before the first."""
        return min(self._find_unbounded(at), self._last)

    @property
    def is_continuous(self) -> bool:
        """Return whether each occurrence lasts at least until the next begins."""
        return self._last != 0 and self._length >= self._every

    @property
    def end(self) -> datetime | None:
        """Return the end of the last occurrence; None if the window repeats without an end."""
        is_endless = self._window.repeat_until is None and bool(self._every)
        return None if is_endless else self.get_span(self._last)[1]

    def _find_unbounded(self, at: datetime) -> int:
        if at < self._window.start:
            return -1
        if not self._every:
            return 0
        k = max((to_local(at, self._zone) - self._local_start) // self._every, 0)
        # If the clock was set back, more occurrences may have begun than the local time shows.
        while self.get_span(k + 1)[0] <= at < LAST_MOMENT:
            k += 1
        return k


@lru_cache(maxsize=4096)
def _get_repeats(window: WindowFacts) -> _Repeats:
    return _Repeats(window)
