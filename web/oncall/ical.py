"""Render a calendar for calendar programs: RFC 5545, with the properties of RFC 7986.

All times are in UTC. When clocks are set back, a local hour occurs twice, and parsers differ in which of the
two they use. Programs show all times in the time zone of their user.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from pipeline.sources.reading.cleaning import clean_line

# To import it takes a tenth of the start of a web process, so that the functions import it.
if TYPE_CHECKING:
    import icalendar

MIMETYPE = "text/calendar"

# Suggested time between two requests of a program.
REFRESH_INTERVAL = timedelta(hours=1)
# What a mail address in a URI may contain unescaped (RFC 6068).
MAIL_CHARACTERS = "@!$'*+"


@dataclass(frozen=True, slots=True)
class Attendee:
    """A person of a calendar entry, for programs that read who is on call."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A calendar entry from `start` to `end` (exclusive). Its `uid` never changes."""

    uid: str
    start: datetime
    end: datetime
    summary: str
    description: str
    attendee: Attendee


@dataclass(frozen=True, slots=True)
class Calendar:
    """The content of a calendar. Its texts may contain any characters."""

    name: str
    description: str
    time_zone: str
    entries: tuple[Entry, ...] = ()

    def digest(self) -> str:
        """Return a hash of the content."""
        return hashlib.blake2b(repr(self).encode(), digest_size=16).hexdigest()


def render(calendar: Calendar, now: datetime) -> bytes:
    """Return the calendar as text with `now` as its time. Entries shorter than a second are left out."""
    import icalendar

    ical = icalendar.Calendar()
    # The explicit type is needed: the library escapes only properties that it knows, and NAME is unknown.
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
        # A calendar must have at least one component (RFC 5545, 3.6); a time zone is not visible.
        ical.add_component(icalendar.Timezone.from_tzid("UTC"))
    text: bytes = ical.to_ical()
    return text


def _build_event(entry: Entry, start: datetime, end: datetime, now: datetime) -> "icalendar.Event":
    import icalendar

    # LAST-MODIFIED is left out. A shift can change although its layer does not change. With the old date of
    # the layer, a calendar program may keep its old copy.
    event = icalendar.Event()
    for key, value in (
        ("uid", entry.uid),
        ("dtstamp", now),
        ("dtstart", start),
        ("dtend", end),
        ("summary", clean_line(entry.summary)),
        ("description", clean_line(entry.description)),
        ("attendee", _build_attendee(entry.attendee)),
        ("status", "CONFIRMED"),
        # A person on call is free for meetings.
        ("transp", "TRANSPARENT"),
    ):
        event.add(key, value)
    return event


def _build_attendee(person: Attendee) -> "icalendar.vCalAddress":
    """Build the address of a person who takes part and gets no invitation (RFC 6638, 7.1)."""
    import icalendar

    address = icalendar.vCalAddress(f"mailto:{quote(person.email, safe=MAIL_CHARACTERS)}")
    for name, value in (
        # A parameter cannot have double quotes (RFC 5545, 3.1).
        ("CN", clean_line(person.name).replace('"', "'")),
        ("CUTYPE", "INDIVIDUAL"),
        ("PARTSTAT", "ACCEPTED"),
        ("RSVP", "FALSE"),
        ("SCHEDULE-AGENT", "NONE"),
    ):
        address.params[name] = icalendar.vText(value)
    return address
