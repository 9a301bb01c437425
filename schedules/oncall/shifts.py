"""Schedules over a time: how far to look, joined and whole shifts, handoffs, and whom overrides displace.

All is made from `schedules/oncall/oncall.py: shifts`.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from models.domain.facts import LayerFacts, OverrideFacts, ScheduleFacts
from schedules.oncall.local_time import get_zone_or_utc
from schedules.oncall.oncall import (
    Shift,
    Span,
    join_shifts,
    list_layer_shifts,
    list_on_call,
    list_shifts,
    merge_spans,
    subtract_spans,
)
from schedules.oncall.restrictions import CYCLES, DAY, is_unrestricted

# Turns and restrictions that one question may look at: a second of a processor's time, at the most.
MAX_WORK = 100_000
# Spans that are told of each override, and of all in a list.
MAX_SPANS = 1_000
MAX_SPANS_TOTAL = 50_000
# Earlier and later than this, nobody asks who was on call, and calendars come to their ends.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
# However much there is to look at in a time, this much of it is.
MIN_SPAN = timedelta(hours=1)
NOTHING = timedelta()
# The end of what has none.
NEVER = datetime.max.replace(tzinfo=UTC)
# Longer than this, and other than for ever, nobody's turns follow one another.
MAX_RUN = 36_525 * DAY
# By less than this do clocks on the wall move turns.
CLOCK_MARGIN = 2 * DAY


@dataclass(frozen=True, slots=True)
class FullShift:
    """A shift joined with those of the same person that come right before and after it, from where that
    begins; `until` is when it ends, or None where nothing ends it."""

    shift: Shift
    until: datetime | None


def estimate_work(schedules: Iterable[ScheduleFacts], start: datetime, end: datetime) -> int:
    """At most how many turns and windows of restrictions there are to look at in [start, end)."""
    return sum(_estimate_layer(layer, start, end) for schedule in schedules for layer in schedule.layers)


def _estimate_layer(layer: LayerFacts, start: datetime, end: datetime) -> int:
    time = (end if layer.end is None else min(end, layer.end)) - max(start, layer.start)
    if not layer.usernames or time <= NOTHING:
        return 0
    turns = time // layer.shift_length + 2
    if is_unrestricted(layer):
        return turns
    # Those before the layer's own beginning are passed over one by one.
    cycles = (end - start) // CYCLES[layer.restriction_type] + 3
    return turns + cycles * len(layer.restrictions)


def fit_end(schedule: ScheduleFacts, start: datetime, end: datetime, most: int = MAX_WORK) -> datetime:
    """Until when there is no more to look at than this: `end`, or half of the time, or half of that ...; but
    `LEAST` of it is looked at in any case."""
    least = min(end, start + MIN_SPAN)
    if estimate_work([schedule], start, least) > most:
        return least
    while estimate_work([schedule], start, end) > most:
        end = max(least, start + (end - start) / 2)
    return end


# A schedule that is to be looked at, from when and until when.
WorkRequest = tuple[ScheduleFacts, datetime, datetime]


def share_work(requests: Sequence[WorkRequest], most: int = MAX_WORK) -> list[datetime]:
    """Until when each is looked at, so that all of it is no more work than this: what takes little is looked
    at first, and what that leaves is for the rest. So nobody's schedule hides another; of what does not fit
    at all, nothing is looked at."""
    costs = [estimate_work([schedule], start, end) for schedule, start, end in requests]
    ends = [start for _, start, _ in requests]
    remaining = most
    by_cost = sorted(range(len(requests)), key=costs.__getitem__)
    for count, place in zip(range(len(requests), 0, -1), by_cost, strict=True):
        schedule, start, latest = requests[place]
        end = fit_end(schedule, start, latest, remaining // count)
        cost = estimate_work([schedule], start, end)
        if cost <= remaining:
            ends[place] = end
            remaining -= cost
    return ends


def list_joined_shifts(
    schedule: ScheduleFacts, start: datetime, end: datetime, usernames: Container[str]
) -> list[Shift]:
    """The shifts that reach into [start, end), of those who are here (by username): joined."""
    return join_shifts(shift for shift in list_shifts(schedule, start, end) if shift.username in usernames)


def extend_shifts(
    schedule: ScheduleFacts, found: Iterable[Shift], start: datetime, end: datetime
) -> list[FullShift]:
    """The joined shifts of [start, end) from where they begin until they end, whatever was asked about. The
    schedule brings all of its overrides, or those since from when nobody asks for the beginnings."""
    return [
        _extend_shift(schedule, shift)
        if shift.start <= start or shift.end >= end
        else FullShift(shift, shift.end)
        for shift in found
    ]


def _extend_shift(schedule: ScheduleFacts, shift: Shift) -> FullShift:
    layer = shift.source
    if isinstance(layer, OverrideFacts):
        return FullShift(shift, shift.end)
    if len(set(layer.usernames)) == 1 and is_unrestricted(layer):
        return _extend_single(schedule, layer, shift)
    reach = _get_reach(layer, shift.username)
    nearby = list_shifts(replace(schedule, layers=(layer,)), shift.start - reach, shift.end + reach)
    runs = join_shifts(each for each in nearby if each.key == shift.key)
    run = next(run for run in runs if run.start <= shift.start < run.end)
    return FullShift(run, run.end)


def _extend_single(schedule: ScheduleFacts, layer: LayerFacts, shift: Shift) -> FullShift:
    """Whose layer has nobody else has one turn, between overrides."""
    taken = merge_spans((each.start, each.end) for each in schedule.overrides)
    turns = subtract_spans((layer.start, layer.end or NEVER), taken)
    start, end = next(turn for turn in turns if turn[0] <= shift.start < turn[1])
    return FullShift(replace(shift, start=start, end=end), None if end == NEVER else end)


def _get_reach(layer: LayerFacts, username: str) -> timedelta:
    """By how much somebody's turns and windows in a row may be longer than what is known of them."""
    reach = MAX_RUN if is_unrestricted(layer) else 2 * CYCLES[layer.restriction_type]
    if len(set(layer.usernames)) > 1:
        # The last turns of a round and the first of the next are in a row.
        in_a_row = groupby(layer.usernames * 2)
        longest = max(sum(1 for _ in turns) for name, turns in in_a_row if name == username)
        reach = min(reach, longest * layer.shift_length)
    return reach + CLOCK_MARGIN


