"""Compute the shifts of a schedule, at a moment and over a time. Contract section 4.5.

Paging, the interface, schedule overviews and calendar feeds all use `list_shifts`, so they agree.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from zoneinfo import ZoneInfo

from models.domain.facts import LayerFacts, OverrideFacts, ScheduleFacts
from models.domain.values import replace
from schedules.oncall.local_time import get_zone_or_utc
from schedules.oncall.restrictions import is_unrestricted, list_windows
from schedules.oncall.rotation import list_turns

INSTANT = timedelta.resolution

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Shift:
    """A person (by username) is on call from `start` until just before `end`, by this layer or override."""

    username: str
    start: datetime
    end: datetime
    source: LayerFacts | OverrideFacts

    @property
    def is_override(self) -> bool:
        return isinstance(self.source, OverrideFacts)

    @property
    def key(self) -> tuple[str, bool, str]:
        """Identify person and source. Clients may give a layer and an override the same unique_id."""
        return self.username, self.is_override, self.source.unique_id


def list_shifts(schedule: ScheduleFacts, start: datetime, end: datetime) -> list[Shift]:
    """Return the whole shifts that reach into [start, end), ordered by start.

    Shifts with the same start are in the order of overrides and layers. A turn that restrictions or overrides
    interrupt becomes several shifts. The people of all layers are on call together. While overrides are in
    force, only their people are on call.
    """
    overrides = [each for each in schedule.overrides if each.start < end and each.end > start]
    found = [Shift(each.username, each.start, each.end, each) for each in overrides]
    found += _apply_overrides(schedule.overrides, list_layer_shifts(schedule, start, end), start, end)
    return sorted(found, key=lambda shift: shift.start)


def list_on_call(schedule: ScheduleFacts, at: datetime) -> list[Shift]:
    """Return the shifts of this moment in the stored order of overrides or, without these, of layers."""
    found = list_shifts(schedule, at, at + INSTANT)
    index = {id(source): index for index, source in enumerate((*schedule.overrides, *schedule.layers))}
    return sorted(found, key=lambda shift: index[id(shift.source)])


def list_layer_shifts(schedule: ScheduleFacts, start: datetime, end: datetime) -> list[Shift]:
    """Return the shifts without regard to overrides, layer by layer."""
    zone = get_zone_or_utc(schedule.time_zone)
    return [
        shift
        for layer in schedule.layers
        for shift in _list_shifts_of_layer(layer, zone, schedule.by_local_time, start, end)
    ]


def join_shifts(found: Iterable[Shift]) -> list[Shift]:
    """Join shifts of the same person and source that follow each other without a gap."""
    last: dict[tuple[str, bool, str], int] = {}
    merged: list[Shift] = []
    for shift in found:
        index = last.get(shift.key)
        if index is not None and merged[index].end == shift.start:
            merged[index] = replace(merged[index], end=shift.end)
        else:
            last[shift.key] = len(merged)
            merged.append(shift)
    return merged


def _list_shifts_of_layer(
    layer: LayerFacts, zone: ZoneInfo, by_local_time: bool, start: datetime, end: datetime
) -> Iterator[Shift]:
    """Yield the turns of a layer within its restrictions."""
    taken = list_turns(layer, zone, by_local_time, start, end)
    if is_unrestricted(layer):
        for username, opens, closes in taken:
            yield Shift(username, opens, closes, layer)
        return
    allowed = list_windows(layer, zone, start, end)
    window = next(allowed, None)
    for username, opens, closes in taken:
        while window is not None and window[0] < closes:
            begins, ends = max(opens, window[0]), min(closes, window[1])
            if begins < end and ends > max(start, begins):
                yield Shift(username, begins, ends, layer)
            if window[1] > closes:
                break
            window = next(allowed, None)


def _apply_overrides(
    overrides: Iterable[OverrideFacts], found: list[Shift], start: datetime, end: datetime
) -> Iterator[Shift]:
    """Yield the parts of shifts without overrides that reach into [start, end)."""
    first = min((shift.start for shift in found), default=start)
    last = max((shift.end for shift in found), default=end)
    spans = merge_spans(
        (each.start, each.end) for each in overrides if each.start < last and each.end > first
    )
    for shift in found:
        for begins, ends in subtract_spans((shift.start, shift.end), spans):
            if begins < end and ends > start:
                is_whole = (begins, ends) == (shift.start, shift.end)
                yield shift if is_whole else replace(shift, start=begins, end=ends)


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or touch, and return them in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif start < end:
            merged.append((start, end))
    return merged


def subtract_spans(span: Span, taken: Sequence[Span]) -> Iterator[Span]:
    """Yield what is left of a span without the `taken` spans, which are in order and do not touch."""
    start, end = span
    # Bisect, since over a long time many taken spans end before this one.
    for index in range(bisect_right(taken, start, key=itemgetter(1)), len(taken)):
        begins, ends = taken[index]
        if begins >= end:
            break
        if begins > start:
            yield start, begins
        start = ends
    if start < end:
        yield start, end
