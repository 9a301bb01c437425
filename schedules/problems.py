"""What is wrong with schedules and policies over a time: nobody on call, somebody twice, or from elsewhere.

All is made from joined shifts (schedules/coverage.py). People are given as `names`, by username, of those who
are in the account: who is not among them is nobody.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from models.enums import TargetType
from models.facts import Directory, LayerFacts, OverrideFacts, PolicyFacts, RotaFacts, ScheduleFacts
from schedules.coverage import EARLIEST, told_at
from schedules.oncall import Shift, Span, union, without

# Nobody is helped by more; the first by time are told.
MOST_PROBLEMS = 1_000
# So many of the same are told one by one, more of them as one.
MOST_APART = 3


class ProblemKind(StrEnum):
    GAP = "gap"
    TWICE = "twice"
    NOT_IN_TEAM = "not_in_team"


@dataclass(frozen=True, slots=True)
class Problem:
    """From `start` until `end`, within what was asked about, or so many `times` in between. `what` is a
    sentence in the time zone of the first of the schedules, which it is about; it names `username` as others
    do. Nobody need do anything by now about what is `minor`."""

    kind: ProblemKind
    start: datetime
    end: datetime
    what: str
    schedules: tuple[ScheduleFacts, ...]
    username: str | None = None
    minor: bool = False
    times: int = 1


def gaps(rota: RotaFacts, found: Iterable[Shift], start: datetime, end: datetime) -> list[Problem]:
    """When nobody is on call within [start, end), of which `found` are the shifts."""
    return [gap_of_schedule(rota, [span], end) for span in without((start, end), union(spans_of(found)))]


def spans_of(found: Iterable[Shift]) -> Iterator[Span]:
    return ((shift.start, shift.end) for shift in found)


def in_few(spans: Sequence[Span]) -> list[Sequence[Span]]:
    """Each apart or, where they are more than a few, all together."""
    return [[span] for span in spans] if len(spans) <= MOST_APART else [spans]


def gap_of_schedule(rota: RotaFacts, spans: Sequence[Span], asked: datetime) -> Problem:
    """These are the spans before `asked` in which nobody is on call by a schedule."""
    schedule = rota.schedule
    what = _nobody(schedule.name, schedule.time_zone, spans, asked)
    if not schedule.overrides and not any(layer.usernames for layer in schedule.layers):
        what = f"nobody is on call by {schedule.name}: no active layer has people"
    unused = "" if rota.is_used else "; no policy uses it"
    return _gap(spans, f"{what}{unused}", (schedule,))


def gap_of_policy(
    policy: PolicyFacts, schedules: tuple[ScheduleFacts, ...], spans: Sequence[Span], asked: datetime
) -> Problem:
    """The same of a policy, which names these schedules."""
    zone = schedules[0].time_zone if schedules else "UTC"
    return _gap(spans, _nobody(f"the policy {policy.name}", zone, spans, asked), schedules)


def _gap(spans: Sequence[Span], what: str, schedules: tuple[ScheduleFacts, ...]) -> Problem:
    return Problem(ProblemKind.GAP, spans[0][0], spans[-1][1], what, schedules, times=len(spans))


def _nobody(name: str, zone: str, spans: Sequence[Span], asked: datetime) -> str:
    return f"nobody is on call by {name} {_times(zone, spans[0], len(spans), spans[-1][1], asked)}"


def _times(
    zone: str, first: Span, count: int = 1, last: datetime | None = None, asked: datetime | None = None
) -> str:
    """When something is, in words: from when to when, or how many times until when. What lasts until the end
    of what was asked about may last longer."""
    opens, closes = (told_at(zone, moment) for moment in first)
    if count > 1:
        return f"{count:,} times until {told_at(zone, last or first[1])}, first from {opens} to {closes}"
    return f"from {opens} to {'at least ' if first[1] == asked else ''}{closes}"


@dataclass(frozen=True, slots=True)
class Cover:
    """What of a policy is known: `spans` in which a step names somebody, in order and apart, of the time up
    to `until`, and the schedules that it names."""

    spans: Sequence[Span]
    until: datetime
    schedules: tuple[ScheduleFacts, ...] = ()


def cover(
    policy: PolicyFacts,
    directory: Directory,
    looked_at: Mapping[str, tuple[ScheduleFacts, Sequence[Shift], datetime]],
    start: datetime,
    end: datetime,
) -> Cover:
    """When the steps of a policy name anybody within [start, end). Schedules are given by unique_id, each
    with its shifts and until when it was looked at."""
    targets = {target: None for step in policy.steps for target in step.targets}
    named = {target.name for target in targets if target.kind is TargetType.USER}
    known = [
        looked_at[target.name]
        for target in targets
        if target.kind is TargetType.SCHEDULE and target.name in looked_at
    ]
    schedules = tuple(schedule for schedule, _, _ in known)
    if not named.isdisjoint(directory.people):
        return Cover([(start, end)], end, schedules)
    spans = union(span for _, found, _ in known for span in spans_of(found))
    return Cover(spans, min((until for _, _, until in known), default=end), schedules)


def strangers(rota: RotaFacts, start: datetime, end: datetime, names: Mapping[str, str]) -> list[Problem]:
    """Overrides within [start, end) by people of the account who are not in the schedule's team and, as minor
    ones, those who are in layers of this time, once in each."""
    found = [*_overriding(rota, start, end, names), *_taking_turns(rota, start, end, names)]
    return sorted(found, key=lambda problem: (problem.start, problem.minor))


def _overriding(
    rota: RotaFacts, start: datetime, end: datetime, names: Mapping[str, str]
) -> Iterator[Problem]:
    schedule = rota.schedule
    for override in schedule.overrides:
        begins, ends = max(override.start, start), min(override.end, end)
        name = names.get(override.username)
        if begins < ends and name is not None and override.username not in rota.members:
            when = _times(schedule.time_zone, (begins, ends))
            what = f"{name} overrides {schedule.name} ({override.name}) {when}"
            yield _not_in_team(rota, (begins, ends), what, override.username)


def _taking_turns(
    rota: RotaFacts, start: datetime, end: datetime, names: Mapping[str, str]
) -> Iterator[Problem]:
    schedule = rota.schedule
    for layer in schedule.layers:
        begins, ends = max(layer.start, start), min(layer.end or end, end)
        away = [name for name in dict.fromkeys(layer.usernames) if name in names and name not in rota.members]
        if begins < ends:
            for username in away:
                what = f"{names[username]} takes turns in {schedule.name} (layer {layer.name})"
                yield _not_in_team(rota, (begins, ends), what, username, minor=True)


def _not_in_team(rota: RotaFacts, span: Span, does: str, username: str, *, minor: bool = False) -> Problem:
    what = f"{does} and is not in the team {rota.team}"
    return Problem(ProblemKind.NOT_IN_TEAM, *span, what, (rota.schedule,), username, minor)


# A shift, and the schedule that it is of.
Of = tuple[Shift, ScheduleFacts]
# Two of the same person, and the time that they have in common.
Overlap = tuple[Of, Of, Span]


def overlaps(
    rotas: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    about: ScheduleFacts | None = None,
) -> Iterator[Overlap]:
    """When somebody is on call by two schedules at once, or twice by one, by when it begins; `about` one of
    the schedules if that is given. The shifts are the joined ones of [start, end).

    Of several that somebody has by one schedule at once, the one that lasts longest is compared with others.
    """
    given = sorted(
        ((shift, schedule) for schedule, found in rotas for shift in found), key=lambda one: one[0].start
    )
    # By person and schedule.
    running: dict[str, dict[int, Of]] = {}
    for shift, schedule in given:
        begins = max(shift.start, start)
        theirs = running.setdefault(shift.username, {})
        rows = list(theirs) if about is None or schedule is about else [about.row]
        for row in rows:
            one = theirs.get(row)
            if one is None or one[0].end <= begins:
                theirs.pop(row, None)
                continue
            pair = ((shift, schedule), one) if schedule is about else (one, (shift, schedule))
            yield *pair, (begins, min(shift.end, one[0].end, end))
        longest = theirs.get(schedule.row)
        if longest is None or longest[0].end < shift.end:
            theirs[schedule.row] = (shift, schedule)


def twice(
    rotas: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    names: Mapping[str, str],
    *,
    about: ScheduleFacts | None = None,
) -> Iterator[Problem]:
    """The same as problems, one by one."""
    return (_twice(overlap, names) for overlap in overlaps(rotas, start, end, about))


@dataclass(slots=True)
class _Repeated:
    """What is told of many overlaps of the same person and schedules: the first few, how many, until when."""

    first: list[Overlap] = field(default_factory=list)
    count: int = 0
    end: datetime = EARLIEST


def folded_twice(
    rotas: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    names: Mapping[str, str],
) -> Iterator[Problem]:
    """The same, where more than a few of the same person by the same schedules are one."""
    found: dict[tuple[str, frozenset[int]], _Repeated] = {}
    for overlap in overlaps(rotas, start, end):
        (shift, one), (_, other), span = overlap
        group = found.setdefault((shift.username, frozenset((one.row, other.row))), _Repeated())
        group.count += 1
        group.end = max(group.end, span[1])
        if group.count <= MOST_APART:
            group.first.append(overlap)
    for group in found.values():
        if group.count <= MOST_APART:
            yield from (_twice(overlap, names) for overlap in group.first)
        else:
            yield _often(group, names)


def _twice(overlap: Overlap, names: Mapping[str, str]) -> Problem:
    (one, schedule), (other, by), span = overlap
    if by is schedule:
        where = f"by {schedule.name}, by {_source(one.source)} and by {_source(other.source)}"
    else:
        where = f"by {schedule.name} ({_source(one.source)}) and by {by.name} ({_source(other.source)})"
    what = f"{names[one.username]} is on call twice {_times(schedule.time_zone, span)}: {where}"
    return Problem(ProblemKind.TWICE, *span, what, _both(schedule, by), one.username)


def _often(group: _Repeated, names: Mapping[str, str]) -> Problem:
    (one, schedule), (_, by), span = group.first[0]
    where = f"by {schedule.name} alone" if by is schedule else f"by {schedule.name} and by {by.name}"
    when = _times(schedule.time_zone, span, group.count, group.end)
    what = f"{names[one.username]} is on call twice {when}: {where}"
    kind, both = ProblemKind.TWICE, _both(schedule, by)
    return Problem(kind, span[0], group.end, what, both, one.username, times=group.count)


def _both(schedule: ScheduleFacts, by: ScheduleFacts) -> tuple[ScheduleFacts, ...]:
    return (schedule,) if by is schedule else (schedule, by)


def _source(source: LayerFacts | OverrideFacts) -> str:
    return f"{'override' if isinstance(source, OverrideFacts) else 'layer'} {source.name}"
