"""What an SLA promises of an incident, and who is told when a promise is about to break, or has broken.

Contract section 4.4, row 9: an answer within one time and an end within another, both counted from the
moment at which the incident was opened, or opened again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.effects import DONE_ONCE, Actor, Effect, IncidentState, OweNotice, RecordLog, TimerState
from models.enums import IncidentStatus, NoticeKind, SlaClock, TimerKind
from models.facts import Directory, PersonFacts, SlaEscalationFacts, SlaFacts
from schedules.escalation import last_resort
from schedules.notices import LATE, named, notices_at_once

KINDS = {
    SlaClock.ACKNOWLEDGE: NoticeKind.SLA_ACKNOWLEDGE,
    SlaClock.RESOLVE: NoticeKind.SLA_RESOLVE,
}
# What is promised, and what is said of an incident of which it was not kept.
_WORDS = {
    SlaClock.ACKNOWLEDGE: ("acknowledgement", "acknowledged"),
    SlaClock.RESOLVE: ("resolution", "resolved"),
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Promise:
    """One of the two times of an SLA, for one incident: it is kept `by` a moment, or broken."""

    sla: SlaFacts
    clock: SlaClock
    within_s: int
    by: datetime

    @property
    def key(self) -> str:
        """Names it among all of its incident: by another moment, it is another promise.

        Of the SLA's id it takes as much as there is room for; the row number of a deleted one may be that of
        another by now.
        """
        return f"sla:{self.sla.unique_id[:8]}:{self.clock.value}:{self.by:%y%m%dT%H%M%S}"


@dataclass(frozen=True, slots=True)
class Wait:
    """What is to happen once because of a promise: an escalation of its SLA, or (None) its breach."""

    promise: Promise
    escalation: SlaEscalationFacts | None
    due_at: datetime

    @property
    def key(self) -> str:
        if self.escalation is None:
            return self.promise.key
        # With its dashes, the longest key would be longer than its column.
        return f"{self.promise.key}:{self.escalation.unique_id.replace('-', '')}"

    @property
    def kind(self) -> TimerKind:
        return TimerKind.SLA_ESCALATION if self.escalation else TimerKind.SLA_BREACH


def running(incident: IncidentState, directory: Directory) -> list[Promise]:
    """The promises that are still to be kept, broken or not.

    An answer counts for good, even of an incident that needs one again. Of what is merged into another
    incident nothing is promised: it is silent.
    """
    sla = directory.slas.get(incident.sla or 0)
    if sla is None or not incident.is_open or incident.parent is not None:
        return []
    begun_at = incident.promised_from or incident.creation_date
    is_answered = incident.status is not IncidentStatus.TRIGGERED or incident.answered_at is not None
    times = (
        (SlaClock.ACKNOWLEDGE, None if is_answered else sla.acknowledge_s),
        (SlaClock.RESOLVE, sla.resolve_s),
    )
    return [
        Promise(sla, clock, within, begun_at + timedelta(seconds=within))
        for clock, within in times
        if within is not None
    ]


def waits(incident: IncidentState, directory: Directory) -> Iterator[Wait]:
    """What happens because of them, be it due long since: what was done already is for who arms timers to
    know."""
    for promise in running(incident, directory):
        yield Wait(promise, None, promise.by)
        yield from _escalations(promise)


def _escalations(promise: Promise) -> Iterator[Wait]:
    for one in promise.sla.escalations:
        if one.clock is promise.clock:
            yield Wait(promise, one, promise.by + timedelta(seconds=one.after_s))


def wanted(incident: IncidentState, directory: Directory) -> tuple[TimerState, ...]:
    """A timer for each of these."""
    return tuple(
        TimerState(incident.unique_id, wait.kind, wait.key, wait.due_at)
        for wait in waits(incident, directory)
    )


def take(
    incident: IncidentState, wait: Wait, directory: Directory, actor: Actor, now: datetime
) -> tuple[str, tuple[Effect, ...]]:
    """What is due now is done, once and for all: the outcome in words, and what changes."""
    if wait.escalation is None:
        promise = wait.promise
        reason = (
            f"SLA {promise.sla.name} breached: not {_WORDS[promise.clock][1]} within {span(promise.within_s)}"
        )
        return f"{DONE_ONCE}the breach is logged", (_log(incident, reason, actor, now),)
    what = _said(wait.promise, wait.escalation, wait.due_at, now)
    people, whom = _told_by(wait.escalation, directory)
    followed = {one.username for one in _told_after(wait, directory, now)}
    left = [one for one in people if one.username not in followed]
    if people and not left:
        # Overdue, and so is a later word of the same promise to the same people.
        return f"{DONE_ONCE}who is named is told of what followed", ()
    kind = KINDS[wait.promise.clock]
    notices = [
        notice
        for person in left
        for notice in notices_at_once(
            incident,
            person,
            kind,
            wait.key,
            f"{what}{whom}",
            directory,
            now,
            together=f"{wait.promise.sla.row}:{wait.escalation.unique_id}",
        )
    ]
    names = ", ".join(named(person, directory, now) for person in left) or "nobody there"
    log = _log(incident, f"{what}{whom}: {names}", actor, now)
    return f"{DONE_ONCE}{len(left)} told", (log, *(OweNotice(notice) for notice in notices))


def _told_by(escalation: SlaEscalationFacts, directory: Directory) -> tuple[list[PersonFacts], str]:
    """Who is told by an escalation and, where it is the last resort, that it is, in words."""
    names = dict.fromkeys(escalation.usernames)
    people = [directory.people[name] for name in names if name in directory.people]
    if people:
        return people, ""
    people, whom = last_resort(directory)
    return people, f"; its escalation reaches nobody: {whom} told"


def _told_after(wait: Wait, directory: Directory, now: datetime) -> Iterator[PersonFacts]:
    """Who is told, or was, by what came later of the same promise: nobody is told of all that is overdue."""
    every = sorted(_escalations(wait.promise), key=lambda each: each.due_at)
    later = every[every.index(wait) + 1 :]
    for each in later:
        if each.escalation is not None and each.due_at <= now:
            yield from _told_by(each.escalation, directory)[0]


def _said(promise: Promise, escalation: SlaEscalationFacts, due_at: datetime, now: datetime) -> str:
    """How far it is to the breach: as the escalation says or, where it is late, as it is."""
    after_s = escalation.after_s
    if now - due_at > LATE or (after_s < 0 and now >= promise.by):
        after_s = int((now - promise.by).total_seconds())
    thing, done = _WORDS[promise.clock]
    if after_s < 0:
        return f"{thing} of SLA {promise.sla.name} due in {span(-after_s)}"
    beyond = f"for {span(after_s)} beyond its promise" if after_s else "within its promise"
    return f"SLA {promise.sla.name}: not {done} {beyond}"


def span(seconds: int) -> str:
    """A length of time in its two largest units: 2 h 5 min."""
    parts = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _log(incident: IncidentState, reason: str, actor: Actor, now: datetime) -> RecordLog:
    return RecordLog(incident.unique_id, now, "sla", reason, actor)
