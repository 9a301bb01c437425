"""Schedules over a time: how far to look, joined and whole shifts, handoffs, and whom overrides displace.

All is made from `schedules/oncall.py: shifts`.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from models.facts import LayerFacts, OverrideFacts, ScheduleFacts
from schedules.oncall import Shift, Span, by_layers, joined, on_call, shifts, union, without
from schedules.restrictions import CYCLES, DAY, is_unrestricted
from schedules.wall import zone_or_utc

# Turns and restrictions that one question may look at: a second of a processor's time, at the most.
MOST_WORK = 100_000
# Spans that are told of each override, and of all in a list.
MOST_SPANS = 1_000
MOST_SPANS_IN_ALL = 50_000
# Earlier and later than this, nobody asks who was on call, and calendars come to their ends.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
# However much there is to look at in a time, this much of it is.
LEAST = timedelta(hours=1)
NOTHING = timedelta()
# The end of what has none.
NEVER = datetime.max.replace(tzinfo=UTC)
# Longer than this, and other than for ever, nobody's turns follow one another.
LONGEST_RUN = 36_525 * DAY
# By less than this do clocks on the wall move turns.
CLOCKS = 2 * DAY


@dataclass(frozen=True, slots=True)
class Whole:
    """A shift joined with those of the same person that come right before and after it, from where that
    begins; `until` is when it ends, or None where nothing ends it."""

    shift: Shift
    until: datetime | None


def work(schedules: Iterable[ScheduleFacts], start: datetime, end: datetime) -> int:
    """At most how many turns and windows of restrictions there are to look at in [start, end)."""
    return sum(_work(layer, start, end) for schedule in schedules for layer in schedule.layers)


def _work(layer: LayerFacts, start: datetime, end: datetime) -> int:
    time = (end if layer.end is None else min(end, layer.end)) - max(start, layer.start)
    if not layer.usernames or time <= NOTHING:
        return 0
    turns = time // layer.shift_length + 2
    if is_unrestricted(layer):
        return turns
    # Those before the layer's own beginning are passed over one by one.
    cycles = (end - start) // CYCLES[layer.restriction_type] + 3
    return turns + cycles * len(layer.restrictions)


def fitting(schedule: ScheduleFacts, start: datetime, end: datetime, most: int = MOST_WORK) -> datetime:
    """Until when there is no more to look at than this: `end`, or half of the time, or half of that ...; but
    `LEAST` of it is looked at in any case."""
    least = min(end, start + LEAST)
    if work([schedule], start, least) > most:
        return least
    while work([schedule], start, end) > most:
        end = max(least, start + (end - start) / 2)
    return end


# A schedule that is to be looked at, from when and until when.
Asked = tuple[ScheduleFacts, datetime, datetime]


def fairly(asked: Sequence[Asked], most: int = MOST_WORK) -> list[datetime]:
    """Until when each is looked at, so that all of it is no more work than this: what takes little is looked
    at first, and what that leaves is for the rest. So nobody's schedule hides another; of what does not fit
    at all, nothing is looked at."""
    costs = [work([schedule], start, end) for schedule, start, end in asked]
    ends = [start for _, start, _ in asked]
    remaining = most
    rising = sorted(range(len(asked)), key=costs.__getitem__)
    for count, place in zip(range(len(asked), 0, -1), rising, strict=True):
        schedule, start, latest = asked[place]
        end = fitting(schedule, start, latest, remaining // count)
        cost = work([schedule], start, end)
        if cost <= remaining:
            ends[place] = end
            remaining -= cost
    return ends


def shifts_of(schedule: ScheduleFacts, start: datetime, end: datetime, here: Container[str]) -> list[Shift]:
    """The shifts that reach into [start, end), of those who are here (by username): joined."""
    return joined(shift for shift in shifts(schedule, start, end) if shift.username in here)


def whole(schedule: ScheduleFacts, found: Iterable[Shift], start: datetime, end: datetime) -> list[Whole]:
    """The joined shifts of [start, end) from where they begin until they end, whatever was asked about. The
    schedule brings all of its overrides, or those since from when nobody asks for the beginnings."""
    return [
        _whole(schedule, shift) if shift.start <= start or shift.end >= end else Whole(shift, shift.end)
        for shift in found
    ]


def _whole(schedule: ScheduleFacts, shift: Shift) -> Whole:
    layer = shift.source
    if isinstance(layer, OverrideFacts):
        return Whole(shift, shift.end)
    if len(set(layer.usernames)) == 1 and is_unrestricted(layer):
        return _alone(schedule, layer, shift)
    reach = _reach(layer, shift.username)
    around = shifts(replace(schedule, layers=(layer,)), shift.start - reach, shift.end + reach)
    runs = joined(each for each in around if each.of == shift.of)
    run = next(run for run in runs if run.start <= shift.start < run.end)
    return Whole(run, run.end)


def _alone(schedule: ScheduleFacts, layer: LayerFacts, shift: Shift) -> Whole:
    """Whose layer has nobody else has one turn, between overrides."""
    taken = union((each.start, each.end) for each in schedule.overrides)
    turns = without((layer.start, layer.end or NEVER), taken)
    start, end = next(turn for turn in turns if turn[0] <= shift.start < turn[1])
    return Whole(replace(shift, start=start, end=end), None if end == NEVER else end)


def _reach(layer: LayerFacts, username: str) -> timedelta:
    """By how much somebody's turns and windows in a row may be longer than what is known of them."""
    reach = LONGEST_RUN if is_unrestricted(layer) else 2 * CYCLES[layer.restriction_type]
    if len(set(layer.usernames)) > 1:
        # The last turns of a round and the first of the next are in a row.
        in_a_row = groupby(layer.usernames * 2)
        longest = max(sum(1 for _ in turns) for name, turns in in_a_row if name == username)
        reach = min(reach, longest * layer.shift_length)
    return reach + CLOCKS


