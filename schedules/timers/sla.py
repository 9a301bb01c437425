"""What an SLA promises of an incident, and who is told when a promise is about to break, or has broken.

Contract section 4.4, row 9: an answer within one time and an end within another, both counted from the
moment at which the incident was opened, or opened again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.effects import (
    FIRED_ONCE,
    Actor,
    CreateNotification,
    Effect,
    IncidentState,
    RecordLog,
    TimerState,
)
from models.domain.enums import IncidentStatus, NotificationKind, SlaTargetKind, TimerKind
from models.domain.facts import OnCallConfig, PersonFacts, SlaEscalationFacts, SlaFacts
from schedules.escalation.escalation import get_last_resort
from schedules.escalation.notifications import LATE_AFTER, build_immediate, describe_person

NOTIFICATION_KINDS = {
    SlaTargetKind.ACKNOWLEDGE: NotificationKind.SLA_ACKNOWLEDGE,
    SlaTargetKind.RESOLVE: NotificationKind.SLA_RESOLVE,
}
# What is promised, and what is said of an incident of which it was not kept.
_WORDS = {
    SlaTargetKind.ACKNOWLEDGE: ("acknowledgement", "acknowledged"),
    SlaTargetKind.RESOLVE: ("resolution", "resolved"),
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class SlaTarget:
    """One of the two times of an SLA, for one incident: it is kept `by` a moment, or broken."""

    sla: SlaFacts
    target_kind: SlaTargetKind
    within_s: int
    due_at: datetime

    @property
    def key(self) -> str:
        """Names it among all of its incident: by another moment, it is another promise.

        Of the SLA's id it takes as much as there is room for; the row number of a deleted one may be that of
        another by now.
        """
        return f"sla:{self.sla.unique_id[:8]}:{self.target_kind.value}:{self.due_at:%y%m%dT%H%M%S}"


@dataclass(frozen=True, slots=True)
class SlaTimer:
    """What is to happen once because of a promise: an escalation of its SLA, or (None) its breach."""

    target: SlaTarget
    escalation: SlaEscalationFacts | None
    due_at: datetime

    @property
    def key(self) -> str:
        if self.escalation is None:
            return self.target.key
        # With its dashes, the longest key would be longer than its column.
        return f"{self.target.key}:{self.escalation.unique_id.replace('-', '')}"

    @property
    def kind(self) -> TimerKind:
        return TimerKind.SLA_ESCALATION if self.escalation else TimerKind.SLA_BREACH


def list_targets(incident: IncidentState, config: OnCallConfig) -> list[SlaTarget]:
    """The promises that are still to be kept, broken or not.

    An answer counts for good, even of an incident that needs one again. Of what is merged into another
    incident nothing is promised: it is silent.
    """
    sla = config.slas.get(incident.sla or 0)
    if sla is None or not incident.is_open or incident.parent is not None:
        return []
    started_at = incident.sla_started_at or incident.creation_date
    is_acknowledged = (
        incident.status is not IncidentStatus.TRIGGERED or incident.sla_acknowledged_at is not None
    )
    times = (
        (SlaTargetKind.ACKNOWLEDGE, None if is_acknowledged else sla.acknowledge_s),
        (SlaTargetKind.RESOLVE, sla.resolve_s),
    )
    return [
        SlaTarget(sla, target_kind, within, started_at + timedelta(seconds=within))
        for target_kind, within in times
        if within is not None
    ]


def list_timers(incident: IncidentState, config: OnCallConfig) -> Iterator[SlaTimer]:
    """What happens because of them, be it due long since: what was done already is for who arms timers to
    know."""
    for target in list_targets(incident, config):
        yield SlaTimer(target, None, target.due_at)
        yield from _list_escalations(target)


def _list_escalations(target: SlaTarget) -> Iterator[SlaTimer]:
    for escalation in target.sla.escalations:
        if escalation.target_kind is target.target_kind:
            yield SlaTimer(target, escalation, target.due_at + timedelta(seconds=escalation.after_s))


def get_expected_timers(incident: IncidentState, config: OnCallConfig) -> tuple[TimerState, ...]:
    """A timer for each of these."""
    return tuple(
        TimerState(incident.unique_id, timer.kind, timer.key, timer.due_at)
        for timer in list_timers(incident, config)
    )


def fire_timer(
    incident: IncidentState, timer: SlaTimer, config: OnCallConfig, actor: Actor, now: datetime
) -> tuple[str, tuple[Effect, ...]]:
    """What is due now is done, once and for all: the outcome in words, and what changes."""
    if timer.escalation is None:
        target = timer.target
        within = format_duration(target.within_s)
        reason = f"SLA {target.sla.name} breached: not {_WORDS[target.target_kind][1]} within {within}"
        return f"{FIRED_ONCE}the breach is logged", (_log(incident, reason, actor, now),)
    what = _describe(timer.target, timer.escalation, timer.due_at, now)
    people, whom = _list_people(timer.escalation, config)
    notified_later = {one.username for one in _list_notified_later(timer, config, now)}
    remaining = [one for one in people if one.username not in notified_later]
    if people and not remaining:
        # Overdue, and so is a later word of the same promise to the same people.
        return f"{FIRED_ONCE}who is named is told of what followed", ()
    kind = NOTIFICATION_KINDS[timer.target.target_kind]
    notifications = [
        notification
        for person in remaining
        for notification in build_immediate(
            incident,
            person,
            kind,
            timer.key,
            f"{what}{whom}",
            config,
            now,
            group_key=f"{timer.target.sla.row}:{timer.escalation.unique_id}",
        )
    ]
    names = ", ".join(describe_person(person, config, now) for person in remaining) or "nobody there"
    log = _log(incident, f"{what}{whom}: {names}", actor, now)
    return f"{FIRED_ONCE}{len(remaining)} told", (
        log,
        *(CreateNotification(notification) for notification in notifications),
    )


def _list_people(escalation: SlaEscalationFacts, config: OnCallConfig) -> tuple[list[PersonFacts], str]:
    """Who is told by an escalation and, where it is the last resort, that it is, in words."""
    names = dict.fromkeys(escalation.usernames)
    people = [config.people[name] for name in names if name in config.people]
    if people:
        return people, ""
    people, whom = get_last_resort(config)
    return people, f"; its escalation reaches nobody: {whom} told"


def _list_notified_later(timer: SlaTimer, config: OnCallConfig, now: datetime) -> Iterator[PersonFacts]:
    """Who is told, or was, by what came later of the same promise: nobody is told of all that is overdue."""
    every = sorted(_list_escalations(timer.target), key=lambda each: each.due_at)
    later = every[every.index(timer) + 1 :]
    for each in later:
        if each.escalation is not None and each.due_at <= now:
            yield from _list_people(each.escalation, config)[0]


def _describe(target: SlaTarget, escalation: SlaEscalationFacts, due_at: datetime, now: datetime) -> str:
    """How far it is to the breach: as the escalation says or, where it is late, as it is."""
    after_s = escalation.after_s
    if now - due_at > LATE_AFTER or (after_s < 0 and now >= target.due_at):
        after_s = int((now - target.due_at).total_seconds())
    noun, done = _WORDS[target.target_kind]
    if after_s < 0:
        return f"{noun} of SLA {target.sla.name} due in {format_duration(-after_s)}"
    overdue = f"for {format_duration(after_s)} beyond its promise" if after_s else "within its promise"
    return f"SLA {target.sla.name}: not {done} {overdue}"


def format_duration(seconds: int) -> str:
    """A length of time in its two largest units: 2 h 5 min."""
    parts = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _log(incident: IncidentState, reason: str, actor: Actor, now: datetime) -> RecordLog:
    return RecordLog(incident.unique_id, now, "sla", reason, actor)