def list_current(
    schedule: ScheduleFacts, at: datetime, found: Iterable[Shift], until: datetime
) -> list[FullShift]:
    """Who is on call at a moment, in the order in which they are paged; `found` are the joined shifts of
    [at, until)."""
    active = {shift.key: shift for shift in found if shift.start <= at < shift.end}
    now = [active[shift.key] for shift in list_on_call(schedule, at) if shift.key in active]
    return extend_shifts(schedule, now, at, until)


def find_handoff(found: Iterable[Shift], at: datetime, until: datetime) -> datetime | None:
    """When others are on call than at this moment, for the first time before `until`."""
    edges: list[tuple[datetime, str, int]] = []
    active: Counter[str] = Counter()
    for shift in found:
        if shift.start <= at < shift.end:
            active[shift.username] += 1
        edges += ((edge, shift.username, by) for edge, by in ((shift.start, 1), (shift.end, -1)) if edge > at)
    before = frozenset(active)
    for edge, changes in groupby(sorted(edges), key=lambda change: change[0]):
        if edge >= until:
            break
        for _, username, by in changes:
            active[username] += by
        if {name for name, count in active.items() if count} != before:
            return edge
    return None


def format_local(zone: str, moment: datetime) -> str:
    """A moment for people, by the clock on the wall of this time zone."""
    local = moment.astimezone(get_zone_or_utc(zone))
    seconds = ":%S" if local.second else ""
    return f"{local:%a %d %b %Y %H:%M{seconds} %Z}"


def find_displaced(schedule: ScheduleFacts) -> dict[str, dict[str, list[Span]]]:
    """Whom each override displaces, by the override's unique_id and then by username: the spans within it in
    which somebody would be on call by the layers, and is not on call at all because of it.

    No more than the first `MOST_SPANS` of each override are told, or fewer where there are very many. Where
    there is more than `MOST_WORK` to look at, only the beginnings of the longest ones are, or none of them.
    """
    by_user: dict[str, list[Span]] = {}
    for override in schedule.overrides:
        by_user.setdefault(override.username, []).append((override.start, override.end))
    taken = {username: merge_spans(spans) for username, spans in by_user.items()}
    most = min(MAX_SPANS, MAX_SPANS_TOTAL // max(len(schedule.overrides), 1))
    return {
        override.unique_id: _find_displaced(schedule, span, taken, most)
        for override, span in _list_overrides(schedule)
    }


def _list_overrides(schedule: ScheduleFacts) -> Iterator[tuple[OverrideFacts, Span]]:
    """Each override, and from when until when it is looked at."""
    known = [(schedule, max(each.start, EARLIEST), min(each.end, LATEST)) for each in schedule.overrides]
    for override, (_, start, _), end in zip(schedule.overrides, known, share_work(known), strict=True):
        yield override, (start, end)


def _find_displaced(
    schedule: ScheduleFacts, span: Span, taken: Mapping[str, Sequence[Span]], most: int
) -> dict[str, list[Span]]:
    start, end = span
    if start >= end:
        return {}
    turns: dict[str, list[Span]] = {}
    for shift in list_layer_shifts(schedule, start, end):
        turns.setdefault(shift.username, []).append((max(shift.start, start), min(shift.end, end)))
    remaining = sorted(
        (piece, username)
        for username, spans in turns.items()
        for turn in merge_spans(spans)
        for piece in subtract_spans(turn, taken.get(username, ()))
    )
    displaced: dict[str, list[Span]] = {}
    for piece, username in remaining[:most]:
        displaced.setdefault(username, []).append(piece)
    return displaced
