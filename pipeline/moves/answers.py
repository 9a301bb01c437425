"""Acknowledged, resolved, triggered again; asleep and awake."""

from collections.abc import Iterable
from datetime import datetime

from models.effects import (
    Actor,
    Effect,
    IncidentState,
    ReclaimEntities,
    RecordLog,
    ReleaseEntities,
    VoidNotices,
)
from models.enums import PROMISED, IncidentStatus, NoticeKind
from models.facts import Directory, ServiceFacts
from pipeline.moves.chain import NOBODY, awake, called, new_chain, rearm, reopened, start, woken

# What an SLA promises about an end is no matter of an answer, and a sleep silences the chain, not a promise.
_ANSWERED = frozenset(NoticeKind) - {NoticeKind.SLA_RESOLVE}
_ASLEEP = frozenset(NoticeKind) - PROMISED


def move(
    incident: IncidentState,
    to: IncidentStatus,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
    reason: str,
    children: Iterable[IncidentState] = (),
) -> tuple[Effect, ...]:
    """Any state to any state (contract 4.3); nothing when it is there already.

    Resolved, it takes with it those of its `children` that are open. Triggered again or reopened, it is
    awake and stands alone.
    """
    if incident.status is to:
        return ()
    if to is IncidentStatus.TRIGGERED:
        return _trigger_again(incident, service, directory, actor, now, reason)
    back = () if incident.is_open else _back(incident, actor, now)
    if to is IncidentStatus.ACKNOWLEDGED:
        # A reopened one has its whole time again, or its time-outs would be over at once.
        before = incident if incident.is_open else reopened(incident, now).but(acknowledged_date=None)
        moved = before.but(
            status=to,
            acknowledged_date=before.acknowledged_date or now,
            answered_at=before.answered_at or now,
            resolved_date=None,
            assigned_to=before.assigned_to or actor.user,
        )
        word, over = "acknowledged", _ANSWERED
        freed: tuple[Effect, ...] = ()
    else:
        moved = awake(incident).but(status=to, resolved_date=now, collecting=False)
        word, over = "resolved", frozenset(NoticeKind)
        freed = (
            ReleaseEntities(incident.unique_id, actor.is_person),
            *_children_resolved(incident, children, actor, now),
        )
    why = f"{word} by {actor.name}"
    return (
        *rearm(moved, service, directory, now, why),
        *freed,
        *back,
        VoidNotices(incident.unique_id, now, why, over),
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
    back = _back(incident, actor, now)
    begun = new_chain(incident, now) if incident.is_open else reopened(incident, now)
    again = begun.but(status=IncidentStatus.TRIGGERED, acknowledged_date=None, resolved_date=None)
    return (
        *back,
        RecordLog(incident.unique_id, now, "triggered", reason, actor),
        *start(again, service, directory, actor, now),
    )


def _back(incident: IncidentState, actor: Actor, now: datetime) -> tuple[Effect, ...]:
    """What an incident takes back that needs somebody again, and that it does so by itself."""
    entities = () if incident.is_open else (ReclaimEntities(incident.unique_id),)
    if incident.parent is None:
        return entities
    return (
        *entities,
        RecordLog(incident.unique_id, now, "unmerged", "it needs somebody by itself again", actor),
    )


def _children_resolved(
    incident: IncidentState, children: Iterable[IncidentState], actor: Actor, now: datetime
) -> tuple[Effect, ...]:
    reason = f"merged into {called(incident)}, which is resolved"
    over = [move(child, IncidentStatus.RESOLVED, None, NOBODY, actor, now, reason) for child in children]
    return tuple(effect for effects in over for effect in effects)


def against_snoozing(incident: IncidentState) -> str | None:
    """Why it cannot be put to sleep, in words."""
    if incident.status is not IncidentStatus.ACKNOWLEDGED:
        return "Only an acknowledged incident can be snoozed."
    return None if incident.parent is None else "It is merged into another one, and silent already."


def snooze(
    incident: IncidentState,
    until: datetime,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Nothing more is heard of an acknowledged incident until then, when it is triggered again."""
    why = f"until {until:%Y-%m-%d %H:%M:%S} UTC by {actor.name}"
    asleep = incident.but(snoozed_at=now, snoozed_till=until)
    return (
        VoidNotices(incident.unique_id, now, f"snoozed {why}", _ASLEEP),
        RecordLog(incident.unique_id, now, "snoozed", why, actor),
        *rearm(asleep, service, directory, now, f"snoozed {why}"),
    )


def wake(
    incident: IncidentState,
    service: ServiceFacts | None,
    directory: Directory,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Acknowledged as before its sleep, its time-outs with their whole time; nothing when it is awake."""
    if incident.snoozed_till is None:
        return ()
    why = f"woken by {actor.name}"
    log = RecordLog(incident.unique_id, now, "woken", why, actor)
    return (log, *rearm(woken(incident, now), service, directory, now, why))
