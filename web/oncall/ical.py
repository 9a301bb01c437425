"""A calendar as calendar programs read it: RFC 5545, with the properties of RFC 7986.

Moments are told in UTC. By a zone's own times, what begins in the second of two equal hours, when clocks are
set back, could not be told from what begins in the first: parsers understand each of the two. Programs show
every moment in their reader's zone.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import icalendar

from pipeline.sources.cleaning import clean_line

MIMETYPE = "text/calendar"

# How often a program should ask again, where it leaves that to us.
REFRESH_INTERVAL = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a calendar, from `start` until just before `end`; its `uid` never changes."""

    uid: str
    start: datetime
    end: datetime
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class Calendar:
    """What a calendar says. Its texts may be anything."""

    name: str
    description: str
    time_zone: str
    entries: tuple[Entry, ...] = ()

    def digest(self) -> str:
        """Changes when anything that is said does."""
        return hashlib.blake2b(repr(self).encode(), digest_size=16).hexdigest()


def render(calendar: Calendar, now: datetime) -> bytes:
    """The calendar as text, made at this moment. What begins and ends within a second is left out."""
    ical = icalendar.Calendar()
    # Said to be texts: the library escapes no property that it does not know, and NAME is one of these.
    name, description, zone = (
        icalendar.vText(clean_line(text))
        for text in (calendar.name, calendar.description, calendar.time_zone)
    )
    for key, value in (
        ("prodid", "-//Tocsin//On call//EN"),
        ("version", "2.0"),
        ("calscale", "GREGORIAN"),
        ("method", "PUBLISH"),
        ("name", name),
        ("x-wr-calname", name),
        ("description", description),
        ("x-wr-caldesc", description),
        ("x-wr-timezone", zone),
        ("refresh-interval", icalendar.vDuration(REFRESH_INTERVAL, {"VALUE": "DURATION"})),
        ("x-published-ttl", icalendar.vDuration(REFRESH_INTERVAL)),
    ):
        ical.add(key, value)
    for entry in calendar.entries:
        start, end = (moment.astimezone(UTC).replace(microsecond=0) for moment in (entry.start, entry.end))
        if start < end:
            ical.add_component(_build_event(entry, start, end, now))
    if not ical.subcomponents:
        # Of something every calendar must be made (RFC 5545, 3.6); a zone shows nothing.
        ical.add_component(icalendar.Timezone.from_tzid("UTC"))
    text: bytes = ical.to_ical()
    return text


def _build_event(entry: Entry, start: datetime, end: datetime, now: datetime) -> icalendar.Event:
    # Without LAST-MODIFIED: what changes a shift is seldom a change of its layer, and a program that sees an
    # old date may keep what it has.
    event = icalendar.Event()
    for key, value in (
        ("uid", entry.uid),
        ("dtstamp", now),
        ("dtstart", start),
        ("dtend", end),
        ("summary", clean_line(entry.summary)),
        ("description", clean_line(entry.description)),
        ("status", "CONFIRMED"),
        # Who is on call is free to meet others.
        ("transp", "TRANSPARENT"),
    ):
        event.add(key, value)
    return event
