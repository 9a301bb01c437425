"""Build schedules for tests and format their shifts; moments are texts as "2026-03-29 01:00", in UTC."""

from datetime import UTC, datetime, timedelta

from models.domain.enums import RestrictionType
from models.domain.facts import LayerFacts, OverrideFacts, RestrictionFacts, ScheduleFacts

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)
SECOND, MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
DAYS = ("", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_time(text):
    return datetime.fromisoformat(text)


def time_of_day(text):
    hours, minutes = text.split(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


def daily(*windows):
    """daily(("22:00", 10 * HOUR), ...): return the arguments that restrict a layer to these times."""
    return restricted(RestrictionType.DAILY, *((0, opens, duration) for opens, duration in windows))


def weekly(*windows):
    """weekly(("Fri 18:00", 60 * HOUR), ...): return the same for weekly times."""
    days = ((*opens.split(), duration) for opens, duration in windows)
    return restricted(
        RestrictionType.WEEKLY, *((DAYS.index(day), opens, duration) for day, opens, duration in days)
    )


def restricted(restriction_type, *windows):
    restrictions = tuple(
        RestrictionFacts(day, time_of_day(opens), duration) for day, opens, duration in windows
    )
    return {"restriction_type": restriction_type, "restrictions": restrictions}


def layer(usernames="alice bob charlie", start="2026-01-05 09:00", *, length=DAY, end=None, **options):
    return LayerFacts(
        unique_id=options.pop("unique_id", "layer-1"),
        name="Layer-1",
        usernames=tuple(usernames.split()),
        shift_length=length,
        start=at(start),
        end=None if end is None else at(end),
        **options,
    )


def override(username, start, end, unique_id="override-1"):
    return OverrideFacts(unique_id, "Override-1", username, at(start), at(end))


def schedule(*layers, time_zone="UTC", by_local_time=False, overrides=()):
    return ScheduleFacts(1, "schedule-1", "Schedule", time_zone, by_local_time, layers, tuple(overrides))


def spans(shifts):
    """Format each shift as "03-28 21:00 - 03-29 06:00 alice"."""
    return [f"{shift.start:%m-%d %H:%M} - {shift.end:%m-%d %H:%M} {shift.username}" for shift in shifts]


def handoffs(shifts):
    """Format the start of each shift as "03-28 21:00 alice", and assert that there are no gaps."""
    assert [shift.end for shift in shifts[:-1]] == [shift.start for shift in shifts[1:]]
    return [f"{shift.start:%m-%d %H:%M} {shift.username}" for shift in shifts]
