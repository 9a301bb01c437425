"""Compute when the restrictions of a layer allow shifts.

Contract section 4.5. Restrictions begin and end at local times. A restriction from 22:00 to 08:00 ends at
08:00 every day, even if the clock changes in that night.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from models.domain.enums import RestrictionType
from models.domain.facts import LayerFacts, RestrictionFacts
from schedules.oncall.local_time import DAY, from_local, to_local

# The period after which restrictions repeat.
CYCLES = {RestrictionType.DAILY: DAY, RestrictionType.WEEKLY: 7 * DAY}
NOTHING = timedelta()

# From and until, counted from the beginning of a day or of a Monday.
CycleSpan = tuple[timedelta, timedelta]
Window = tuple[datetime, datetime]


def is_unrestricted(layer: LayerFacts) -> bool:
    """Return whether a layer has no restrictions, or restrictions that cover the whole time."""
    return not _merge_restrictions(layer.restriction_type, layer.restrictions)


def list_windows(layer: LayerFacts, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[Window]:
    """Yield in order the whole spans that reach into [start, end) and that the restrictions of a layer allow.

    Two spans touch only if the clock skips the time between them.
    """
    cycle, spans = (
        CYCLES[layer.restriction_type],
        _merge_restrictions(layer.restriction_type, layer.restrictions),
    )
    local_start = to_local(start, zone)
    begins = _get_cycle_start(local_start, cycle) - cycle
    while True:
        for opens, closes in spans:
            # In local time this span ends at or before `start`, and so it does in UTC.
            if begins + closes <= local_start:
                continue
            opened = from_local(begins + opens, zone)
            if opened >= end:
                return
            closed = from_local(begins + closes, zone)
            # A span that the clock skips as a whole has no length.
            if closed > start and closed > opened:
                yield opened, closed
        begins += cycle


def _get_cycle_start(local: datetime, cycle: timedelta) -> datetime:
    day = datetime.combine(local.date(), time())
    return day - local.weekday() * DAY if cycle > DAY else day


@lru_cache(maxsize=4096)
def _merge_restrictions(
    kind: RestrictionType, restrictions: tuple[RestrictionFacts, ...]
) -> Sequence[CycleSpan]:
    """Merge restrictions of one cycle into spans in order that do not touch.

    The last span may reach beyond the end of the cycle. The result is empty if there are no restrictions or
    if they cover the whole cycle.
    """
    if kind not in CYCLES:
        return ()
    cycle = CYCLES[kind]
    spans = sorted(_list_spans(restrictions, cycle))
    joined: list[CycleSpan] = []
    for opens, closes in spans:
        if joined and opens <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], closes))
        else:
            joined.append((opens, closes))
    # A span that reaches beyond the end of the cycle is merged with the first ones.
    while len(joined) > 1 and joined[-1][1] >= joined[0][0] + cycle:
        first = joined.pop(0)
        joined[-1] = (joined[-1][0], max(joined[-1][1], first[1] + cycle))
    if joined and joined[-1][1] - joined[-1][0] >= cycle:
        return ()
    return joined


def _list_spans(restrictions: Iterable[RestrictionFacts], cycle: timedelta) -> Iterator[CycleSpan]:
    for restriction in restrictions:
        day = (restriction.day - 1) * DAY if cycle > DAY else NOTHING
        opens = day + restriction.time_of_day
        if restriction.duration > NOTHING:
            yield opens, opens + restriction.duration
