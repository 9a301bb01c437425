"""What is decided when a timer is due, from what is true at that moment.

Each function answers with the timer's outcome in words, and what changes. A timer is a wake-up: one
that comes too late, twice, or for an incident that has moved on changes nothing and says why.
"""

from collections.abc import Callable
from datetime import datetime

from models.effects import Actor, Effect
from models.enums import ONCE, ActorKind, IncidentStatus, TimerKind
from models.facts import Surroundings
from pipeline import moves
from schedules import escalation, promises, timers

Decided = tuple[str, tuple[Effect, ...]]


def escalate(found: Surroundings, actor: Actor, now: datetime) -> Decided:
    """The next step of the chain, and every later one that is overdue."""
    incident, directory = found.incident, found.directory
    if incident.status is not IncidentStatus.TRIGGERED:
        return f"incident is {incident.status.name.lower()}", ()
    if not incident.escalating:
        return "escalation was stopped", ()
    after, effects = escalation.advance(incident, directory, actor, now)
    taken = after.next_step - incident.next_step
    outcome = f"{taken} step{'s' * (taken != 1)} taken" if taken else _why_none(found)
    return outcome, (*effects, *moves.rearm(after, found.service, directory, now, outcome))


def _why_none(found: Surroundings) -> str:
    is_gone = found.incident.escalation_policy not in found.directory.policies
    return "its policy is gone" if is_gone else "not yet due by the policy as it is now"


def acknowledgement_timeout(found: Surroundings, actor: Actor, now: datetime) -> Decided:
    """Acknowledged and still not resolved: triggered again, and the chain starts over (contract 4.3)."""
    incident, service = found.incident, found.service
    if incident.status is not IncidentStatus.ACKNOWLEDGED or incident.acknowledged_date is None:
        return f"incident is {incident.status.name.lower()}", ()
    if incident.snoozed_till is not None:
        return "the incident is asleep", moves.rearm(incident, service, found.directory, now)
    if service is None or not service.acknowledgement_timeout_s:
        return "the service's acknowledgement timeout is off", ()
    if now < timers.runs_out_at(incident, incident.acknowledged_date, service):
        return "not yet due by the service as it is now", moves.rearm(incident, service, found.directory, now)
    reason = f"not resolved within {service.acknowledgement_timeout_s} s of its acknowledgement"
    return "triggered again", _triggered_again(found, actor, now, reason)


def snooze(found: Surroundings, actor: Actor, now: datetime) -> Decided:
    """Put off until now: triggered again, and the chain starts over (contract 4.3)."""
    incident = found.incident
    if incident.snoozed_till is None:
        return "the incident is awake", ()
    if now < incident.snoozed_till:
        return "asleep until later", moves.rearm(incident, found.service, found.directory, now)
    return "triggered again", _triggered_again(found, actor, now, "the snooze is over")


def _triggered_again(found: Surroundings, actor: Actor, now: datetime, reason: str) -> tuple[Effect, ...]:
    to = IncidentStatus.TRIGGERED
    return moves.move(found.incident, to, found.service, found.directory, actor, now, reason)


def auto_resolve(found: Surroundings, actor: Actor, now: datetime) -> Decided:
    """An incident older than the service's auto_resolve_timeout resolves itself (contract 4.3)."""
    incident, service = found.incident, found.service
    if not incident.is_open:
        return "incident is resolved", ()
    if service is None or not service.auto_resolve_s:
        return "the service's auto-resolve timeout is off", ()
    if now < timers.resolves_itself_at(incident, service):
        return "not yet due by the service as it is now", moves.rearm(incident, service, found.directory, now)
    reason = f"open for {service.auto_resolve_s} s"
    to, directory = IncidentStatus.RESOLVED, found.directory
    effects = moves.move(incident, to, service, directory, actor, now, reason, found.children)
    return "resolved", effects


def promised(found: Surroundings, actor: Actor, now: datetime, key: str) -> Decided:
    """An SLA's escalation, or the breach itself, unless what was promised is met or promised no more."""
    incident, directory = found.incident, found.directory
    wait = next((each for each in promises.waits(incident, directory) if each.key == key), None)
    armed = moves.rearm(incident, found.service, directory, now)
    if wait is None:
        return "promised no more, or met", armed
    if now < wait.due_at:
        return "not yet due by the SLA as it is now", armed
    return promises.take(incident, wait, directory, actor, now)


Decide = Callable[[Surroundings, Actor, datetime], Decided]

DECIDERS: dict[TimerKind, Decide] = {
    TimerKind.ESCALATE: escalate,
    TimerKind.ACKNOWLEDGEMENT_TIMEOUT: acknowledgement_timeout,
    TimerKind.AUTO_RESOLVE: auto_resolve,
    TimerKind.SNOOZE: snooze,
}


def decide(kind: TimerKind, found: Surroundings, now: datetime, key: str) -> Decided:
    """What is to be done about a timer of this kind; `key` is what it waited for."""
    actor = Actor(ActorKind.TIMER, kind.value.replace("_", " "))
    if found.incident.parent is not None:
        armed = moves.rearm(found.incident, found.service, found.directory, now)
        return "the incident is merged into another", armed
    return promised(found, actor, now, key) if kind in ONCE else DECIDERS[kind](found, actor, now)
