"""Check schedules and policies over a time: gaps, people on call twice, people outside the team.

The checks read joined shifts (schedules/oncall/shifts.py). `names` gives the display names of the users of
the account by username; a username outside `names` counts as nobody.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from models.domain.enums import DoubleShifts, TargetType
from models.domain.facts import (
    LayerFacts,
    OnCallConfig,
    OverrideFacts,
    PolicyFacts,
    ScheduleFacts,
    ScheduleOverview,
)
from models.domain.values import replace
from schedules.oncall.schedule_shifts import Shift, Span, merge_spans, subtract_spans
from schedules.oncall.shifts import EARLIEST, format_local

# At most this many problems are shown, the earliest first: nobody reads a longer list.
MAX_PROBLEMS = 1_000
# Up to this many problems of the same kind are shown one by one, more of them as one.
MAX_SEPARATE = 3


class ProblemKind(StrEnum):
    GAP = "gap"
    TWICE = "twice"
    NOT_IN_TEAM = "not_in_team"
    HANDOFFS_MOVED = "handoffs_moved"
    SAME_PEOPLE = "same_people"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem from `start` until `end` within the time that was checked, or several `times` in between.

    `what` is a sentence with times in the time zone of the first of `schedules`. A `minor` problem needs no
    action now.
    """

    kind: ProblemKind
    start: datetime
    end: datetime
    what: str
    schedules: tuple[ScheduleFacts, ...]
    username: str | None = None
    minor: bool = False
    times: int = 1


def find_gaps(
    overview: ScheduleOverview, found: Iterable[Shift], start: datetime, end: datetime
) -> list[Problem]:
    """Return the gaps in [start, end); `found` are the shifts in this time."""
    return [
        build_schedule_gap(overview, [span], end)
        for span in subtract_spans((start, end), merge_spans(list_spans(found)))
    ]


def list_spans(found: Iterable[Shift]) -> Iterator[Span]:
    return ((shift.start, shift.end) for shift in found)


def group_spans(spans: Sequence[Span]) -> list[Sequence[Span]]:
    """Return one group per span, or a single group if there are more than `MAX_SEPARATE`."""
    return [[span] for span in spans] if len(spans) <= MAX_SEPARATE else [spans]


def build_schedule_gap(overview: ScheduleOverview, spans: Sequence[Span], asked_until: datetime) -> Problem:
    """Build the problem for spans before `asked_until` in which nobody is on call by a schedule."""
    schedule = overview.schedule
    what = _describe_gap(schedule.name, schedule.time_zone, spans, asked_until)
    if not schedule.overrides and not any(layer.usernames for layer in schedule.layers):
        what = f"nobody is on call by {schedule.name}: no active layer has people"
    unused = "" if overview.is_used else "; no policy uses it"
    return _build_gap(spans, f"{what}{unused}", (schedule,))


def build_policy_gap(
    policy: PolicyFacts, schedules: tuple[ScheduleFacts, ...], spans: Sequence[Span], asked_until: datetime
) -> Problem:
    """Build the problem for spans in which nobody is on call by a policy with these schedules."""
    zone = schedules[0].time_zone if schedules else "UTC"
    return _build_gap(spans, _describe_gap(f"the policy {policy.name}", zone, spans, asked_until), schedules)


def _build_gap(spans: Sequence[Span], what: str, schedules: tuple[ScheduleFacts, ...]) -> Problem:
    return Problem(ProblemKind.GAP, spans[0][0], spans[-1][1], what, schedules, times=len(spans))


def _describe_gap(name: str, zone: str, spans: Sequence[Span], asked_until: datetime) -> str:
    times = describe_times(zone, spans[0], len(spans), spans[-1][1], asked_until)
    return f"nobody is on call by {name} {times}"


def describe_times(
    zone: str, first: Span, count: int = 1, last: datetime | None = None, asked_until: datetime | None = None
) -> str:
    """Describe in words from when to when, or how many times until when.

    A span that ends at `asked_until` may last longer, so the text says "at least".
    """
    opens, closes = (format_local(zone, moment) for moment in first)
    if count > 1:
        ends = last or first[1]
        until = f"{'at least ' if ends == asked_until else ''}{format_local(zone, ends)}"
        return f"{count:,} times until {until}, first from {opens} to {closes}"
    return f"from {opens} to {'at least ' if first[1] == asked_until else ''}{closes}"


@dataclass(frozen=True, slots=True)
class CoveredTime:
    """The spans before `until` in which a step of a policy names somebody, and the schedules of the policy.

    The spans are in order and do not touch.
    """

    spans: Sequence[Span]
    until: datetime
    schedules: tuple[ScheduleFacts, ...] = ()


