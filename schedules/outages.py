"""Compute until when web processes took pings, and the outages in which none did.

The functions are pure; workers/periodic/outages.py stores the result. Decision 0024 gives the reasons.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

# A ping can come early: by this time before it is due, or by the grace of its integration if that is longer.
MAX_EARLY = timedelta(seconds=60)
# Limits what is stored if a process crashes at each start.
MAX_OUTAGES = 50
# If a host restarts with a wrong clock, the length of its outage is unknown. Assume at most this time.
MAX_UNKNOWN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class WebProcess:
    """A web process that took pings from `since` until `seen_at`; if it `may_live`, perhaps longer."""

    since: datetime
    seen_at: datetime
    may_live: bool


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which pings may have been lost. `lasted`: the length of the last one of merged outages."""

    began_at: datetime
    ended_at: datetime
    lasted: timedelta


@dataclass(frozen=True, slots=True)
class Coverage:
    """Web processes took pings until `until`, except in the outages."""

    until: datetime
    outages: tuple[Outage, ...] = ()


def observe(known: Coverage | None, processes: Collection[WebProcess]) -> Coverage | None:
    """Extend the coverage by the times of web processes. Return None if nothing is known and none lives.

    The time between the coverage and the start of the next process is an outage. If another process may
    still report that it ran in that time, the coverage ends before it.
    """
    if known is None:
        seen = [process.seen_at for process in processes if process.may_live]
        return Coverage(max(seen)) if seen else None
    until, outages, may_close = known.until, known.outages, False
    for process in sorted(processes, key=lambda one: one.since):
        if process.since > until:
            if may_close:
                break
            outages = (*outages, Outage(until, process.since, process.since - until))
        until = max(until, process.seen_at)
        may_close = may_close or process.may_live
    while len(outages) > MAX_OUTAGES:
        first, second, *others = outages
        outages = (Outage(first.began_at, second.ended_at, second.lasted), *others)
    return Coverage(until, outages)


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
    def begins_at(self) -> datetime:
        """Return the earliest time at which the ping may come."""
        return self.at - min(self.within, self.grace + max(self.grace, MAX_EARLY))


def extend_deadline(expected: Expectation, outages: Collection[Outage]) -> datetime | None:
    """Return a later deadline for a ping that an outage may have lost; None if the deadline does not change.

    A deadline is extended once, for any number of outages. A second extension needs an outage that
    lasted as long as `every` plus `grace`, since nothing is known about that time.
    """
    begins, least = expected.begins_at, timedelta()
    if expected.is_extended:
        begins, least = expected.at - expected.within, expected.within
    ends = [
        outage.ended_at
        for outage in outages
        if outage.began_at <= expected.at and outage.ended_at > begins and outage.lasted >= least
    ]
    return max(ends) + expected.within if ends else None


def restart_deadline(expected: Expectation, shown: datetime, now: datetime) -> datetime | None:
    """Return a new deadline after the clock was set back from `shown` to `now`; None: it does not change.

    A ping around that time may be lost. A deadline that the new clock reaches only much
    later would hide a missing ping.
    """
    restarted = now + expected.within
    is_affected = expected.begins_at <= shown + MAX_UNKNOWN or expected.at > restarted
    return restarted if is_affected else None
