"""The incident state machine: what it means to acknowledge, resolve, reopen, assign or re-route.

Used alike by alerts, timers, the HTTP interface and signed links. Each function answers with the
whole change; nothing here looks at a clock or a table. Contract sections 4.3 and 4.4.
"""

from datetime import datetime

from models.effects import (
    Actor,
    ArmTimers,
    Effect,
    IncidentState,
    OweNotice,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    SaveIncident,
    VoidNotices,
)
from models.enums import IncidentStatus, NoticeKind
from models.facts import Directory, PersonFacts, ServiceFacts
from schedules import escalation, timers


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


def open_incident(incident: IncidentState, actor: Actor, now: datetime, reason: str) -> tuple[Effect, ...]:
    """A new incident, logged. `start` must follow: it tells people and sets the timers."""
    return (SaveIncident(incident), RecordLog(incident.unique_id, now, "opened", reason, actor))


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
    # A chain that begins later tells its first people then.
    at = max(now, incident.chain_started_at)
    _, first = escalation.advance(incident, directory, actor, at)
    if any(effect.notice.user == person.row for effect in first if isinstance(effect, OweNotice)):
        return effects
    reason = f"assigned by {actor.name}"
    notices = escalation.notices_for(incident, person, NoticeKind.ASSIGNMENT, "0", reason, at)
    return (*effects, *(OweNotice(notice) for notice in notices))


def move(
    incident: IncidentState,
    to: IncidentStatus,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str,
) -> tuple[Effect, ...]:
    """Any state to any state (contract 4.3); nothing when it is there already."""
    if incident.status is to:
        return ()
    if to is IncidentStatus.TRIGGERED:
        return _trigger_again(incident, service, directory, actor, now, reason)
    reopened: tuple[Effect, ...] = () if incident.is_open else (ReclaimEntities(incident.unique_id),)
    if to is IncidentStatus.ACKNOWLEDGED:
        # A reopened one has its whole time again, or its time-outs would be over at once.
        before = incident if incident.is_open else _new_chain(incident, now).but(acknowledged_date=None)
        moved = before.but(
            status=to,
            acknowledged_date=before.acknowledged_date or now,
            resolved_date=None,
            assigned_to=before.assigned_to or actor.user,
        )
        word = "acknowledged"
        freed: tuple[Effect, ...] = ()
    else:
        moved = incident.but(status=to, resolved_date=now, collecting=False)
        word = "resolved"
        freed = (ReleaseEntities(incident.unique_id),)
    why = f"{word} by {actor.name}"
    return (
        *rearm(moved, service, directory, now, why),
        *freed,
        *reopened,
        VoidNotices(incident.unique_id, now, why),
        RecordLog(incident.unique_id, now, word, reason, actor),
    )


def _trigger_again(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str,
) -> tuple[Effect, ...]:
    reopened: tuple[Effect, ...] = () if incident.is_open else (ReclaimEntities(incident.unique_id),)
    again = _new_chain(incident, now).but(
        status=IncidentStatus.TRIGGERED, acknowledged_date=None, resolved_date=None
    )
    return (
        *reopened,
        RecordLog(incident.unique_id, now, "triggered", reason, actor),
        *start(again, service, directory, actor, now),
    )


def _new_chain(incident: IncidentState, now: datetime) -> IncidentState:
    return incident.but(escalating=True, chain=incident.chain + 1, chain_started_at=now, next_step=0)


def assign(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Somebody takes it over: escalation stops, that person is told (contract 4.3)."""
    row = person.row if person else None
    if incident.assigned_to == row:
        return ()
    name = person.name if person else "nobody"
    why = f"assigned to {name} by {actor.name}"
    log = RecordLog(incident.unique_id, now, "assigned", why, actor)
    if person is None or not incident.is_open:
        return (SaveIncident(incident.but(assigned_to=row)), log)
    # Each assignment is a reason of its own, so it gets a chain number of its own.
    taken = incident.but(assigned_to=row, escalating=False, chain=incident.chain + 1)
    notices = escalation.notices_for(
        taken, person, NoticeKind.ASSIGNMENT, str(taken.chain), f"assigned by {actor.name}", now
    )
    owed = [OweNotice(notice) for notice in notices]
    return (
        VoidNotices(incident.unique_id, now, why),
        log,
        *owed,
        *rearm(taken, service, directory, now, why),
    )


def change_policy(
    incident: IncidentState,
    policy: int | None,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Another escalation policy: its chain starts from the first rule (contract 4.3)."""
    if incident.escalation_policy == policy:
        return ()
    found = directory.policies.get(policy or 0)
    why = f"escalation policy changed to {found.name if found else 'none'} by {actor.name}"
    log = RecordLog(incident.unique_id, now, "rerouted", why, actor)
    changed = incident.but(escalation_policy=policy)
    if incident.status is not IncidentStatus.TRIGGERED:
        return (log, *rearm(changed, service, directory, now, why))
    return (
        VoidNotices(incident.unique_id, now, why),
        log,
        *start(_new_chain(changed, now), service, directory, actor, now),
    )
