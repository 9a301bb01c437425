"""When a layer counts: restrictions as spans of local time, and the moments they begin and end.

Contract section 4.5. Both ends are times by the clock on the wall: a night from 22:00 to 08:00 ends at 08:00
in every night of the year, however long it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from models.domain.enums import RestrictionType
from models.domain.facts import LayerFacts, RestrictionFacts
from schedules.oncall.local_time import from_local, to_local

DAY = timedelta(days=1)
# How often restrictions come round.
CYCLES = {RestrictionType.DAILY: DAY, RestrictionType.WEEKLY: 7 * DAY}
NOTHING = timedelta()

# From and until, counted from the beginning of a day or of a Monday.
CycleSpan = tuple[timedelta, timedelta]
Window = tuple[datetime, datetime]


def is_unrestricted(layer: LayerFacts) -> bool:
    """Whether a layer counts at any time: its restrictions leave nothing out, or there are none."""
    return not _merge_restrictions(layer.restriction_type, layer.restrictions)


def list_windows(layer: LayerFacts, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[Window]:
    """The spans in which a restricted layer counts that reach into [start, end): whole, and in order.

    They are apart, but where the clock leaps over what is between them.
    """
    cycle, spans = (
        CYCLES[layer.restriction_type],
        _merge_restrictions(layer.restriction_type, layer.restrictions),
    )
    local_start = to_local(start, zone)
    begins = _get_cycle_start(local_start, cycle) - cycle
    while True:
        for opens, closes in spans:
            # What the clock shows at the start, or showed before, is no later moment.
            if begins + closes <= local_start:
                continue
            opened = from_local(begins + opens, zone)
            if opened >= end:
                return
            closed = from_local(begins + closes, zone)
            # One that the clock jumps over altogether is none.
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
    """The union of restrictions, once around: in order and apart, the last perhaps beyond the cycle's end.
    Nothing when they leave nothing out, as when there are none."""
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
    # What reaches around the end joins what stands at the beginning.
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