def find_covered_time(
    policy: PolicyFacts,
    config: OnCallConfig,
    looked_at: Mapping[str, tuple[ScheduleFacts, Sequence[Shift], datetime]],
    start: datetime,
    end: datetime,
) -> CoveredTime:
    """Return when the steps of a policy name anybody within [start, end).

    `looked_at` has schedules by unique_id, each with its shifts and the time until which they were computed.
    """
    targets = {target: None for step in policy.steps for target in step.targets}
    usernames = {target.name for target in targets if target.kind is TargetType.USER}
    known = [
        looked_at[target.name]
        for target in targets
        if target.kind is TargetType.SCHEDULE and target.name in looked_at
    ]
    schedules = tuple(schedule for schedule, _, _ in known)
    if not usernames.isdisjoint(config.people):
        return CoveredTime([(start, end)], end, schedules)
    spans = merge_spans(span for _, found, _ in known for span in list_spans(found))
    return CoveredTime(spans, min((until for _, _, until in known), default=end), schedules)


def find_outsiders(
    overview: ScheduleOverview, start: datetime, end: datetime, names: Mapping[str, str]
) -> list[Problem]:
    """Return problems for people of the account who are on call and are not members of the schedule's team.

    There is one for each override within [start, end) and, as minor problems, one per person and layer.
    """
    found = [*_find_in_overrides(overview, start, end, names), *_find_in_layers(overview, start, end, names)]
    return sorted(found, key=lambda problem: (problem.start, problem.minor))


def _find_in_overrides(
    overview: ScheduleOverview, start: datetime, end: datetime, names: Mapping[str, str]
) -> Iterator[Problem]:
    schedule = overview.schedule
    for override in schedule.overrides:
        begins, ends = max(override.start, start), min(override.end, end)
        name = names.get(override.username)
        if begins < ends and name is not None and override.username not in overview.members:
            when = describe_times(schedule.time_zone, (begins, ends), asked_until=end)
            what = f"{name} overrides {schedule.name} ({override.name}) {when}"
            yield _build_not_in_team(overview, (begins, ends), what, override.username)


def _find_in_layers(
    overview: ScheduleOverview, start: datetime, end: datetime, names: Mapping[str, str]
) -> Iterator[Problem]:
    schedule = overview.schedule
    for layer in schedule.layers:
        begins, ends = max(layer.start, start), min(layer.end or end, end)
        outsiders = [
            name for name in dict.fromkeys(layer.usernames) if name in names and name not in overview.members
        ]
        if begins < ends:
            for username in outsiders:
                what = f"{names[username]} takes turns in {schedule.name} (layer {layer.name})"
                yield _build_not_in_team(overview, (begins, ends), what, username, minor=True)


def _build_not_in_team(
    overview: ScheduleOverview, span: Span, text: str, username: str, *, minor: bool = False
) -> Problem:
    what = f"{text} and is not in the team {overview.team}"
    return Problem(ProblemKind.NOT_IN_TEAM, *span, what, (overview.schedule,), username, minor)


# Shifts that are compared with others in one piece of work.
PIECE = 100
# A shift and its schedule.
ShiftOfSchedule = tuple[Shift, ScheduleFacts]
# Two shifts of the same person, and the time that they have in common.
Overlap = tuple[ShiftOfSchedule, ShiftOfSchedule, Span]


def find_overlaps(
    schedule_shifts: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    about: ScheduleFacts | None = None,
    go_on: Callable[[], object] = lambda: None,
) -> Iterator[Overlap]:
    """Yield the times in which a person is on call by two schedules or twice by one, in order of their start.

    The shifts are the joined ones of [start, end). With `about`, yield only overlaps of this schedule. Of
    several shifts that a person has by one schedule at the same time, only the longest is compared. Overlaps
    that are intended are left out. `go_on` is called before each `PIECE` of shifts, and may raise.
    """
    ordered = sorted(
        ((shift, schedule) for schedule, found in schedule_shifts for shift in found),
        key=lambda one: one[0].start,
    )
    # By person and schedule.
    active: dict[str, dict[int, ShiftOfSchedule]] = {}
    for place, (shift, schedule) in enumerate(ordered):
        if place % PIECE == 0:
            go_on()
        begins = max(shift.start, start)
        theirs = active.setdefault(shift.username, {})
        rows = list(theirs) if about is None or schedule is about else [about.row]
        for row in rows:
            other = theirs.get(row)
            if other is None or other[0].end <= begins:
                theirs.pop(row, None)
                continue
            pair = ((shift, schedule), other) if schedule is about else (other, (shift, schedule))
            if get_double_shifts(schedule, other[1]) is not DoubleShifts.INTENDED:
                yield *pair, (begins, min(shift.end, other[0].end, end))
        longest = theirs.get(schedule.row)
        if longest is None or longest[0].end < shift.end:
            theirs[schedule.row] = (shift, schedule)


def get_double_shifts(*schedules: ScheduleFacts) -> DoubleShifts:
    """Return how overlaps of these schedules are reported: as a problem if one of them says so."""
    choices = {schedule.double_shifts for schedule in schedules}
    return next(
        (choice for choice in (DoubleShifts.PROBLEM, DoubleShifts.INTENDED) if choice in choices),
        DoubleShifts.MINOR,
    )


