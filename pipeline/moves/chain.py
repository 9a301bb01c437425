"""What all moves are made of: an incident begins, its chain begins, and its timers follow from what it is."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from models.effects import (
    Actor,
    ApplyTaskTemplate,
    ArmTimers,
    Effect,
    IncidentState,
    OweNotice,
    RecordLog,
    SaveIncident,
    begun_anew,
)
from models.enums import NoticeKind
from models.facts import Directory, PersonFacts, ServiceFacts
from schedules import escalation, timers
from schedules.notices import notices_for, recipient, told_at

# Whom a chain may name that does not go on.
NOBODY = Directory()


def rearm(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    now: datetime,
    why: str = "planned anew",
) -> tuple[Effect, ...]:
    """The incident as it is now, and exactly the timers that follow from it."""
    armed = ArmTimers(incident.unique_id, timers.wanted(incident, service, directory), now, why)
    return (SaveIncident(incident), armed)


def open_incident(
    incident: IncidentState,
    actor: Actor,
    now: datetime,
    reason: str,
    *,
    templates: Iterable[int | None] = (),
) -> tuple[Effect, ...]:
    """A new incident, logged, with the tasks of these templates. `start` must follow: it tells people and
    sets the timers."""
    name = incident.unique_id
    tasks = [ApplyTaskTemplate(name, template, now, actor) for template in templates if template]
    return (SaveIncident(incident), RecordLog(name, now, "opened", reason, actor), *tasks)


def start(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Begin the chain: the steps that are due at once, and the timer of the next."""
    incident, effects = escalation.advance(incident, directory, actor, now)
    return (*effects, *rearm(incident, service, directory, now, "first step taken"))


def start_assigned(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Begin the chain of a new incident that somebody was chosen for: they are told, by it or besides it."""
    effects = start(incident, service, directory, actor, now)
    if person is None:
        return effects
    # A chain that begins later tells its first people then: who is on call by then is not known.
    at = max(now, incident.chain_started_at)
    known = directory if at == now else replace(directory, schedules={})
    _, first = escalation.advance(incident, known, actor, at)
    told = recipient(person, told_at(directory, at))
    if any(effect.notice.user == told.row for effect in first if isinstance(effect, OweNotice)):
        return effects
    reason = f"assigned by {actor.name}"
    notices = notices_for(incident, person, NoticeKind.ASSIGNMENT, "0", reason, directory, at)
    return (*effects, *(OweNotice(notice) for notice in notices))


def after(incident: IncidentState, effects: Iterable[Effect]) -> IncidentState:
    """The incident as these effects leave it."""
    said = [effect.incident for effect in effects if isinstance(effect, SaveIncident)]
    return next((one for one in reversed(said) if one.unique_id == incident.unique_id), incident)


def called(incident: IncidentState) -> str:
    """As people call it; they know of no other before they can ask for anything."""
    return f"#{incident.number}"


def awake(incident: IncidentState) -> IncidentState:
    return incident.but(snoozed_at=None, snoozed_till=None)


def alone(incident: IncidentState, now: datetime) -> IncidentState:
    """Awake and by itself: what a sleep or a parent kept back must not all be over at once."""
    if incident.snoozed_till is None and incident.parent is None:
        return incident
    return awake(incident).but(parent=None, timeouts_from=now)


def woken(incident: IncidentState, now: datetime) -> IncidentState:
    """Awake, a child as before."""
    return incident if incident.snoozed_till is None else alone(incident, now)


def new_chain(incident: IncidentState, now: datetime) -> IncidentState:
    """Awake, by itself, and its chain begins anew; its time-outs go on."""
    return alone(incident, now).but(**begun_anew(incident.chain, now))


def reopened(incident: IncidentState, now: datetime) -> IncidentState:
    """Open again: its promises and its time-outs begin anew too."""
    return new_chain(incident, now).but(promised_from=now, answered_at=None, timeouts_from=now)
