"""What is wrong with schedules over a time: nobody on call, somebody twice, or somebody from elsewhere.

All is made from `schedules/oncall.py: shifts`. People are given as `names`, by username, of those who are in
the account: who is not among them is nobody.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby

from models.facts import LayerFacts, OverrideFacts, RotaFacts, ScheduleFacts
from schedules.oncall import Shift, Span, by_layers, joined, on_call, shifts, union, without
from schedules.restrictions import CYCLES, is_unrestricted
from schedules.wall import zone_or_utc

# Turns and restrictions that one question may look at: a second of a processor's time, at the most.
MOST_WORK = 100_000
# Nobody is helped by more; the first by time are told.
MOST_PROBLEMS = 1_000
# Spans that are told of each override, and of all in a list.
MOST_SPANS = 1_000
MOST_SPANS_IN_ALL = 50_000
# Earlier and later than this, nobody asks who was on call, and calendars come to their ends.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
# However much there is to look at in a time, this much of it is.
LEAST = timedelta(hours=1)
NOTHING = timedelta()


class ProblemKind(StrEnum):
    GAP = "gap"
    TWICE = "twice"
    NOT_IN_TEAM = "not_in_team"


@dataclass(frozen=True, slots=True)
class Problem:
    """From `start` until `end`, within what was asked about. `what` is a sentence in the time zone of the
    first of the schedules, which it is about; it names `username` as others do."""

    kind: ProblemKind
    start: datetime
    end: datetime
    what: str
    schedules: tuple[ScheduleFacts, ...]
    username: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A shift of this moment, joined with those of the same person that follow it; `until` is when that ends,
    or None where it reaches beyond what was looked at."""

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


def fitting(
    schedules: Sequence[ScheduleFacts], start: datetime, end: datetime, most: int = MOST_WORK
) -> datetime:
    """Until when there is no more to look at than this: `end`, or half of the time, or half of that ...; but
    `LEAST` of it is looked at in any case."""
    least = min(end, start + LEAST)
    if work(schedules, start, least) > most:
        return least
    while work(schedules, start, end) > most:
        end = max(least, start + (end - start) / 2)
    return end


def shifts_of(schedule: ScheduleFacts, start: datetime, end: datetime, here: Container[str]) -> list[Shift]:
    """The shifts that reach into [start, end), of those who are here: joined."""
    return joined(shift for shift in shifts(schedule, start, end) if shift.username in here)


def held(schedule: ScheduleFacts, at: datetime, found: Iterable[Shift], until: datetime) -> list[Held]:
    """Who is on call at a moment, in the order in which they are paged; `found` are the joined shifts of
    [at, until)."""
    standing = {_key(shift): shift for shift in found if shift.start <= at < shift.end}
    now = [standing[_key(shift)] for shift in on_call(schedule, at) if _key(shift) in standing]
    return [Held(shift, shift.end if shift.end < until else None) for shift in now]


def _key(shift: Shift) -> tuple[str, str]:
    return shift.username, shift.source.unique_id


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


def gaps(rota: RotaFacts, found: Iterable[Shift], start: datetime, end: datetime) -> list[Problem]:
    """When nobody is on call within [start, end), of which `found` are the shifts."""
    covered = union((shift.start, shift.end) for shift in found)
    return [
        Problem(ProblemKind.GAP, begins, ends, _gap(rota, (begins, ends), (start, end)), (rota.schedule,))
        for begins, ends in without((start, end), covered)
    ]


def _gap(rota: RotaFacts, gap: Span, asked: Span) -> str:
    schedule = rota.schedule
    unused = "" if rota.is_used else "; no policy uses it"
    if not schedule.overrides and not any(layer.usernames for layer in schedule.layers):
        return f"nobody is on call by {schedule.name}: no active layer has people{unused}"
    least = "at least " if gap[1] == asked[1] else ""
    opens, closes = (told_at(schedule, moment) for moment in gap)
    return f"nobody is on call by {schedule.name} from {opens} to {least}{closes}{unused}"


