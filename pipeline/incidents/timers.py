"""Decide what happens when a timer is due, from the state of the incident at that moment.

Each function returns the outcome of the timer in words, and the effects. A timer that fires too late, twice
or for an incident that has changed has no effects, and the outcome says why.
"""

from collections.abc import Callable
from datetime import datetime

from models.domain.effects import Actor, Effect
from models.domain.enums import ONE_TIME, ActorKind, IncidentStatus, TimerKind
from models.domain.facts import IncidentContext
from pipeline import incidents
from schedules.escalation import escalation
from schedules.timers import expected, sla

TimerDecision = tuple[str, tuple[Effect, ...]]


def escalate(context: IncidentContext, actor: Actor, now: datetime) -> TimerDecision:
    """Take the next step of the escalation run, and every later step that is overdue."""
    incident, config = context.incident, context.config
    if incident.status is not IncidentStatus.TRIGGERED:
        return f"incident is {incident.status.name.lower()}", ()
    if not incident.escalating:
        return "escalation was stopped", ()
    updated, effects = escalation.advance(incident, config, actor, now)
    taken = updated.next_step - incident.next_step
    outcome = f"{taken} step{'s' * (taken != 1)} taken" if taken else _explain_no_step(context)
    return outcome, (*effects, *incidents.save_with_timers(updated, context.service, config, now, outcome))


def _explain_no_step(context: IncidentContext) -> str:
    is_gone = context.incident.escalation_policy not in context.config.policies
    return "it has no escalation policy any more" if is_gone else "not yet due by the policy as it is now"


def time_out_acknowledgement(context: IncidentContext, actor: Actor, now: datetime) -> TimerDecision:
    """Trigger an incident again that was acknowledged but not resolved in time; a new run starts
    (contract 4.3).
    """
    incident, service = context.incident, context.service
    if incident.status is not IncidentStatus.ACKNOWLEDGED or incident.acknowledged_date is None:
        return f"incident is {incident.status.name.lower()}", ()
    if incident.snoozed_till is not None:
        return "the incident is snoozed", incidents.save_with_timers(incident, service, context.config, now)
    if service is None or not service.acknowledgement_timeout_s:
        return "the service's acknowledgement timeout is off", ()
    if now < expected.get_timeout_at(incident, incident.acknowledged_date, service):
        return "not yet due by the service as it is now", incidents.save_with_timers(
            incident, service, context.config, now
        )
    reason = f"not resolved within {service.acknowledgement_timeout_s} s of its acknowledgement"
    return "triggered again", _retrigger(context, actor, now, reason)


def end_snooze(context: IncidentContext, actor: Actor, now: datetime) -> TimerDecision:
    """Trigger an incident again whose snooze is over; a new run starts (contract 4.3)."""
    incident = context.incident
    if incident.snoozed_till is None:
        return "the incident is not snoozed", ()
    if now < incident.snoozed_till:
        return "snoozed until later", incidents.save_with_timers(
            incident, context.service, context.config, now
        )
    return "triggered again", _retrigger(context, actor, now, "the snooze is over")


def _retrigger(context: IncidentContext, actor: Actor, now: datetime, reason: str) -> tuple[Effect, ...]:
    to = IncidentStatus.TRIGGERED
    return incidents.change_status(context.incident, to, context.service, context.config, actor, now, reason)


def auto_resolve(context: IncidentContext, actor: Actor, now: datetime) -> TimerDecision:
    """Resolve an incident that is older than the service's auto_resolve_timeout (contract 4.3)."""
    incident, service = context.incident, context.service
    if not incident.is_open:
        return "incident is resolved", ()
    if service is None or not service.auto_resolve_s:
        return "the service's auto-resolve timeout is off", ()
    if now < expected.get_auto_resolve_at(incident, service):
        return "not yet due by the service as it is now", incidents.save_with_timers(
            incident, service, context.config, now
        )
    reason = f"open for {service.auto_resolve_s} s"
    to, config = IncidentStatus.RESOLVED, context.config
    effects = incidents.change_status(incident, to, service, config, actor, now, reason, context.children)
    return "resolved", effects


def check_sla(context: IncidentContext, actor: Actor, now: datetime, key: str) -> TimerDecision:
    """Run an escalation of an SLA or report its breach, if the SLA still applies and its target was not
    met.
    """
    incident, config = context.incident, context.config
    timer = next((each for each in sla.list_timers(incident, config) if each.key == key), None)
    effects = incidents.save_with_timers(incident, context.service, config, now)
    if timer is None:
        return "the SLA no longer applies, or its target was met", effects
    if now < timer.due_at:
        return "not yet due by the SLA as it is now", effects
    return sla.fire_timer(incident, timer, config, actor, now)


Decide = Callable[[IncidentContext, Actor, datetime], TimerDecision]

DECIDERS: dict[TimerKind, Decide] = {
    TimerKind.ESCALATE: escalate,
    TimerKind.ACKNOWLEDGEMENT_TIMEOUT: time_out_acknowledgement,
    TimerKind.AUTO_RESOLVE: auto_resolve,
    TimerKind.SNOOZE: end_snooze,
}


def decide(kind: TimerKind, context: IncidentContext, now: datetime, key: str) -> TimerDecision:
    """Return the outcome and the effects of a timer of this kind. `key` is the key of the timer."""
    actor = Actor(ActorKind.TIMER, kind.value.replace("_", " "))
    if context.incident.parent is not None:
        effects = incidents.save_with_timers(context.incident, context.service, context.config, now)
        return "the incident is merged into another", effects
    return check_sla(context, actor, now, key) if kind in ONE_TIME else DECIDERS[kind](context, actor, now)
