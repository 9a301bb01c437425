"""What all moves are made of: an incident begins, its chain begins, and its timers follow from what it is."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from models.domain.effects import (
    Actor,
    ApplyTaskTemplate,
    CreateNotification,
    Effect,
    IncidentState,
    ReconcileTimers,
    RecordLog,
    SaveIncident,
    restarted_escalation,
)
from models.domain.enums import NotificationKind
from models.domain.facts import OnCallConfig, PersonFacts, ServiceFacts
from schedules.escalation import escalation
from schedules.escalation.notifications import build_notifications, get_recipient, get_routing_time
from schedules.timers import expected

# Whom a chain may name that does not go on.
EMPTY_CONFIG = OnCallConfig()


def save_with_timers(
    incident: IncidentState,
    service: ServiceFacts | None,
    config: OnCallConfig,
    now: datetime,
    why: str = "planned anew",
) -> tuple[Effect, ...]:
    """The incident as it is now, and exactly the timers that follow from it."""
    reconcile = ReconcileTimers(
        incident.unique_id, expected.get_expected_timers(incident, service, config), now, why
    )
    return (SaveIncident(incident), reconcile)


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


def start_escalation(
    incident: IncidentState,
    service: ServiceFacts | None,
    config: OnCallConfig,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Begin the chain: the steps that are due at once, and the timer of the next."""
    incident, effects = escalation.advance(incident, config, actor, now)
    return (*effects, *save_with_timers(incident, service, config, now, "first step taken"))


def start_for_assignee(
    incident: IncidentState,
    person: PersonFacts | None,
    service: ServiceFacts | None,
    config: OnCallConfig,
    actor: Actor,
    now: datetime,
) -> tuple[Effect, ...]:
    """Begin the chain of a new incident that somebody was chosen for: they are told, by it or besides it."""
    effects = start_escalation(incident, service, config, actor, now)
    if person is None:
        return effects
    # A chain that begins later tells its first people then: who is on call by then is not known.
    at = max(now, incident.run_started_at)
    known = config if at == now else replace(config, schedules={})
    _, first = escalation.advance(incident, known, actor, at)
    receiver = get_recipient(person, get_routing_time(config, at))
    if any(
        effect.notification.user == receiver.row for effect in first if isinstance(effect, CreateNotification)
    ):
        return effects
    reason = f"assigned by {actor.name}"
    notifications = build_notifications(
        incident, person, NotificationKind.ASSIGNMENT, "0", reason, config, at
    )
    return (*effects, *(CreateNotification(notification) for notification in notifications))


def get_saved(incident: IncidentState, effects: Iterable[Effect]) -> IncidentState:
    """The incident as these effects leave it."""
    saved = [effect.incident for effect in effects if isinstance(effect, SaveIncident)]
    return next((one for one in reversed(saved) if one.unique_id == incident.unique_id), incident)


def format_number(incident: IncidentState) -> str:
    """As people call it; they know of no other before they can ask for anything."""
    return f"#{incident.number}"


def clear_snooze(incident: IncidentState) -> IncidentState:
    return incident.with_changes(snoozed_at=None, snoozed_till=None)


def detach(incident: IncidentState, now: datetime) -> IncidentState:
    """Awake and by itself: what a sleep or a parent kept back must not all be over at once."""
    if incident.snoozed_till is None and incident.parent is None:
        return incident
    return clear_snooze(incident).with_changes(parent=None, timeouts_started_at=now)


def end_snooze(incident: IncidentState, now: datetime) -> IncidentState:
    """Awake, a child as before."""
    return incident if incident.snoozed_till is None else detach(incident, now)


def restart_escalation(incident: IncidentState, now: datetime) -> IncidentState:
    """Awake, by itself, and its chain begins anew; its time-outs go on."""
    return detach(incident, now).with_changes(**restarted_escalation(incident.escalation_run, now))


def reopen(incident: IncidentState, now: datetime) -> IncidentState:
    """Open again: its promises and its time-outs begin anew too."""
    return restart_escalation(incident, now).with_changes(
        sla_started_at=now, sla_acknowledged_at=None, timeouts_started_at=now
    )