def strangers(rota: RotaFacts, start: datetime, end: datetime, names: Mapping[str, str]) -> list[Problem]:
    """Overrides within [start, end) by people of the account who are not in the schedule's team."""
    schedule = rota.schedule
    found = []
    for override in schedule.overrides:
        begins, ends = max(override.start, start), min(override.end, end)
        name = names.get(override.username)
        if begins < ends and name is not None and override.username not in rota.members:
            what = (
                f"{name} overrides {schedule.name} ({override.name}) {_span(schedule, begins, ends)}"
                f" and is not in the team {rota.team}"
            )
            kind = ProblemKind.NOT_IN_TEAM
            found.append(Problem(kind, begins, ends, what, (schedule,), override.username))
    return sorted(found, key=lambda problem: problem.start)


# A shift, and the schedule that it is of.
Of = tuple[Shift, ScheduleFacts]


def twice(
    rotas: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    names: Mapping[str, str],
    *,
    about: ScheduleFacts | None = None,
) -> Iterator[Problem]:
    """When somebody is on call by two schedules at once, or twice by one, by when it begins; `about` one of
    the schedules if that is given. The shifts are the joined ones of [start, end)."""
    given = sorted(
        ((shift, schedule) for schedule, found in rotas for shift in found), key=lambda one: one[0].start
    )
    # By whom, and whether of a schedule that it is about: only with such are others compared.
    running: dict[tuple[str, bool], list[Of]] = defaultdict(list)
    for shift, schedule in given:
        begins = max(shift.start, start)
        is_ours = about is None or schedule is about
        for key in ((shift.username, True), (shift.username, False))[: 2 if is_ours else 1]:
            running[key] = [one for one in running[key] if one[0].end > begins]
            for other, by in running[key]:
                mine, theirs = (shift, schedule), (other, by)
                pair = (mine, theirs) if schedule is about else (theirs, mine)
                yield _twice(*pair, (begins, min(shift.end, other.end, end)), names)
        running[shift.username, is_ours].append((shift, schedule))


def _twice(first: Of, second: Of, span: Span, names: Mapping[str, str]) -> Problem:
    (one, schedule), (other, by) = first, second
    if by is schedule:
        where = f"by {schedule.name}, by {_source(one.source)} and by {_source(other.source)}"
    else:
        where = f"by {schedule.name} ({_source(one.source)}) and by {by.name} ({_source(other.source)})"
    what = f"{names[one.username]} is on call twice {_span(schedule, *span)}: {where}"
    about = (schedule,) if by is schedule else (schedule, by)
    return Problem(ProblemKind.TWICE, *span, what, about, one.username)


def _source(source: LayerFacts | OverrideFacts) -> str:
    return f"{'override' if isinstance(source, OverrideFacts) else 'layer'} {source.name}"


def _span(schedule: ScheduleFacts, start: datetime, end: datetime) -> str:
    return f"from {told_at(schedule, start)} to {told_at(schedule, end)}"


def told_at(schedule: ScheduleFacts, moment: datetime) -> str:
    """A moment for people, by the clock on the schedule's wall."""
    local = moment.astimezone(zone_or_utc(schedule.time_zone))
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
    """Each override, and from when until when it is looked at: what the shorter ones leave of what may be
    looked at is for the longer ones."""
    known = [(each, max(each.start, EARLIEST), min(each.end, LATEST)) for each in schedule.overrides]
    rising = sorted(known, key=lambda each: work([schedule], *each[1:]))
    remaining = MOST_WORK
    for count, (override, start, latest) in zip(range(len(rising), 0, -1), rising, strict=True):
        end = fitting([schedule], start, latest, remaining // count)
        cost = work([schedule], start, end)
        if cost > remaining:
            end, cost = start, 0
        remaining -= cost
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
