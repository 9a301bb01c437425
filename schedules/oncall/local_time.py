"""The clock on the wall of a time zone, and the moments it stands for."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND = timedelta(seconds=1)


@lru_cache(maxsize=1024)
def get_zone(name: str) -> ZoneInfo:
    """The time zone of this name, aliases included. Raises ZoneInfoNotFoundError for one that is none."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:
        # Folders and other files beside the zones, and what cannot be the name of a file.
        raise ZoneInfoNotFoundError(f"no time zone has the name {name!r}") from error


def get_zone_or_utc(name: str) -> ZoneInfo:
    """The time zone of this name, or UTC where this host does not know it.

    A schedule whose zone was taken out of the host's data must page somebody, if at other hours (law 9).
    """
    try:
        return get_zone(name)
    except ZoneInfoNotFoundError:
        return get_zone("UTC")


def to_local(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clock shows at a moment, as a datetime without a zone."""
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        # Behind UTC, clocks show no time yet when the first year begins, as many programs write "never".
        return moment.replace(tzinfo=None)


def from_local(local: datetime, zone: ZoneInfo) -> datetime:
    """When the clock first shows this time or, where it jumps over it, jumps: aware UTC.

    So the moments of later times are never earlier ones, and a time that is shown twice counts once
    (docs/decisions/0013).
    """
    # Read from a clock, a time may be marked as the second of two.
    first = local.replace(tzinfo=zone, fold=0)
    before, after = first.utcoffset(), first.replace(fold=1).utcoffset()
    moment = first.astimezone(UTC)
    # The offset is the larger one later on only where the clock leaps forward, over this time.
    if before == after or before is None or after is None or before > after:
        return moment
    return _find_leap(moment - (after - before), moment, zone)


def _find_leap(early: datetime, late: datetime, zone: ZoneInfo) -> datetime:
    """The second in which the zone's offset changes, which it does once after `early` and up to `late`."""
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
