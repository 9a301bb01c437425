"""Compute outages: times in which heartbeat pings could not arrive.

The input is the last stored observation and the liveness of web processes. The functions are pure;
workers/periodic/outages.py stores the observations. Decision 0017 gives the reasons.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

# Three observation periods of 5 s: after a longer gap, the observers were down in between. A time further in
# the future than this comes from a clock that was set back since; the clocks of hosts differ by less.
MAX_GAP = timedelta(seconds=15)
# A web process writes its liveness every 15 s, or a little later. After LATE_AFTER without one, it is
# uncertain whether it runs; after SILENT_AFTER, three missed ones, it did not run.
LATE_AFTER = timedelta(seconds=25)
SILENT_AFTER = timedelta(seconds=45)
# Pings are not exact to the second: one may come this long before it is due, or its grace if that is longer.
MAX_EARLY = timedelta(seconds=60)
# Longer than any ping is expected: an interval of at most 31 days and a grace of at most 31 days.
KEPT_FOR = timedelta(days=63)
# Limits the stored observation if a process crashes at each start.
MAX_OUTAGES = 50


@dataclass(frozen=True, slots=True)
class WebProcess:
    """A web process: its start, and the time of its last liveness."""

    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which pings may have been lost; `longest` is the longest outage that it merges."""

    began_at: datetime
    ended_at: datetime
    longest: timedelta

    @classmethod
    def between(cls, began_at: datetime, ended_at: datetime) -> "Outage":
        return cls(began_at, ended_at, ended_at - began_at)

    def merge(self, later: "Outage") -> "Outage":
        """Merge with an outage observed later. It may have begun earlier, if the clock was set back."""
        began_at, ended_at = min(self.began_at, later.began_at), max(self.ended_at, later.ended_at)
        return Outage(began_at, ended_at, max(self.longest, later.longest))


@dataclass(frozen=True, slots=True)
class Observation:
    """The stored observation.

    `at` is when it was made. A web process certainly ran from the end of the last outage until `until`.
    """

    at: datetime
    until: datetime
    outages: tuple[Outage, ...] = ()


def observe(
    previous: Observation | None, processes: Collection[WebProcess], now: datetime
) -> tuple[Observation | None, bool]:
    """Return the new observation, and whether pings can certainly arrive; if not, no ping counts as missing.

    If a web process started after the last liveness of the earlier ones, there was an outage since then.
    If an earlier process shows liveness again, there was none; until then the result is uncertain. Times
    that a clock wrote before it was set back say nothing about now: the observation starts again, and
    such liveness is ignored.
    """
    processes = [process for process in processes if not _is_in_future(process.seen_at, now)]
    fresh = [process for process in processes if now - process.seen_at <= LATE_AFTER]
    if previous is not None and _is_in_future(max(previous.at, previous.until), now):
        return _handle_clock_set_back(previous, fresh, now)
    if previous is None or now - previous.at > MAX_GAP:
        return _handle_gap(previous, fresh, now)
    until = _get_running_until(previous.until, processes)
    were_running = [_was_running(process, until) for process in fresh]
    if fresh and not any(were_running):
        return _add_outages(previous, [Outage.between(until, now)], fresh, now), True
    return replace(previous, at=now, until=until), bool(fresh) and all(were_running)


def _is_in_future(moment: datetime, now: datetime) -> bool:
    return moment - now > MAX_GAP


def _was_running(process: WebProcess, until: datetime) -> bool:
    """Return whether a process ran at `until`.

    A process with a start after its own last liveness started before the clock was set back.
    """
    has_begun = process.started_at <= until or process.started_at > process.seen_at
    return has_begun and process.seen_at - until <= SILENT_AFTER


def _get_running_until(until: datetime, processes: Collection[WebProcess]) -> datetime:
    """Return until when web processes ran without a gap, each started before the one before it ended."""
    for process in sorted(processes, key=lambda each: each.started_at):
        if _was_running(process, until):
            until = max(until, process.seen_at)
    return until


def _handle_gap(
    previous: Observation | None, fresh: Collection[WebProcess], now: datetime
) -> tuple[Observation | None, bool]:
    """Make the first observation, or the first after the observers were down.

    The outage ends when a web process shows liveness.
    """
    if not fresh:
        return previous, False
    if previous is None:
        return Observation(now, max(process.seen_at for process in fresh)), True
    outage = Outage.between(min(previous.at, _get_running_until(previous.until, fresh)), now)
    return _add_outages(previous, [outage], fresh, now), True


def _handle_clock_set_back(
    previous: Observation, fresh: Collection[WebProcess], now: datetime
) -> tuple[Observation, bool]:
    """Record outages after the clock was set back, since the real length of the gap is unknown.

    Pings expected until now may have been lost, and so may those expected by the clock as it was before.
    """
    if not fresh:
        return previous, False
    by_now = Outage.between(now - KEPT_FOR, now)
    before_set_back = Outage.between(min(previous.at, previous.until), max(previous.at, previous.until))
    return _add_outages(previous, [by_now, before_set_back], fresh, now), True


def _add_outages(
    previous: Observation, outages: Collection[Outage], fresh: Collection[WebProcess], now: datetime
) -> Observation:
    known = (*previous.outages, *outages)
    recent = tuple(outage for outage in known if now - outage.ended_at <= KEPT_FOR)
    while len(recent) > MAX_OUTAGES:
        # Merge the oldest two: better to excuse one missing ping too many than to page for our own outage.
        recent = (recent[0].merge(recent[1]), *recent[2:])
    return Observation(now, max(process.seen_at for process in fresh), recent)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A ping is expected within `every` plus `grace` after the last one, at the latest at `at`.

    `is_extended` means that an outage already extended this deadline.
    """

    at: datetime
    every: timedelta
    grace: timedelta
    is_extended: bool

    @property
    def within(self) -> timedelta:
        return self.every + self.grace

    @property
    def due_at(self) -> datetime:
        return self.at - self.grace


def extend_deadline(expected: Expectation, outages: Collection[Outage]) -> datetime | None:
    """Return a later deadline for a ping that an outage may have lost; None if the deadline stands.

    A deadline is extended once, for any number of outages. It is extended again only after an outage that
    lasted as long as `every` plus `grace`, since nothing can be known about that time.
    """
    begins = expected.at - min(expected.within, expected.grace + max(expected.grace, MAX_EARLY))
    least = timedelta()
    if expected.is_extended:
        begins, least = expected.at - expected.within, expected.within
    ends = [
        outage.ended_at
        for outage in outages
        if outage.began_at <= expected.at and outage.ended_at > begins and outage.longest >= least
    ]
    return max(ends) + expected.within if ends else None
