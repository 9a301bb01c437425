"""Read the times that people write into forms: in their own time zone."""

from datetime import datetime

from schedules.oncall.local_time import from_local, get_zone_or_utc
from web.http.auth import viewer
from web.http.errors import reject

# Dates that are far from any schedule are refused, because a time zone moves them out of the calendar.
MIN_YEAR, MAX_YEAR = 2000, 2200


def read_local(name: str, text: str) -> datetime:
    """Return a time of a form in UTC, or raise BadRequest with the name of its field."""
    try:
        local = datetime.fromisoformat(text)
    except ValueError:
        reject(name, "Must be a date and time, for example 2026-03-07T03:00.")
    if local.tzinfo is not None or not is_near(local.year):
        reject(name, f"Must be in your time zone, without a name of it, from {MIN_YEAR} to {MAX_YEAR}.")
    return from_local(local, get_zone_or_utc(viewer().user.time_zone))


def is_near(year: int) -> bool:
    """Return whether pages take dates of this year."""
    return MIN_YEAR <= year <= MAX_YEAR
