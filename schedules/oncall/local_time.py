"""Convert between UTC and the local time of a time zone."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

# From, until, and the difference between local time and UTC.
OffsetSpan = tuple[datetime, datetime, timedelta]


@lru_cache(maxsize=1024)
def get_zone(name: str) -> ZoneInfo:
    """Return the time zone of this name or alias. Raise ZoneInfoNotFoundError if there is none."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:
        # The name of a folder or of another file among the zones, or not a valid file name.
        raise ZoneInfoNotFoundError(f"no time zone has the name {name!r}") from error


def get_zone_or_utc(name: str) -> ZoneInfo:
    """Return the time zone of this name, or UTC if this host does not know it.

    If a schedule's zone is no longer in the host's data, the schedule must still page somebody, even at
    other hours: invariant 9 (design, section 2).
    """
    try:
        return get_zone(name)
    except ZoneInfoNotFoundError:
        return get_zone("UTC")


def is_known_zone(name: str) -> bool:
    """Return whether this host knows the time zone; else its times are computed in UTC."""
    try:
        get_zone(name)
    except ZoneInfoNotFoundError:
        return False
    return True


def list_zone_warnings(name: str, time_zone: str) -> list[str]:
    """Return a sentence for people if the host does not know the time zone of the thing with this name."""
    if is_known_zone(time_zone):
        return []
    return [f"this host does not know the time zone {time_zone} of {name}: all its times are computed in UTC"]


def to_local(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the local time at a moment, as a datetime without a zone."""
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        # Many programs write "never" as the first moment of year 1; zones behind UTC have no local time then.
        return moment.replace(tzinfo=None)


def from_local(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment, in UTC, at which the local clock shows this time.

    If the clock skips the time, return the moment of the change. So a later local time never gives an
    earlier moment, and a local time that occurs twice counts once (docs/decisions/0013).
    """
    # fold=1 may mark a local time as the second of two equal ones.
    first = local.replace(tzinfo=zone, fold=0)
    before, after = first.utcoffset(), first.replace(fold=1).utcoffset()
    moment = first.astimezone(UTC)
    # With fold=1, the offset is larger only if the clock skips this time.
    if before == after or before is None or after is None or before > after:
        return moment
    return _find_clock_change(moment - (after - before), moment, zone)


# Cached: the schedules of an account have few zones, and a check of all of them has one span.
@lru_cache(maxsize=256)
def list_offsets(zone: ZoneInfo, start: datetime, end: datetime) -> tuple[OffsetSpan, ...]:
    """Return in order the spans of [start, end) in which the clock does not change, with their offsets.

    The zone is looked at once a day, so two changes on one day that cancel out are not found.
    """
    edges, early = [start], start
    while early < end:
        late = min(early + DAY, end)
        if get_offset(early, zone) != get_offset(late, zone):
            edges.append(_find_clock_change(early, late, zone))
        early = late
    spans = pairwise([*edges, end])
    return tuple((since, until, get_offset(since, zone)) for since, until in spans if since < until)


def get_offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    """Return the difference between local time and UTC at a moment in UTC."""
    return to_local(moment, zone) - moment.replace(tzinfo=None)


def _find_clock_change(early: datetime, late: datetime, zone: ZoneInfo) -> datetime:
    """Return the second in which the zone's offset changes: once after `early` and up to `late`."""
    offset = late.astimezone(zone).utcoffset()
    while late - early > SECOND:
        middle = early + (late - early) // 2
        middle = middle.replace(microsecond=0)
        if middle <= early:
            break
        if middle.astimezone(zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0)
