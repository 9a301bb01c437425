"""Handed on: to a person, another policy, another SLA, another urgency; and who has which role."""

from collections.abc import Iterable
from datetime import datetime

from models.domain.effects import (
    Actor,
    AssignRole,
    CancelNotifications,
    CreateNotification,
    Effect,
    IncidentState,
    RecordLog,
    SaveIncident,
)
from models.domain.enums import RULE_BASED, SLA_KINDS, IncidentStatus, NotificationKind, Urgency
from models.domain.facts import NotificationFacts, OnCallConfig, PersonFacts, Reference, ServiceFacts
from pipeline.incidents.escalation_run import (
    end_snooze,
    restart_escalation,
    save_with_timers,
    start_escalation,
)
from schedules.escalation.notifications import (
    build_notifications,
    get_recipient,
    get_routing_time,
    rebuild_notifications,
)
from schedules.escalation.targets import choose_assignee

# Who has an incident, and where it goes, is no concern of what its SLA promises, nor of those who were asked
# to help.
_REASSIGNED_KINDS = frozenset(NotificationKind) - SLA_KINDS - {NotificationKind.RESPONDER}
_ASSIGNMENT_KINDS = frozenset({NotificationKind.ASSIGNMENT})


def assign(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    config: OnCallConfig,
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> tuple[Effect, ...]:
    """Somebody takes it over: escalation stops, that person is told, a sleep ends (contract 4.3).

    Left to nobody, the chain that was stopped for somebody begins anew, unless it was acknowledged.
    """
    row = person.row if person else None
    if incident.assigned_to == row:
        return ()
    name = person.name if person else "nobody"
    why = _add_reason(f"assigned to {name} by {actor.name}", reason)
    log = RecordLog(incident.unique_id, now, "assigned", why, actor)
    unsnoozed = end_snooze(incident, now).with_changes(assigned_to=row)
    if not incident.is_open:
        return (log, *save_with_timers(unsnoozed, service, config, now, why))
    if person is None:
        cancelled = CancelNotifications(incident.unique_id, now, why, _ASSIGNMENT_KINDS)
        if incident.status is IncidentStatus.TRIGGERED and not incident.escalating:
            return (
                cancelled,
                log,
                *start_escalation(restart_escalation(unsnoozed, now), service, config, actor, now),
            )
        return (cancelled, log, *save_with_timers(unsnoozed, service, config, now, why))
    # Each assignment is a reason of its own, so it gets a chain number of its own.
    assigned = unsnoozed.with_changes(escalating=False, escalation_run=unsnoozed.escalation_run + 1)
    notifications = build_notifications(
        assigned,
        person,
        NotificationKind.ASSIGNMENT,
        str(assigned.escalation_run),
        f"assigned by {actor.name}",
        config,
        now,
    )
    created = [CreateNotification(notification) for notification in notifications]
    return (
        CancelNotifications(incident.unique_id, now, why, _REASSIGNED_KINDS),
        log,
        *created,
        *save_with_timers(assigned, service, config, now, why),
    )


def assign_role(
    incident: str, unique_id: str, role: Reference, person: Reference, actor: Actor, now: datetime
) -> tuple[Effect, ...]:
    """A person has a role in an incident from now on, in the place of whoever had it."""
    reason = f"{role.name} is {person.name} by {actor.name}"
    log = RecordLog(incident, now, "role_given", reason, actor)
    return (AssignRole(incident, unique_id, role.row, person.row, now), log)


def change_policy(
    incident: IncidentState,
    policy: int | None,
    service: ServiceFacts | None,
    config: OnCallConfig,
    actor: Actor,
    now: datetime,
    reason: str = "",
    *,
    keep_assignee: bool = False,
) -> tuple[Effect, ...]:
    """Another escalation policy: its chain starts from the first rule, a sleep ends (contract 4.3).

    Where nobody has acknowledged, it is assigned as a new incident of that policy is, unless it is said to
    stay as it is; who keeps it is then told of it still, by the chain if that names them.
    """
    if incident.escalation_policy == policy:
        return ()
    found = config.policies.get(policy or 0)
    why = _add_reason(
        f"escalation policy changed to {found.name if found else 'none'} by {actor.name}", reason
    )
    log = RecordLog(incident.unique_id, now, "rerouted", why, actor)
    changed = end_snooze(incident, now).with_changes(escalation_policy=policy)
    if incident.status is not IncidentStatus.TRIGGERED:
        return (log, *save_with_timers(changed, service, config, now, why))
    restarted = restart_escalation(changed, now)
    turn: tuple[Effect, ...] = ()
    if not keep_assignee:
        person, turn = choose_assignee(found, config, config.next_targets.get(policy or 0, 0), now)
        restarted = restarted.with_changes(assigned_to=person.row if person else None)
    started = start_escalation(restarted, service, config, actor, now)
    notified = {effect.notification.user for effect in started if isinstance(effect, CreateNotification)}
    at = get_routing_time(config, now)
    # Whoever has it, and is named by the chain, is known; or somebody is told in their place.
    assignee_rows = {
        get_recipient(one, at).row for one in config.people.values() if one.row == restarted.assigned_to
    }
    cancelled_kinds = (
        _REASSIGNED_KINDS - _ASSIGNMENT_KINDS
        if keep_assignee and not assignee_rows & notified
        else _REASSIGNED_KINDS
    )
    return (CancelNotifications(incident.unique_id, now, why, cancelled_kinds), log, *turn, *started)


def change_urgency(
    incident: IncidentState,
    urgency: Urgency,
    history: Iterable[NotificationFacts],
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Another urgency: by its rules people are told from now on. `tellings` are what they were told so far,
    and are to be told."""
    raised = urgency > incident.urgency
    why = f"urgency {'raised' if raised else 'lowered'} by {actor.name}"
    changed = incident.with_changes(urgency=urgency)
    created = rebuild_notifications(changed, history, raised=raised, why=why, now=now)
    return (
        SaveIncident(changed),
        CancelNotifications(incident.unique_id, now, why, RULE_BASED),
        *(CreateNotification(notification) for notification in created),
    )


def change_sla(
    incident: IncidentState,
    sla: int | None,
    service: ServiceFacts | None,
    config: OnCallConfig,
    now: datetime,
    why: str,
) -> tuple[Effect, ...]:
    """Another SLA, or none: what it promises is counted from when this one's was; what this one still owed is
    owed no more."""
    return (
        CancelNotifications(incident.unique_id, now, why, SLA_KINDS),
        *save_with_timers(incident.with_changes(sla=sla), service, config, now, why),
    )


def _add_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
