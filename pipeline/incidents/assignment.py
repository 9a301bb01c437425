"""Assign an incident to a person, give roles in it, and change its policy, SLA or urgency."""

from collections.abc import Iterable
from datetime import datetime

from models.domain.effects import (
    AssignRole,
    Author,
    CancelNotifications,
    CreateNotification,
    Effect,
    RecordLog,
    SaveIncident,
)
from models.domain.enums import OPEN_KINDS, RULE_BASED, SLA_KINDS, IncidentStatus, NotificationKind, Urgency
from models.domain.facts import IncidentContext, NotificationFacts, PersonFacts, Reference
from models.domain.reasons import Reason, make_reason
from pipeline.incidents.escalation_run import (
    end_snooze,
    restart_escalation,
    save_with_timers,
    start_escalation,
)
from schedules.escalation.person_notifications import (
    build_notifications,
    get_recipient,
    get_routing_time,
    rebuild_notifications,
)
from schedules.escalation.targets import choose_assignee

# A new assignee or policy changes neither the SLA targets nor the requests to responders. Their notifications
# stay.
_REASSIGNED_KINDS = OPEN_KINDS - SLA_KINDS - {NotificationKind.RESPONDER}
_ASSIGNMENT_KINDS = frozenset({NotificationKind.ASSIGNMENT})


def assign(
    context: IncidentContext, person: PersonFacts | None, note: Reason | None = None
) -> tuple[Effect, ...]:
    """Assign the incident to a person: escalation stops, the person is notified, a snooze ends (contract
    4.3).

    `person` None leaves the incident unassigned. If the incident is triggered and an assignment had stopped
    its escalation, a new run starts.
    """
    incident, author, now = context.incident, context.author, context.now
    row = person.row if person else None
    if incident.assigned_to == row:
        return ()
    cause = (
        make_reason("assigned", person=person.name, by=author.name)
        if person
        else make_reason("unassigned", by=author.name)
    )
    why = cause.add(note)
    log = context.build_log("assigned", why)
    unsnoozed = end_snooze(incident, now).with_changes(assigned_to=row)
    if not incident.is_open:
        return (log, *save_with_timers(context.with_incident(unsnoozed), why))
    if person is None:
        cancelled = CancelNotifications(incident.unique_id, now, why, _ASSIGNMENT_KINDS)
        if incident.status is IncidentStatus.TRIGGERED and not incident.escalating:
            restarted = context.with_incident(restart_escalation(unsnoozed, now))
            return (cancelled, log, *start_escalation(restarted))
        return (cancelled, log, *save_with_timers(context.with_incident(unsnoozed), why))
    # Each assignment is a separate reason to notify, so it gets its own run number.
    assigned = unsnoozed.with_changes(escalating=False, escalation_run=unsnoozed.escalation_run + 1)
    after, cause = context.with_incident(assigned), make_reason("assigned_you", by=author.name)
    reason_key = str(assigned.escalation_run)
    return (
        CancelNotifications(incident.unique_id, now, why, _REASSIGNED_KINDS),
        log,
        *build_notifications(after, person, NotificationKind.ASSIGNMENT, reason_key, cause),
        *save_with_timers(after, why),
    )


def assign_role(
    incident: str, unique_id: str, role: Reference, person: Reference, author: Author, now: datetime
) -> tuple[Effect, ...]:
    """Give a person a role in an incident, in place of the person who had it."""
    why = make_reason("role_given", person=person.name, role=role.name, by=author.name)
    log = RecordLog(incident, now, "role_given", why, author)
    return (AssignRole(incident, unique_id, role.row, person.row, now), log)


def change_policy(
    context: IncidentContext, policy: int | None, note: Reason | None = None, *, keep_assignee: bool = False
) -> tuple[Effect, ...]:
    """Change the escalation policy: a run starts at its first step, and a snooze ends (contract 4.3).

    A triggered incident is assigned in the same way as a new incident of that policy, unless `keep_assignee`
    is set. An assignee who stays still gets the pending assignment notification, unless the new run notifies
    the assignee.
    """
    incident, config, author, now = context.incident, context.config, context.author, context.now
    if incident.escalation_policy == policy:
        return ()
    found = config.policies.get(policy or 0)
    if found:
        why = make_reason("policy_changed", policy=found.name, by=author.name).add(note)
    else:
        why = make_reason("policy_removed", by=author.name).add(note)
    log = context.build_log("rerouted", why)
    changed = end_snooze(incident, now).with_changes(escalation_policy=policy)
    if incident.status is not IncidentStatus.TRIGGERED:
        return (log, *save_with_timers(context.with_incident(changed), why))
    restarted = restart_escalation(changed, now)
    advanced: tuple[Effect, ...] = ()
    if not keep_assignee:
        person, advanced = choose_assignee(found, config, config.next_targets.get(policy or 0, 0), now)
        restarted = restarted.with_changes(assigned_to=person.row if person else None)
    started = start_escalation(context.with_incident(restarted))
    notified = {effect.notification.user for effect in started if isinstance(effect, CreateNotification)}
    at = get_routing_time(config, now)
    # Notifications can be forwarded, so compare the person who receives those of the assignee.
    assignee_rows = {
        get_recipient(one, at).row for one in config.people.values() if one.row == restarted.assigned_to
    }
    cancelled_kinds = (
        _REASSIGNED_KINDS - _ASSIGNMENT_KINDS
        if keep_assignee and not assignee_rows & notified
        else _REASSIGNED_KINDS
    )
    return (CancelNotifications(incident.unique_id, now, why, cancelled_kinds), log, *advanced, *started)


def change_urgency(
    context: IncidentContext, urgency: Urgency, notifications: Iterable[NotificationFacts]
) -> tuple[Effect, ...]:
    """Change the urgency; from now on its notification rules apply.

    `notifications` are the notifications of the incident, sent and pending.
    """
    incident, now = context.incident, context.now
    raised = urgency > incident.urgency
    by = context.author.name
    why = make_reason("urgency_raised", by=by) if raised else make_reason("urgency_lowered", by=by)
    changed = incident.with_changes(urgency=urgency)
    return (
        SaveIncident(changed),
        CancelNotifications(incident.unique_id, now, why, RULE_BASED),
        *rebuild_notifications(context.with_incident(changed), notifications, raised=raised, why=why),
    )


def change_sla(context: IncidentContext, sla: int | None, why: Reason) -> tuple[Effect, ...]:
    """Change the SLA, or remove it with None. The new targets count from the start of the old ones.

    Pending notifications of the old SLA are cancelled.
    """
    incident = context.incident
    return (
        CancelNotifications(incident.unique_id, context.now, why, SLA_KINDS),
        *save_with_timers(context.with_incident(incident.with_changes(sla=sla)), why),
    )
