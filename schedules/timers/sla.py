"""Compute the SLA targets of an incident, log a breach, and run the escalations before or after it.

Contract section 4.4, row 9. An incident must be acknowledged within one time and resolved within another.
Both count from the creation of the incident or from its reopening.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.effects import IncidentState, TimerState
from models.domain.enums import IncidentStatus, NotificationKind, SlaTargetKind, TimerKind
from models.domain.facts import (
    IncidentContext,
    OnCallConfig,
    PersonFacts,
    ServiceFacts,
    SlaEscalationFacts,
    SlaFacts,
    TimerDecision,
)
from models.domain.reasons import Reason, format_duration, make_reason
from schedules.escalation.escalation import get_last_resort
from schedules.escalation.person_notifications import LATE_AFTER, build_immediate, list_names

NOTIFICATION_KINDS = {
    SlaTargetKind.ACKNOWLEDGE: NotificationKind.SLA_ACKNOWLEDGE,
    SlaTargetKind.RESOLVE: NotificationKind.SLA_RESOLVE,
}


@dataclass(frozen=True, slots=True)
class SlaTarget:
    """One of the two targets of an SLA for one incident: met before `due_at`, or breached."""

    sla: SlaFacts
    target_kind: SlaTargetKind
    within_s: int
    due_at: datetime

    @property
    def key(self) -> str:
        """The unique key of the target in its incident. It contains the due time.

        The key has only the beginning of the SLA's ID, since its column is short. A row number is not
        enough: a new SLA can get the row number of a deleted one.
        """
        return f"sla:{self.sla.unique_id[:8]}:{self.target_kind.value}:{self.due_at:%y%m%dT%H%M%S}"


@dataclass(frozen=True, slots=True)
class SlaTimer:
    """A timer of an SLA target: for an escalation of its SLA or, if `escalation` is None, for its breach."""

    target: SlaTarget
    escalation: SlaEscalationFacts | None
    due_at: datetime

    @property
    def key(self) -> str:
        if self.escalation is None:
            return self.target.key
        # With the dashes of the ID, the longest key would not fit into its column.
        return f"{self.target.key}:{self.escalation.unique_id.replace('-', '')}"

    @property
    def kind(self) -> TimerKind:
        return TimerKind.SLA_ESCALATION if self.escalation else TimerKind.SLA_BREACH


def list_targets(incident: IncidentState, config: OnCallConfig) -> list[SlaTarget]:
    """Return the targets that are not met yet, breached or not.

    The first acknowledgement meets its target for good, even if the incident is triggered again later.
    A merged incident has no targets, since it is silent.
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
    """Yield every SLA timer, overdue ones included.

    models/write/timers.py leaves out those that already fired.
    """
    for target in list_targets(incident, config):
        yield SlaTimer(target, None, target.due_at)
        yield from _list_escalations(target)


def _list_escalations(target: SlaTarget) -> Iterator[SlaTimer]:
    for escalation in target.sla.escalations:
        if escalation.target_kind is target.target_kind:
            yield SlaTimer(target, escalation, target.due_at + timedelta(seconds=escalation.after_s))


