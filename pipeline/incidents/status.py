"""Acknowledge, resolve and trigger an incident again; snooze it and end the snooze."""

from datetime import datetime

from models.domain.effects import (
    CancelNotifications,
    Effect,
    IncidentState,
    NotifyRecovery,
    ReclaimEntities,
    ReleaseEntities,
)
from models.domain.enums import OPEN_KINDS, SLA_KINDS, IncidentStatus, NotificationKind
from models.domain.facts import IncidentContext
from models.domain.reasons import Reason, make_reason
from pipeline.incidents.escalation_run import (
    EMPTY_CONFIG,
    clear_snooze,
    end_snooze,
    format_number,
    reopen,
    restart_escalation,
    save_with_timers,
    send_outbound,
    start_escalation,
)

# An acknowledgement does not meet the resolve target of an SLA. A snooze stops the escalation, not the SLA.
_ACKNOWLEDGED_KINDS = OPEN_KINDS - {NotificationKind.SLA_RESOLVE}
_SNOOZED_KINDS = OPEN_KINDS - SLA_KINDS


def change_status(context: IncidentContext, status: IncidentStatus, why: Reason) -> tuple[Effect, ...]:
    """Change the status from any value to any other (contract 4.3); return no effects if nothing changes.

    A resolve also resolves the open incidents among the children. If the incident is triggered again or
    reopened, its snooze ends and it has no parent any more.
    """
    incident, author, now = context.incident, context.author, context.now
    if incident.status is status:
        return ()
    if status is IncidentStatus.TRIGGERED:
        return _retrigger(context, why)
    reclaimed = () if incident.is_open else _reclaim(context)
    if status is IncidentStatus.ACKNOWLEDGED:
        # The timeouts of a reopened incident start again. Otherwise they would be over immediately.
        before = incident if incident.is_open else reopen(incident, now).with_changes(acknowledged_date=None)
        changed = before.with_changes(
            status=status,
            acknowledged_date=before.acknowledged_date or now,
            sla_acknowledged_at=before.sla_acknowledged_at or now,
            resolved_date=None,
            assigned_to=before.assigned_to or author.user,
        )
        action, cancelled_kinds = "acknowledged", _ACKNOWLEDGED_KINDS
        cause = make_reason("acknowledged", by=author.name)
        released: tuple[Effect, ...] = ()
    else:
        changed = clear_snooze(incident).with_changes(status=status, resolved_date=now, collecting=False)
        action, cancelled_kinds = "resolved", frozenset(NotificationKind)
        cause = make_reason("resolved", by=author.name)
        released = (
            ReleaseEntities(incident.unique_id, author.is_person),
            *_resolve_children(context),
            NotifyRecovery(incident.unique_id, incident.escalation_run, now),
        )
    return (
        *save_with_timers(context.with_incident(changed), cause),
        *released,
        *reclaimed,
        CancelNotifications(incident.unique_id, now, cause, cancelled_kinds),
        context.build_log(action, why),
        *send_outbound(context.with_incident(changed)),
    )


def _retrigger(context: IncidentContext, why: Reason) -> tuple[Effect, ...]:
    incident, now = context.incident, context.now
    restarted = restart_escalation(incident, now) if incident.is_open else reopen(incident, now)
    triggered = restarted.with_changes(
        status=IncidentStatus.TRIGGERED, acknowledged_date=None, resolved_date=None
    )
    return (
        *_reclaim(context),
        context.build_log("triggered", why),
        *start_escalation(context.with_incident(triggered)),
        *send_outbound(context.with_incident(triggered)),
    )


def _reclaim(context: IncidentContext) -> tuple[Effect, ...]:
    """Return the effects for an incident that is open or triggered again.

    A reopened incident gets its entities back, and a merged one is no longer merged.
    """
    incident = context.incident
    entities = () if incident.is_open else (ReclaimEntities(incident.unique_id),)
    if incident.parent is None:
        return entities
    return (*entities, context.build_log("unmerged", make_reason("separate_again")))


def _resolve_children(context: IncidentContext) -> tuple[Effect, ...]:
    why = make_reason("parent_resolved", parent=format_number(context.incident))
    resolved = [
        change_status(
            IncidentContext(child, None, EMPTY_CONFIG, context.author, context.now),
            IncidentStatus.RESOLVED,
            why,
        )
        for child in context.children
    ]
    return tuple(effect for effects in resolved for effect in effects)


def check_snooze(incident: IncidentState) -> str | None:
    """Return a text for people: why the incident cannot be snoozed. None: it can."""
    if incident.status is not IncidentStatus.ACKNOWLEDGED:
        return "Only an acknowledged incident can be snoozed."
    return None if incident.parent is None else "It is merged into another incident and already silent."


def snooze(context: IncidentContext, until: datetime) -> tuple[Effect, ...]:
    """Silence an acknowledged incident until a time at which it is triggered again."""
    incident, now = context.incident, context.now
    why = make_reason("snoozed", until=until.isoformat(), by=context.author.name)
    snoozed = incident.with_changes(snoozed_at=now, snoozed_till=until)
    return (
        CancelNotifications(incident.unique_id, now, why, _SNOOZED_KINDS),
        context.build_log("snoozed", why),
        *save_with_timers(context.with_incident(snoozed), why),
    )


def unsnooze(context: IncidentContext) -> tuple[Effect, ...]:
    """End a snooze: the incident stays acknowledged and its timeouts start again.

    No effects without a snooze.
    """
    if context.incident.snoozed_till is None:
        return ()
    why = make_reason("snooze_ended", by=context.author.name)
    awake = context.with_incident(end_snooze(context.incident, context.now))
    return (context.build_log("unsnoozed", why), *save_with_timers(awake, why))
