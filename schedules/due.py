"""What is decided when a timer is due, from what is true at that moment.

Each function answers with the timer's outcome in words, and what changes. A timer is a wake-up: one
that comes too late, twice, or for an incident that has moved on changes nothing and says why.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from models.effects import Actor, Effect, IncidentState
from models.enums import ActorKind, IncidentStatus, TimerKind
from models.facts import Directory, ServiceFacts
from pipeline import moves
from schedules import escalation, timers

Decided = tuple[str, tuple[Effect, ...]]


def escalate(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> Decided:
    """The next step of the chain, and every later one that is overdue."""
    if incident.status is not IncidentStatus.TRIGGERED:
        return f"incident is {incident.status.name.lower()}", ()
    if not incident.escalating:
        return "escalation was stopped", ()
    after, effects = escalation.advance(incident, directory, actor, now)
    taken = after.next_step - incident.next_step
    outcome = f"{taken} step{'s' * (taken != 1)} taken" if taken else "not yet due by the policy as it is now"
    return outcome, (*effects, *moves.rearm(after, service, directory, now, outcome))


def acknowledgement_timeout(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> Decided:
    """Acknowledged and still not resolved: triggered again, and the chain starts over (contract 4.3)."""
    if incident.status is not IncidentStatus.ACKNOWLEDGED or incident.acknowledged_date is None:
        return f"incident is {incident.status.name.lower()}", ()
    if service is None or not service.acknowledgement_timeout_s:
        return "the service's acknowledgement timeout is off", ()
    limit = timedelta(seconds=service.acknowledgement_timeout_s)
    if now < incident.acknowledged_date + limit:
        return "not yet due by the service as it is now", moves.rearm(incident, service, directory, now)
    reason = f"not resolved within {service.acknowledgement_timeout_s} s of its acknowledgement"
    effects = moves.move(incident, IncidentStatus.TRIGGERED, service, directory, actor, now, reason)
    return "triggered again", effects


def auto_resolve(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> Decided:
    """An incident older than the service's auto_resolve_timeout resolves itself (contract 4.3)."""
    if not incident.is_open:
        return "incident is resolved", ()
    if service is None or not service.auto_resolve_s:
        return "the service's auto-resolve timeout is off", ()
    if now < timers.resolves_itself_at(incident, service):
        return "not yet due by the service as it is now", moves.rearm(incident, service, directory, now)
    reason = f"open for {service.auto_resolve_s} s"
    effects = moves.move(incident, IncidentStatus.RESOLVED, service, directory, actor, now, reason)
    return "resolved", effects


Decide = Callable[[IncidentState, ServiceFacts | None, Directory, Actor, datetime], Decided]

DECIDERS: dict[TimerKind, Decide] = {
    TimerKind.ESCALATE: escalate,
    TimerKind.ACKNOWLEDGEMENT_TIMEOUT: acknowledgement_timeout,
    TimerKind.AUTO_RESOLVE: auto_resolve,
}


def decide(
    kind: TimerKind,
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    now: datetime,
) -> Decided:
    actor = Actor(ActorKind.TIMER, kind.value.replace("_", " "))
    return DECIDERS[kind](incident, service, directory, actor, now)