def expect_sla_breaches(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> Iterator[TimerState]:
    return (_build_timer(incident, timer) for timer in list_timers(incident, config) if not timer.escalation)


def expect_sla_escalations(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> Iterator[TimerState]:
    return (_build_timer(incident, timer) for timer in list_timers(incident, config) if timer.escalation)


def _build_timer(incident: IncidentState, timer: SlaTimer) -> TimerState:
    return TimerState(incident.unique_id, timer.kind, timer.key, timer.due_at)


def decide_sla_timer(context: IncidentContext, key: str) -> TimerDecision:
    """Run an escalation of an SLA or report its breach, if the SLA still applies and its target was not
    met.
    """
    incident, config = context.incident, context.config
    timer = next((each for each in list_timers(incident, config) if each.key == key), None)
    if timer is None:
        return TimerDecision(make_reason("sla_over"), save=incident)
    if context.now < timer.due_at:
        return TimerDecision(make_reason("not_due_by_sla"), save=incident)
    if timer.escalation is None:
        return _report_breach(context, timer.target)
    return _notify(context, timer, timer.escalation)


def _report_breach(context: IncidentContext, target: SlaTarget) -> TimerDecision:
    sla, within = target.sla.name, target.within_s
    if target.target_kind is SlaTargetKind.ACKNOWLEDGE:
        breach = make_reason("sla_not_acknowledged", sla=sla, within=within)
    else:
        breach = make_reason("sla_not_resolved", sla=sla, within=within)
    return TimerDecision(make_reason("breach_logged"), (context.build_log("sla", breach),), fired=True)


def _notify(context: IncidentContext, timer: SlaTimer, escalation: SlaEscalationFacts) -> TimerDecision:
    config, now = context.config, context.now
    people, fallback = _list_people(escalation, config)
    why = _describe(timer.target, escalation, timer.due_at, now).add(*fallback)
    notified_later = {one.username for one in _list_notified_later(timer, config, now)}
    remaining = [one for one in people if one.username not in notified_later]
    if people and not remaining:
        # A later escalation of the same target is overdue too, and it notifies the same people.
        return TimerDecision(make_reason("sla_later_escalation"), fired=True)
    kind = NOTIFICATION_KINDS[timer.target.target_kind]
    group_key = f"{timer.target.sla.row}:{escalation.unique_id}"
    created = [
        effect
        for person in remaining
        for effect in build_immediate(context, person, kind, timer.key, why, group_key=group_key)
    ]
    names = list_names(remaining, config, now)
    whom = make_reason("people_notified", people=names) if names else make_reason("nobody_notified")
    log, outcome = why.add(whom), make_reason("sla_people_notified", count=len(remaining))
    return TimerDecision(outcome, (context.build_log("sla", log), *created), fired=True)


def _list_people(
    escalation: SlaEscalationFacts, config: OnCallConfig
) -> tuple[list[PersonFacts], tuple[Reason, ...]]:
    """Return the people whom an escalation notifies, and the reasons if they are the last resort."""
    names = dict.fromkeys(escalation.usernames)
    people = [config.people[name] for name in names if name in config.people]
    if people:
        return people, ()
    people, whom = get_last_resort(config)
    return people, (make_reason("sla_names_nobody"), whom)


def _list_notified_later(timer: SlaTimer, config: OnCallConfig, now: datetime) -> Iterator[PersonFacts]:
    """Yield the people whom later escalations of the same target that are due by now notify.

    After an outage, several escalations of a target can be overdue. Each person is notified only of the last
    one.
    """
    every = sorted(_list_escalations(timer.target), key=lambda each: each.due_at)
    later = every[every.index(timer) + 1 :]
    for each in later:
        if each.escalation is not None and each.due_at <= now:
            yield from _list_people(each.escalation, config)[0]


def _describe(target: SlaTarget, escalation: SlaEscalationFacts, due_at: datetime, now: datetime) -> Reason:
    """Describe the time to or since the breach: by the escalation's setting or, if late, by `now`."""
    after_s = escalation.after_s
    if now - due_at > LATE_AFTER or (after_s < 0 and now >= target.due_at):
        after_s = int((now - target.due_at).total_seconds())
    sla = target.sla.name
    if target.target_kind is SlaTargetKind.ACKNOWLEDGE:
        if after_s < 0:
            return make_reason("sla_acknowledge_due", sla=sla, left=-after_s)
        if after_s == 0:
            return make_reason("sla_acknowledge_missed", sla=sla)
        return make_reason("sla_acknowledge_overdue", sla=sla, over=after_s)
    if after_s < 0:
        return make_reason("sla_resolve_due", sla=sla, left=-after_s)
    if after_s == 0:
        return make_reason("sla_resolve_missed", sla=sla)
    return make_reason("sla_resolve_overdue", sla=sla, over=after_s)


def describe_state(reason: Reason) -> str:
    """Return the state of the SLA that a notification is about, for its subject; empty for other reasons."""
    sla = reason.parameters.get("sla")
    if reason.code in ("sla_acknowledge_due", "sla_resolve_due"):
        return f"SLA {sla} ends in {format_duration(int(str(reason.parameters['left'])))}"
    return f"SLA {sla} BREACHED" if reason.code in _BREACHES else ""


_BREACHES = frozenset(
    {"sla_acknowledge_overdue", "sla_resolve_overdue", "sla_acknowledge_missed", "sla_resolve_missed"}
)
