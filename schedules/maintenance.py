"""When maintenance holds: windows and their repeats. Contract sections 3.11 and 4.6.

A window repeats by the clock on the wall, at the same local times and so for the same length by that clock,
however long that was (docs/decisions/0016).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache

from models.domain.facts import WindowFacts
from schedules.oncall.local_time import from_local, get_zone_or_utc, to_local

INSTANT = timedelta.resolution
NOTHING = timedelta()
DAY = timedelta(days=1)
# Where the calendar ends. Nothing begins then or later, and what would end later ends then.
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)

# From when, and until just before when; None is for ever.
Span = tuple[datetime, datetime | None]


@dataclass(frozen=True, slots=True)
class InForce:
    """A window that holds, and until when (None: for ever)."""

    window: WindowFacts
    until: datetime | None

    def __str__(self) -> str:
        name = f" by {self.window.name}" if self.window.name else ""
        until = f"until {self.until:%Y-%m-%d %H:%M:%S} UTC" if self.until else "without an end"
        return f"under maintenance{name} {until}"


def find_in_force(windows: Iterable[WindowFacts], at: datetime) -> InForce | None:
    """The window that holds at a moment; of several, the one that holds longest. None when there is none."""
    found = [InForce(window, span[1]) for window in windows if (span := find_span(window, at)) is not None]
    return max(found, key=lambda one: (one.until is None, one.until or at), default=None)


def find_span(window: WindowFacts, at: datetime) -> Span | None:
    """The time around a moment in which a window holds, whole; None when it does not hold then.

    Repeats that overlap, or follow each other at once, are one.
    """
    if at < window.start or (not window.repeat_interval and at >= window.end):
        return None
    day = datetime.combine(at.astimezone(UTC), time(), UTC)
    return next(
        (span for span in _list_spans_of_day(window, day) if span[0] <= at and _ends_after(span, at)), None
    )


def was_in_force(windows: Iterable[WindowFacts], since: datetime, at: datetime) -> bool:
    """Whether any window held at any time from one moment to another."""
    return any(_was_in_force(window, since, at) for window in windows)


def _was_in_force(window: WindowFacts, since: datetime, at: datetime) -> bool:
    span = find_span(window, since) or find_next_span(window, since)
    return span is not None and span[0] <= at


def _ends_after(span: Span, at: datetime) -> bool:
    return span[1] is None or at < span[1]


# It is asked of every alert, and local times cost much to find.
@lru_cache(maxsize=4096)
def _list_spans_of_day(window: WindowFacts, day: datetime) -> tuple[Span, ...]:
    """What reaches into a day of UTC."""
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
    """The next time in which a window holds that begins after a moment; None when there is none."""
    current = _find_span(window, at)
    if current is not None and current[1] is None:
        return None
    repeats = _get_repeats(window)
    k = repeats.find_begun(current[1] if current and current[1] else at) + 1
    while repeats.has_repeat(k):
        found = _find_span(window, repeats.get_span(k)[0])
        # One that the clock on the wall leaps over does not happen.
        if found is not None:
            return found
        k += 1
    return None


class _Repeats:
    """A window's occurrences, counted from 0, its own start. The last begins before `repeat_until` and before
    the calendar ends."""

    def __init__(self, window: WindowFacts) -> None:
        self._window = window
        self._zone = get_zone_or_utc(window.time_zone)
        self._local_start = to_local(window.start, self._zone)
        length = to_local(window.end, self._zone) - self._local_start
        # Where the clock is set back within the first, it may end at an earlier local time than it began.
        self._length = length if length > NOTHING else window.end - window.start
        self._every = timedelta(days=window.repeat_interval)
        self._last = max(self._find_unbounded((window.repeat_until or LAST_MOMENT) - INSTANT), 0)

    def get_span(self, k: int) -> tuple[datetime, datetime]:
        """When occurrence k begins and ends: the first as it was given, others by the clock on the wall."""
        if k == 0:
            return self._window.start, self._window.end
        opens = k * self._every
        return self._get_time(opens), self._get_time(opens + self._length)

    def _get_time(self, later: timedelta) -> datetime:
        """When the clock shows a time so much later than that of the start, if the calendar has it."""
        try:
            return from_local(self._local_start + later, self._zone)
        except OverflowError:
            return LAST_MOMENT

    def has_repeat(self, k: int) -> bool:
        return k <= self._last

    def find_begun(self, at: datetime) -> int:
        """The latest that has begun by a moment, -1 before the first."""
        return min(self._find_unbounded(at), self._last)

    @property
    def is_continuous(self) -> bool:
        """Whether each has not ended when the next begins."""
        return self._last != 0 and self._length >= self._every

    @property
    def end(self) -> datetime | None:
        """When the last ends; None when they repeat for ever."""
        is_endless = self._window.repeat_until is None and bool(self._every)
        return None if is_endless else self.get_span(self._last)[1]

    def _find_unbounded(self, at: datetime) -> int:
        if at < self._window.start:
            return -1
        if not self._every:
            return 0
        k = max((to_local(at, self._zone) - self._local_start) // self._every, 0)
        # Where the clock was set back, more may have begun than it shows.
        while self.get_span(k + 1)[0] <= at < LAST_MOMENT:
            k += 1
        return k


@lru_cache(maxsize=4096)
def _get_repeats(window: WindowFacts) -> _Repeats:
    return _Repeats(window)
