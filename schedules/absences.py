"""When pings could not come, by what those who look have noted and the signs of life of web processes.

Pure; workers/presence.py keeps the notes. Why it is so is told in decision 0017.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

# Who looks less often was away in between: three of the clock's notes. And what lies further ahead is by a
# clock that was set back since; hosts' clocks do not differ by so much.
AWAY = timedelta(seconds=15)
# A web process gives a sign of life every 15 s, or a little later. Of one that gave none for longer it is not
# known whether it lives, and after three that it missed it did not.
LATE = timedelta(seconds=25)
SILENT = timedelta(seconds=45)
# Pings do not come to the second: one may come so long before it is due, or its grace, where that is longer.
EARLY = timedelta(seconds=60)
# No ping is expected for longer: 31 days and a grace of 31 more. And what a crash at each start may cost.
REMEMBERED_FOR = timedelta(days=63)
REMEMBERED = 50


@dataclass(frozen=True, slots=True)
class Web:
    """A web process: its start, and its last sign of life."""

    started_at: datetime
    beat_at: datetime


@dataclass(frozen=True, slots=True)
class Absence:
    """Pings may have been lost from one moment to the other. Where it is made of several, the longest of them
    is known."""

    began_at: datetime
    ended_at: datetime
    longest: timedelta

    @classmethod
    def between(cls, began_at: datetime, ended_at: datetime) -> "Absence":
        return cls(began_at, ended_at, ended_at - began_at)

    def and_to(self, later: "Absence") -> "Absence":
        """One that is noted later may lie before, where the clock was set back in between."""
        began_at, ended_at = min(self.began_at, later.began_at), max(self.ended_at, later.ended_at)
        return Absence(began_at, ended_at, max(self.longest, later.longest))


@dataclass(frozen=True, slots=True)
class Watch:
    """What is noted: when somebody looked, and until when a web process was there for certain, without a
    break since the last of the absences."""

    at: datetime
    until: datetime
    absences: tuple[Absence, ...] = ()


def look(noted: Watch | None, webs: Collection[Web], now: datetime) -> tuple[Watch | None, bool]:
    """What is to be noted now, and whether it is certain that pings can come: if not, nobody is blamed yet.

    A web process that began after the last sign of life of those before it means an absence from that on,
    unless one of them gives another: until then it is not certain. What is noted by a clock that was set back
    since tells nothing of now: it is noted anew, and a sign of life by that clock is none.
    """
    webs = [web for web in webs if not _lies_ahead(web.beat_at, now)]
    fresh = [web for web in webs if now - web.beat_at <= LATE]
    if noted is not None and _lies_ahead(max(noted.at, noted.until), now):
        return _set_back(noted, fresh, now)
    if noted is None or now - noted.at > AWAY:
        return _came_back(noted, fresh, now)
    until = _reached(noted.until, webs)
    were_there = [_was_there(web, until) for web in fresh]
    if fresh and not any(were_there):
        return _after(noted, [Absence.between(until, now)], fresh, now), True
    return replace(noted, at=now, until=until), bool(fresh) and all(were_there)


def _lies_ahead(moment: datetime, now: datetime) -> bool:
    return moment - now > AWAY


def _was_there(web: Web, until: datetime) -> bool:
    """One that began after its own last sign of life did so before the clock was set back."""
    has_begun = web.started_at <= until or web.started_at > web.beat_at
    return has_begun and web.beat_at - until <= SILENT


def _reached(until: datetime, webs: Collection[Web]) -> datetime:
    """As far as one web process after the other was there, each before the end of the one before."""
    for web in sorted(webs, key=lambda each: each.started_at):
        if _was_there(web, until):
            until = max(until, web.beat_at)
    return until


def _came_back(noted: Watch | None, fresh: Collection[Web], now: datetime) -> tuple[Watch | None, bool]:
    """Those who look; the first of them, or after an absence of theirs. That ends with a web process."""
    if not fresh:
        return noted, False
    if noted is None:
        return Watch(now, max(web.beat_at for web in fresh)), True
    away = Absence.between(min(noted.at, _reached(noted.until, fresh)), now)
    return _after(noted, [away], fresh, now), True


def _set_back(noted: Watch, fresh: Collection[Web], now: datetime) -> tuple[Watch, bool]:
    """How long that took is not known: whatever is expected by now may have been lost. And so may what is
    expected by the clock as it was, since that goes on being so."""
    if not fresh:
        return noted, False
    by_now = Absence.between(now - REMEMBERED_FOR, now)
    as_it_was = Absence.between(min(noted.at, noted.until), max(noted.at, noted.until))
    return _after(noted, [by_now, as_it_was], fresh, now), True


def _after(noted: Watch, away: Collection[Absence], fresh: Collection[Web], now: datetime) -> Watch:
    known = (*noted.absences, *away)
    kept = tuple(one for one in known if now - one.ended_at <= REMEMBERED_FOR)
    while len(kept) > REMEMBERED:
        # Rather one more is excused than somebody blamed for us.
        kept = (kept[0].and_to(kept[1]), *kept[2:])
    return Watch(now, max(web.beat_at for web in fresh), kept)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A ping is expected within `every` and `grace` after the last one, at the latest at `at`. `is_excused`
    where more time was given since already."""

    at: datetime
    every: timedelta
    grace: timedelta
    is_excused: bool

    @property
    def within(self) -> timedelta:
        return self.every + self.grace

    @property
    def due_at(self) -> datetime:
        return self.at - self.grace


def more_time(expected: Expectation, absences: Collection[Absence]) -> datetime | None:
    """Until when to wait for a ping that did not come, since it, too, may have been lost; None for no longer.

    Once, however often we were away. Only who was away for as long as a ping may take knows no more than
    before, and waits anew.
    """
    begins = expected.at - min(expected.within, expected.grace + max(expected.grace, EARLY))
    least = timedelta()
    if expected.is_excused:
        begins, least = expected.at - expected.within, expected.within
    ends = [
        one.ended_at
        for one in absences
        if one.began_at <= expected.at and one.ended_at > begins and one.longest >= least
    ]
    return max(ends) + expected.within if ends else None
