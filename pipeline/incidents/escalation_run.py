"""Functions that all changes of an incident use: open it, start its escalation run, compute its timers."""

from collections.abc import Iterable
from datetime import datetime

from models.domain.effects import (
    ApplyTaskTemplate,
    CreateNotification,
    Effect,
    IncidentState,
    ReconcileTimers,
    SaveIncident,
    SendOutbound,
    restarted_escalation,
)
from models.domain.enums import IncidentStatus, NotificationKind, OutboundEvent
from models.domain.facts import IncidentContext, OnCallConfig, PersonFacts
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.incidents.timer_table import get_expected_timers
from schedules.escalation import escalation
from schedules.escalation.person_notifications import build_notifications, get_recipient, get_routing_time

# For an incident without a running escalation: no policies and no people are needed.
EMPTY_CONFIG = OnCallConfig()


def save_with_timers(context: IncidentContext, why: Reason | None = None) -> tuple[Effect, ...]:
    """Return the effects that save the incident and make its timers exactly those that its state requires."""
    incident = context.incident
    timers = get_expected_timers(incident, context.service, context.config)
    cause = why or make_reason("timers_saved")
    return (SaveIncident(incident), ReconcileTimers(incident.unique_id, timers, context.now, cause))


def open_incident(
    context: IncidentContext, why: Reason, *, templates: Iterable[int | None] = ()
) -> tuple[Effect, ...]:
    """Return the effects of a new incident: its log entry, and the tasks of these templates.

    The caller must also call `start_escalation`, which notifies people and sets the timers.
    """
    incident, author, now = context.incident, context.author, context.now
    tasks = [ApplyTaskTemplate(incident.unique_id, each, now, author) for each in templates if each]
    return (SaveIncident(incident), context.build_log("opened", why), *tasks, *send_outbound(context))


_EVENTS = {
    IncidentStatus.TRIGGERED: OutboundEvent.TRIGGERED,
    IncidentStatus.ACKNOWLEDGED: OutboundEvent.ACKNOWLEDGED,
    IncidentStatus.RESOLVED: OutboundEvent.RESOLVED,
}


def send_outbound(context: IncidentContext) -> tuple[Effect, ...]:
    """Return the effect that sends the new status to outbound integrations; none if the service has none.

    Without the facts of the service, as for merged incidents, the effect finds out when it is written.
    """
    incident, service = context.incident, context.service
    if incident.service is None or not (service is None or service.has_outbound):
        return ()
    return (SendOutbound(incident.unique_id, incident.service, _EVENTS[incident.status], context.now),)


def start_escalation(context: IncidentContext) -> tuple[Effect, ...]:
    """Start the escalation run: take the steps that are due now, and create the timer of the next step."""
    incident, effects = escalation.advance(context)
    return (*effects, *save_with_timers(context.with_incident(incident), make_reason("first_step_taken")))


def take_step_early(context: IncidentContext, run: int, step: int) -> tuple[Effect, ...]:
    """Take the step after `step` now, because nobody of that step could be notified; empty: too late."""
    taken = escalation.take_step_early(context, run, step)
    if taken is None:
        return ()
    incident, effects = taken
    return (*effects, *save_with_timers(context.with_incident(incident), make_reason("step_taken_early")))


def start_for_assignee(context: IncidentContext, person: PersonFacts | None) -> tuple[Effect, ...]:
    """Start the escalation run of a new incident, and notify its assignee if the run does not."""
    effects = start_escalation(context)
    if person is None:
        return effects
    later = replace(context, now=max(context.now, context.incident.run_started_at))
    first = effects if later.now == context.now else _get_first_effects(later)
    receiver = get_recipient(person, get_routing_time(context.config, later.now))
    if any(
        effect.notification.user == receiver.row for effect in first if isinstance(effect, CreateNotification)
    ):
        return effects
    why = make_reason("assigned_you", by=context.author.name)
    return (*effects, *build_notifications(later, person, NotificationKind.ASSIGNMENT, "0", why))


def _get_first_effects(later: IncidentContext) -> tuple[Effect, ...]:
    """Return the effects of a run that starts later, as far as they are known now.

    It will notify the people who are on call then. Only the people whom a step names directly are known now.
    """
    _, effects = escalation.advance(replace(later, config=replace(later.config, schedules={})))
    return effects


def get_saved(incident: IncidentState, effects: Iterable[Effect]) -> IncidentState:
    """Return the incident as it is after these effects."""
    saved = [effect.incident for effect in effects if isinstance(effect, SaveIncident)]
    return next((one for one in reversed(saved) if one.unique_id == incident.unique_id), incident)


def format_number(incident: IncidentState) -> str:
    """Return the number by which people know the incident: messages show no other ID."""
    return f"#{incident.number}"


def clear_snooze(incident: IncidentState) -> IncidentState:
    return incident.with_changes(snoozed_at=None, snoozed_till=None)


def detach(incident: IncidentState, now: datetime) -> IncidentState:
    """Return the incident without snooze and without parent.

    Its timeouts start again. Otherwise all timeouts that passed during the snooze or the merge would be due
    immediately.
    """
    if incident.snoozed_till is None and incident.parent is None:
        return incident
    return clear_snooze(incident).with_changes(parent=None, timeouts_started_at=now)


def end_snooze(incident: IncidentState, now: datetime) -> IncidentState:
    """Return the incident without snooze. An incident that is not snoozed keeps its parent."""
    return incident if incident.snoozed_till is None else detach(incident, now)


def restart_escalation(incident: IncidentState, now: datetime) -> IncidentState:
    """Return the incident with a new escalation run, without snooze and without parent.

    Its timeouts continue.
    """
    return detach(incident, now).with_changes(**restarted_escalation(incident.escalation_run, now))


def reopen(incident: IncidentState, now: datetime) -> IncidentState:
    """Return the incident as open again. Its SLA targets and its timeouts start again too."""
    return restart_escalation(incident, now).with_changes(
        sla_started_at=now, sla_acknowledged_at=None, timeouts_started_at=now
    )
