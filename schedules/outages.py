"""When pings could not come, by what those who look have noted and the signs of life of web processes.

Pure; workers/periodic/outages.py keeps the notes. Why it is so is told in decision 0017.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

# Who looks less often was away in between: three of the clock's notes. And what lies further ahead is by a
# clock that was set back since; hosts' clocks do not differ by so much.
MAX_GAP = timedelta(seconds=15)
# A web process gives a sign of life every 15 s, or a little later. Of one that gave none for longer it is not
# known whether it lives, and after three that it missed it did not.
LATE_AFTER = timedelta(seconds=25)
SILENT_AFTER = timedelta(seconds=45)
# Pings do not come to the second: one may come so long before it is due, or its grace, where that is longer.
MAX_EARLY = timedelta(seconds=60)
# No ping is expected for longer: 31 days and a grace of 31 more. And what a crash at each start may cost.
KEPT_FOR = timedelta(days=63)
MAX_OUTAGES = 50


@dataclass(frozen=True, slots=True)
class WebProcess:
    """A web process: its start, and its last sign of life."""

    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Outage:
    """Pings may have been lost from one moment to the other. Where it is made of several, the longest of them
    is known."""

    began_at: datetime
    ended_at: datetime
    longest: timedelta

    @classmethod
    def between(cls, began_at: datetime, ended_at: datetime) -> "Outage":
        return cls(began_at, ended_at, ended_at - began_at)

    def merge(self, later: "Outage") -> "Outage":
        """One that is noted later may lie before, where the clock was set back in between."""
        began_at, ended_at = min(self.began_at, later.began_at), max(self.ended_at, later.ended_at)
        return Outage(began_at, ended_at, max(self.longest, later.longest))


@dataclass(frozen=True, slots=True)
class Observation:
    """What is noted: when somebody looked, and until when a web process was there for certain, without a
    break since the last of the absences."""

    at: datetime
    until: datetime
    outages: tuple[Outage, ...] = ()


def observe(
    previous: Observation | None, processes: Collection[WebProcess], now: datetime
) -> tuple[Observation | None, bool]:
    """What is to be noted now, and whether it is certain that pings can come: if not, nobody is blamed yet.

    A web process that began after the last sign of life of those before it means an absence from that on,
    unless one of them gives another: until then it is not certain. What is noted by a clock that was set back
    since tells nothing of now: it is noted anew, and a sign of life by that clock is none.
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
    """One that began after its own last sign of life did so before the clock was set back."""
    has_begun = process.started_at <= until or process.started_at > process.seen_at
    return has_begun and process.seen_at - until <= SILENT_AFTER


def _get_running_until(until: datetime, processes: Collection[WebProcess]) -> datetime:
    """As far as one web process after the other was there, each before the end of the one before."""
    for process in sorted(processes, key=lambda each: each.started_at):
        if _was_running(process, until):
            until = max(until, process.seen_at)
    return until


def _handle_gap(
    previous: Observation | None, fresh: Collection[WebProcess], now: datetime
) -> tuple[Observation | None, bool]:
    """Those who look; the first of them, or after an absence of theirs. That ends with a web process."""
    if not fresh:
        return previous, False
    if previous is None:
        return Observation(now, max(process.seen_at for process in fresh)), True
    outage = Outage.between(min(previous.at, _get_running_until(previous.until, fresh)), now)
    return _add_outages(previous, [outage], fresh, now), True


def _handle_clock_set_back(
    previous: Observation, fresh: Collection[WebProcess], now: datetime
) -> tuple[Observation, bool]:
    """How long that took is not known: whatever is expected by now may have been lost. And so may what is
    expected by the clock as it was, since that goes on being so."""
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
        # Rather one more is excused than somebody blamed for us.
        recent = (recent[0].merge(recent[1]), *recent[2:])
    return Observation(now, max(process.seen_at for process in fresh), recent)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A ping is expected within `every` and `grace` after the last one, at the latest at `at`. `is_excused`
    where more time was given since already."""

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
    """Until when to wait for a ping that did not come, since it, too, may have been lost; None for no longer.

    Once, however often we were away. Only who was away for as long as a ping may take knows no more than
    before, and waits anew.
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