def held(schedule: ScheduleFacts, at: datetime, found: Iterable[Shift], until: datetime) -> list[Whole]:
    """Who is on call at a moment, in the order in which they are paged; `found` are the joined shifts of
    [at, until)."""
    standing = {shift.of: shift for shift in found if shift.start <= at < shift.end}
    now = [standing[shift.of] for shift in on_call(schedule, at) if shift.of in standing]
    return whole(schedule, now, at, until)


def handoff(found: Iterable[Shift], at: datetime, until: datetime) -> datetime | None:
    """When others are on call than at this moment, for the first time before `until`."""
    edges: list[tuple[datetime, str, int]] = []
    standing: Counter[str] = Counter()
    for shift in found:
        if shift.start <= at < shift.end:
            standing[shift.username] += 1
        edges += ((edge, shift.username, by) for edge, by in ((shift.start, 1), (shift.end, -1)) if edge > at)
    before = frozenset(standing)
    for edge, changes in groupby(sorted(edges), key=lambda change: change[0]):
        if edge >= until:
            break
        for _, username, by in changes:
            standing[username] += by
        if {name for name, count in standing.items() if count} != before:
            return edge
    return None


def told_at(zone: str, moment: datetime) -> str:
    """A moment for people, by the clock on the wall of this time zone."""
    local = moment.astimezone(zone_or_utc(zone))
    seconds = ":%S" if local.second else ""
    return f"{local:%a %d %b %Y %H:%M{seconds} %Z}"


def overridden(schedule: ScheduleFacts) -> dict[str, dict[str, list[Span]]]:
    """Whom each override displaces, by the override's unique_id and then by username: the spans within it in
    which somebody would be on call by the layers, and is not on call at all because of it.

    No more than the first `MOST_SPANS` of each override are told, or fewer where there are very many. Where
    there is more than `MOST_WORK` to look at, only the beginnings of the longest ones are, or none of them.
    """
    by_user: dict[str, list[Span]] = {}
    for override in schedule.overrides:
        by_user.setdefault(override.username, []).append((override.start, override.end))
    taken = {username: union(spans) for username, spans in by_user.items()}
    most = min(MOST_SPANS, MOST_SPANS_IN_ALL // max(len(schedule.overrides), 1))
    return {
        override.unique_id: _displaced(schedule, span, taken, most) for override, span in _looked_at(schedule)
    }


def _looked_at(schedule: ScheduleFacts) -> Iterator[tuple[OverrideFacts, Span]]:
    """Each override, and from when until when it is looked at."""
    known = [(schedule, max(each.start, EARLIEST), min(each.end, LATEST)) for each in schedule.overrides]
    for override, (_, start, _), end in zip(schedule.overrides, known, fairly(known), strict=True):
        yield override, (start, end)


def _displaced(
    schedule: ScheduleFacts, span: Span, taken: Mapping[str, Sequence[Span]], most: int
) -> dict[str, list[Span]]:
    start, end = span
    if start >= end:
        return {}
    turns: dict[str, list[Span]] = {}
    for shift in by_layers(schedule, start, end):
        turns.setdefault(shift.username, []).append((max(shift.start, start), min(shift.end, end)))
    left = sorted(
        (piece, username)
        for username, spans in turns.items()
        for turn in union(spans)
        for piece in without(turn, taken.get(username, ()))
    )
    told: dict[str, list[Span]] = {}
    for piece, username in left[:most]:
        told.setdefault(username, []).append(piece)
    return told
