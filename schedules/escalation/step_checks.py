"""Check whether an escalation reaches other people: find steps that notify only people of the step before."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from models.domain.enums import TargetType
from models.domain.facts import OnCallConfig, PersonFacts, PolicyFacts, ScheduleFacts, StepFacts
from models.domain.values import replace
from schedules.escalation.person_notifications import get_recipient
from schedules.escalation.targets import is_round_robin
from schedules.oncall.checks import Problem, ProblemKind, describe_times, group_spans
from schedules.oncall.schedule_shifts import Shift, Span, merge_spans, subtract_spans

# A schedule, its joined shifts, and the end of the checked time.
CheckedSchedule = tuple[ScheduleFacts, Sequence[Shift], datetime]


@dataclass(frozen=True, slots=True)
class _NamedPeople:
    """When a step names each person, by username, until the time up to which its schedules are checked.

    `forwarders` are the names of people whose notifications a person gets by forwarding rules.
    """

    spans: Mapping[str, Sequence[Span]]
    until: datetime
    schedules: tuple[ScheduleFacts, ...]
    forwarders: Mapping[str, Sequence[str]] = field(default_factory=dict)


def find_repeated_people(
    policy: PolicyFacts,
    config: OnCallConfig,
    checked: Mapping[str, CheckedSchedule],
    start: datetime,
    end: datetime,
    go_on: Callable[[], object] = lambda: None,
) -> Iterator[Problem]:
    """Yield the times in which a step names nobody who is not named by the step before.

    This is so if a person is on call by a schedule of each step, or gets the messages of both by a
    forwarding rule. Steps that name the same people or the same schedules by intention, as a reminder, are
    left out. Both steps are compared at the same moment. `checked` has schedules by unique_id. `go_on` is
    called before each comparison, and may raise.
    """
    for place, (before, step) in enumerate(pairwise(policy.steps), start=1):
        go_on()
        if place == 1 and is_round_robin(policy) and policy.assignee_only:
            continue
        first, second = (_list_named(each, config, checked, start, end) for each in (before, step))
        until = min(first.until, second.until)
        repeated = _find_repeated(first, second, until)
        if _names_other_schedule(before, step) and _names_other_schedule(step, before):
            for spans in group_spans(repeated):
                yield _build_problem(policy, place + 1, first, second, spans, config, until)
        receivers, later = _apply_forwarding(first, config), _apply_forwarding(second, config)
        if (receivers, later) != (first, second):
            forwarded = _find_repeated(receivers, later, until)
            added = merge_spans(piece for span in forwarded for piece in subtract_spans(span, repeated))
            for spans in group_spans(added):
                yield _build_problem(policy, place + 1, receivers, later, spans, config, until)


def _apply_forwarding(named: _NamedPeople, config: OnCallConfig) -> _NamedPeople:
    """Return who gets the messages in place of the named people, by the forwarding rules in force."""
    spans: dict[str, list[Span]] = {}
    forwarders: dict[str, dict[str, None]] = {}
    for username, own in named.spans.items():
        person = config.people.get(username)
        if person is None or not person.forwarding:
            spans.setdefault(username, []).extend(own)
            continue
        for span in (piece for each in own for piece in _divide(each, person)):
            receiver = get_recipient(person, span[0])
            spans.setdefault(receiver.username, []).append(span)
            if receiver is not person:
                forwarders.setdefault(receiver.username, {})[person.name] = None
    if not forwarders:
        return named
    merged = {username: merge_spans(of_person) for username, of_person in spans.items()}
    return replace(named, spans=merged, forwarders={name: tuple(of) for name, of in forwarders.items()})


def _divide(span: Span, person: PersonFacts) -> Iterator[Span]:
    """Divide a span at the moments at which a forwarding rule of the person begins or ends."""
    moments = {moment for rule in person.forwarding for moment in (rule.start, rule.end)}
    inside = sorted({*span, *(moment for moment in moments if span[0] < moment < span[1])})
    return pairwise(inside)


def _names_other_schedule(step: StepFacts, other: StepFacts) -> bool:
    return any(target.kind is TargetType.SCHEDULE for target in step.targets if target not in other.targets)


def _list_named(
    step: StepFacts,
    config: OnCallConfig,
    checked: Mapping[str, CheckedSchedule],
    start: datetime,
    end: datetime,
) -> _NamedPeople:
    spans: dict[str, list[Span]] = {}
    schedules, until = [], end
    for target in dict.fromkeys(step.targets):
        if target.kind is TargetType.USER and target.name in config.people:
            spans.setdefault(target.name, []).append((start, end))
        elif target.kind is TargetType.SCHEDULE and target.name in checked:
            schedule, found, checked_until = checked[target.name]
            schedules.append(schedule)
            until = min(until, checked_until)
            for shift in found:
                spans.setdefault(shift.username, []).append((max(shift.start, start), min(shift.end, end)))
    merged = {username: merge_spans(of_person) for username, of_person in spans.items()}
    return _NamedPeople(merged, until, tuple(schedules))


def _find_repeated(first: _NamedPeople, second: _NamedPeople, until: datetime) -> list[Span]:
    """Return the spans before `until` in which the second step names people, and none of them first."""
    added = merge_spans(
        piece
        for username, spans in second.spans.items()
        for span in spans
        for piece in subtract_spans(span, first.spans.get(username, ()))
    )
    named = merge_spans(span for spans in second.spans.values() for span in spans)
    pieces = (piece for span in named for piece in subtract_spans(span, added))
    return [(begins, min(ends, until)) for begins, ends in pieces if begins < until]


def _build_problem(
    policy: PolicyFacts,
    place: int,
    first: _NamedPeople,
    second: _NamedPeople,
    spans: Sequence[Span],
    config: OnCallConfig,
    until: datetime,
) -> Problem:
    schedules = tuple(dict.fromkeys((*second.schedules, *first.schedules)))
    opens = spans[0][0]
    people = {rule.to.username: rule.to for person in config.people.values() for rule in person.forwarding}
    people |= config.people
    names = [
        _describe_receiver(people[username].name, second.forwarders.get(username))
        for username, known in second.spans.items()
        if username in people and any(begins <= opens < ends for begins, ends in known)
    ]
    # The schedules of both steps can be deleted.
    zone = schedules[0].time_zone if schedules else "UTC"
    when = describe_times(zone, spans[0], len(spans), spans[-1][1], until)
    what = (
        f"step {place} of the policy {policy.name} names nobody new {when}:"
        f" {', '.join(names)} {'is' if len(names) == 1 else 'are'} also in step {place - 1}"
    )
    return Problem(ProblemKind.SAME_PEOPLE, opens, spans[-1][1], what, schedules, times=len(spans))


def _describe_receiver(name: str, forwarders: Sequence[str] | None) -> str:
    return f"{name} (to whom {' and '.join(forwarders)} forwards)" if forwarders else name
