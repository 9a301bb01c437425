"""Write times as a reader sees them, in the time zone of the reader."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def format_time(at: datetime, zone: str, *, names_zone: bool = True) -> str:
    """Return a time in the reader's time zone. UTC if the zone is unknown.

    `names_zone`: with the full name of the zone after its abbreviation, for readers who did not choose it.
    """
    local = at.astimezone(_get_zone(zone))
    name = local.tzname() or "UTC"
    day = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} {local.year}"
    zone_name = "" if not names_zone or str(local.tzinfo) in ("UTC", name) else f" ({local.tzinfo})"
    return f"{day}, {local:%H:%M:%S} {name}{zone_name}"


def format_short_time(at: datetime, zone: str) -> str:
    """Return weekday, hour and minute in the reader's time zone, with its short name."""
    local = at.astimezone(_get_zone(zone))
    return f"{WEEKDAYS[local.weekday()]} {local:%H:%M} {local.tzname() or 'UTC'}"


def format_clock(at: datetime, zone: str) -> str:
    """Return hours and minutes of a time in the reader's time zone."""
    return f"{at.astimezone(_get_zone(zone)):%H:%M}"


def _get_zone(name: str) -> tzinfo:
    # OSError: the text is the name of a folder in the time zone database.
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