def find_double_shifts(
    schedule_shifts: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    names: Mapping[str, str],
    *,
    about: ScheduleFacts | None = None,
) -> Iterator[Problem]:
    """Yield overlaps as problems, one by one."""
    return (
        _build_double_shift(overlap, names, end)
        for overlap in find_overlaps(schedule_shifts, start, end, about)
    )


@dataclass(slots=True)
class _OverlapGroup:
    """Overlaps of the same person and schedules: the first few, their number, and the end of the last."""

    first: list[Overlap] = field(default_factory=list)
    count: int = 0
    end: datetime = EARLIEST


def group_double_shifts(
    schedule_shifts: Sequence[tuple[ScheduleFacts, Iterable[Shift]]],
    start: datetime,
    end: datetime,
    names: Mapping[str, str],
    used: Collection[int],
    go_on: Callable[[], object] = lambda: None,
) -> Iterator[Problem]:
    """Yield overlaps as problems: one for a person with overlaps in several pairs of schedules.

    For another person, each overlap is one; more than `MAX_SEPARATE` of them are one. `used` are the row
    numbers of the schedules that a policy uses: other schedules notify nobody, so their problems are minor.
    """
    found: dict[tuple[str, frozenset[int]], _OverlapGroup] = {}
    for overlap in find_overlaps(schedule_shifts, start, end, go_on=go_on):
        (shift, one), (_, other), span = overlap
        group = found.setdefault((shift.username, frozenset((one.row, other.row))), _OverlapGroup())
        group.count += 1
        group.end = max(group.end, span[1])
        if group.count <= MAX_SEPARATE:
            group.first.append(overlap)
    by_person: dict[tuple[str, bool], list[_OverlapGroup]] = {}
    for (username, _), group in found.items():
        by_person.setdefault((username, _is_minor(group, used)), []).append(group)
    for (_, is_minor), groups in by_person.items():
        if len(groups) > 1:
            found_of_person = [_build_of_person(groups, names, end)]
        elif groups[0].count <= MAX_SEPARATE:
            found_of_person = [_build_double_shift(overlap, names, end) for overlap in groups[0].first]
        else:
            found_of_person = [_build_repeated(groups[0], names, end)]
        yield from (replace(problem, minor=is_minor) for problem in found_of_person)


def _is_minor(group: "_OverlapGroup", used: Collection[int]) -> bool:
    (_, schedule), (_, by), _ = group.first[0]
    is_unused = not {schedule.row, by.row}.issubset(used)
    return is_unused or get_double_shifts(schedule, by) is DoubleShifts.MINOR


def _build_of_person(groups: Sequence["_OverlapGroup"], names: Mapping[str, str], end: datetime) -> Problem:
    """Build one problem for all pairs of schedules in which a person is on call twice."""
    (one, schedule), _, first = min((group.first[0] for group in groups), key=lambda overlap: overlap[2][0])
    count, last = sum(group.count for group in groups), max(group.end for group in groups)
    pairs = "; ".join(_describe_pair(group) for group in groups)
    when = describe_times(schedule.time_zone, first, count, last, end)
    what = f"{names[one.username]} is on call twice {when}: {pairs}"
    schedules = {each.row: each for group in groups for _, each in group.first[0][:2]}
    both = tuple(schedules.values())
    return Problem(ProblemKind.TWICE, first[0], last, what, both, one.username, times=count)


def _describe_pair(group: "_OverlapGroup") -> str:
    (_, schedule), (_, by), _ = group.first[0]
    return f"by {schedule.name} alone" if by is schedule else f"by {schedule.name} and by {by.name}"


def _build_double_shift(overlap: Overlap, names: Mapping[str, str], end: datetime) -> Problem:
    (one, schedule), (other, by), span = overlap
    if by is schedule:
        where = (
            f"by {schedule.name}, by {_describe_source(one.source)} and by {_describe_source(other.source)}"
        )
    else:
        where = (
            f"by {schedule.name} ({_describe_source(one.source)})"
            f" and by {by.name} ({_describe_source(other.source)})"
        )
    when = describe_times(schedule.time_zone, span, asked_until=end)
    what = f"{names[one.username]} is on call twice {when}: {where}"
    is_minor = get_double_shifts(schedule, by) is DoubleShifts.MINOR
    return Problem(ProblemKind.TWICE, *span, what, _list_schedules(schedule, by), one.username, is_minor)


def _build_repeated(group: _OverlapGroup, names: Mapping[str, str], end: datetime) -> Problem:
    (one, schedule), (_, by), span = group.first[0]
    when = describe_times(schedule.time_zone, span, group.count, group.end, end)
    what = f"{names[one.username]} is on call twice {when}: {_describe_pair(group)}"
    kind, both = ProblemKind.TWICE, _list_schedules(schedule, by)
    return Problem(kind, span[0], group.end, what, both, one.username, times=group.count)


def _list_schedules(schedule: ScheduleFacts, by: ScheduleFacts) -> tuple[ScheduleFacts, ...]:
    return (schedule,) if by is schedule else (schedule, by)


def _describe_source(source: LayerFacts | OverrideFacts) -> str:
    return f"{'override' if isinstance(source, OverrideFacts) else 'layer'} {source.name}"
