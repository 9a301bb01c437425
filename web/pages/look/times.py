"""Write times as people read them: "12 min ago", "since 03:45", "until Mon 09:00 (in 2 d)".

Each is a `<time>` with the exact time, and its zone, for those who point at it or focus it.
"""

from datetime import datetime, timedelta

from markupsafe import Markup

from pipeline.messages.times import MONTHS, WEEKDAYS, format_time
from schedules.oncall.local_time import get_zone_or_utc

MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 7 * 86_400
# Within so many days, the name of the weekday says which day is meant.
NEAR = timedelta(days=6)


def describe_span(span: timedelta) -> str:
    """Return how long a time is, in one unit, or in days and hours: "40 s", "12 min", "1 d 2 h", "12 d"."""
    seconds = max(int(span.total_seconds()), 0)
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < DAY:
        return f"{seconds // HOUR} h"
    hours = seconds % DAY // HOUR
    return f"{seconds // DAY} d {hours} h" if seconds < WEEK and hours else f"{seconds // DAY} d"


class Times:
    """Times as a reader in this zone reads them now."""

    def __init__(self, zone: str, now: datetime) -> None:
        self._name, self._zone, self._now = zone, get_zone_or_utc(zone), now

    def name_zone(self) -> str:
        """Return the zone as a page names it once: "Europe/Berlin (CET)"."""
        short = self._now.astimezone(self._zone).tzname() or ""
        name = str(self._zone)
        return name if not short or short == name else f"{name} ({short})"

    def describe(self, at: datetime) -> str:
        """Return a time of the clock, with as much of its day as is needed: "09:00", "Mon 09:00"."""
        local, today = at.astimezone(self._zone), self._now.astimezone(self._zone).date()
        if local.date() == today:
            return f"{local:%H:%M}"
        if abs(local.date() - today) <= NEAR:
            return f"{WEEKDAYS[local.weekday()]} {local:%H:%M}"
        day = f"{local.day} {MONTHS[local.month - 1]}"
        return f"{day} {local:%H:%M}" if local.year == today.year else f"{day} {local.year}, {local:%H:%M}"

    def describe_distance(self, at: datetime) -> str:
        """Return how far away a time is: "in 2 d", "12 min ago"."""
        return f"in {describe_span(at - self._now)}" if at > self._now else f"{self.describe_age(at)} ago"

    def describe_age(self, at: datetime) -> str:
        return describe_span(self._now - at)

    def mark(self, at: datetime, text: str, *, kind: str = "", in_row: bool = False) -> Markup:
        """Return a text about a time as its element.

        `kind` tells the script which text to renew: "age" or "ago". `in_row`: the Tab key does not stop here,
        because a list has very many.
        """
        return Markup('<time datetime="{}" title="{}" tabindex="{}"{}>{}</time>').format(
            at.isoformat(),
            format_time(at, self._name),
            "-1" if in_row else "0",
            Markup(' data-{}=""').format(kind) if kind else "",
            text,
        )
