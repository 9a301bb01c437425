"""Compute shifts over a time: work limits, joined and whole shifts, handoffs, displaced people.

Everything here builds on `list_shifts` in schedules/oncall/schedule_shifts.py.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from models.domain.facts import LayerFacts, OverrideFacts, ScheduleFacts
from models.domain.values import replace
from schedules.oncall.local_time import DAY, get_zone_or_utc
from schedules.oncall.restrictions import CYCLES, is_unrestricted
from schedules.oncall.schedule_shifts import (
    Shift,
    Span,
    join_shifts,
    list_layer_shifts,
    list_on_call,
    list_shifts,
    merge_spans,
    subtract_spans,
)

# Limit of turns and restrictions that one request may compute: at most a second of processor time.
MAX_WORK = 100_000
# Limits of the displaced spans that are shown: per override, and for all overrides of a list.
MAX_SPANS = 1_000
MAX_SPANS_TOTAL = 50_000
# Requests are cut to this time, far from the ends of Python's calendar.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
# At least this much of a requested time is computed, even if that is more work than the limit.
MIN_SPAN = timedelta(hours=1)
NOTHING = timedelta()
# The end of a turn that has no end.
NEVER = datetime.max.replace(tzinfo=UTC)
# No series of turns of one person is longer than this, except one without an end.
MAX_SERIES = 36_525 * DAY
# Clock changes move turns by less than this.
CLOCK_MARGIN = 2 * DAY


@dataclass(frozen=True, slots=True)
class FullShift:
    """A shift joined with those of the same person directly before and after it.

    `until` is its end, or None if nothing ends it.
    """

    shift: Shift
    until: datetime | None


def estimate_work(schedules: Iterable[ScheduleFacts], start: datetime, end: datetime) -> int:
    """Return an upper limit of the turns and restriction windows to compute in [start, end)."""
    return sum(_estimate_layer(layer, start, end) for schedule in schedules for layer in schedule.layers)


def _estimate_layer(layer: LayerFacts, start: datetime, end: datetime) -> int:
    time = (end if layer.end is None else min(end, layer.end)) - max(start, layer.start)
    if not layer.usernames or time <= NOTHING:
        return 0
    turns = time // layer.shift_length + 2
    if is_unrestricted(layer):
        return turns
    # Windows before the start of the layer are skipped one by one, so they count as work.
    cycles = (end - start) // CYCLES[layer.restriction_type] + 3
    return turns + cycles * len(layer.restrictions)


def fit_end(schedule: ScheduleFacts, start: datetime, end: datetime, most: int = MAX_WORK) -> datetime:
    """Halve the time until its work is within `most`, and return its end. Keep at least `MIN_SPAN` of it."""
    least = min(end, start + MIN_SPAN)
    if estimate_work([schedule], start, least) > most:
        return least
    while estimate_work([schedule], start, end) > most:
        end = max(least, start + (end - start) / 2)
    return end


# A schedule to compute, with start and end.
WorkRequest = tuple[ScheduleFacts, datetime, datetime]


def share_work(requests: Sequence[WorkRequest], most: int = MAX_WORK) -> list[datetime]:
    """Return the time until which each schedule is computed, so that the total work is within `most`.

    Schedules with little work come first and the rest share what remains, so an expensive schedule does not
    hide another. A schedule for which no work remains gets its start as end.
    """
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
    """Return the joined shifts of these usernames that reach into [start, end)."""
    return join_shifts(shift for shift in list_shifts(schedule, start, end) if shift.username in usernames)


def extend_shifts(
    schedule: ScheduleFacts, found: Iterable[Shift], start: datetime, end: datetime
) -> list[FullShift]:
    """Extend the joined shifts of [start, end) to their real start and end.

    The schedule must contain all overrides, or at least those that can change a start that matters.
    """
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
    joined = join_shifts(each for each in nearby if each.key == shift.key)
    full = next(each for each in joined if each.start <= shift.start < each.end)
    return FullShift(full, full.end)


def _extend_single(schedule: ScheduleFacts, layer: LayerFacts, shift: Shift) -> FullShift:
    """Extend a shift in a layer with a single person: one turn, interrupted only by overrides."""
    taken = merge_spans((each.start, each.end) for each in schedule.overrides)
    turns = subtract_spans((layer.start, layer.end or NEVER), taken)
    start, end = next(turn for turn in turns if turn[0] <= shift.start < turn[1])
    return FullShift(replace(shift, start=start, end=end), None if end == NEVER else end)


def find_endless(schedule: ScheduleFacts) -> dict[str, datetime]:
    """Return the layers in which one person is on call without an end, by unique_id.

    The value is the time from which on nothing interrupts the shift: after the last of the loaded overrides.
    """
    last = max((each.end for each in schedule.overrides), default=EARLIEST)
    return {
        layer.unique_id: max(layer.start, last)
        for layer in schedule.layers
        if layer.end is None and len(set(layer.usernames)) == 1 and is_unrestricted(layer)
    }


def is_endless(shift: Shift, endless: Mapping[str, datetime]) -> bool:
    """Return whether the shift, joined with its next turns, has no end. `endless`: see `find_endless`."""
    since = None if shift.is_override else endless.get(shift.source.unique_id)
    return since is not None and shift.start >= since


def _get_reach(layer: LayerFacts, username: str) -> timedelta:
    """Return how far a person's series of turns or windows may reach beyond the known part of it."""
    reach = MAX_SERIES if is_unrestricted(layer) else 2 * CYCLES[layer.restriction_type]
    if len(set(layer.usernames)) > 1:
        # The last turns of a round and the first of the next round follow each other.
        in_a_row = groupby(layer.usernames * 2)
        longest = max(sum(1 for _ in turns) for name, turns in in_a_row if name == username)
        reach = min(reach, longest * layer.shift_length)
    return reach + CLOCK_MARGIN


def list_current(
    schedule: ScheduleFacts, at: datetime, found: Iterable[Shift], until: datetime
) -> list[FullShift]:
    """Return the shifts of a moment in paging order; `found` are the joined shifts of [at, until)."""
    active = {shift.key: shift for shift in found if shift.start <= at < shift.end}
    now = [active[shift.key] for shift in list_on_call(schedule, at) if shift.key in active]
    return extend_shifts(schedule, now, at, until)


def find_handoff(found: Iterable[Shift], at: datetime, until: datetime) -> datetime | None:
    """Return the first time before `until` at which other people are on call than at `at`; None if never."""
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
    """Format a moment for people, in the local time of this zone."""
    local = moment.astimezone(get_zone_or_utc(zone))
    seconds = ":%S" if local.second else ""
    return f"{local:%a %d %b %Y %H:%M{seconds} %Z}"


def find_displaced(schedule: ScheduleFacts) -> dict[str, dict[str, list[Span]]]:
    """Return the people whom overrides displace: spans by the override's unique_id and then by username.

    In these spans a person would be on call by a layer, and because of the override is not on call at all.
    Each override has at most the first `MAX_SPANS`, fewer if there are very many overrides. If the work is
    more than `MAX_WORK`, only the beginnings of the longest overrides are computed, or none of them.
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
    """Yield each override with the span of it that is computed."""
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
