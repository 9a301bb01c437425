"""Stage 5: decide whether an alert opens an incident, and with which values. Contract section 4.1."""

from datetime import datetime, timedelta

from models.domain.effects import Decision, Effect, IncidentState, SaveEntity, SaveIncident, proceed, stop
from models.domain.enums import Collation, IncidentStatus
from models.domain.facts import ServiceFacts
from pipeline import identity, incidents
from pipeline.alert import Alert, get_actor
from pipeline.lane_state import LaneState
from pipeline.rules import actions
from pipeline.stages.incident_details import build_details, build_tasks
from pipeline.stages.severity import describe_levels, opens_incident
from schedules.escalation import targets

# The length of the context window of an incident (contract 4.1, row 20).
CONTEXT_WINDOW = timedelta(minutes=30)


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    integration = state.facts.integrations[alert.integration]
    if not opens_incident(integration, alert.alert_type):
        level = alert.alert_type.name.lower()
        return stop(
            f"{level} opens no incident here: the integration opens them for {describe_levels(integration)}"
        )
    facts = state.facts
    incident, turn = _build_incident(alert, state, now)
    reason = f"{alert.alert_type.name.lower()} alert from {integration.name}"
    templates = (facts.service.task_template, *alert.options.task_templates)
    opened = incidents.open_incident(incident, get_actor(alert), now, reason, templates=templates)
    entity = state.get_entity(alert.integration, alert.entity_id)
    return proceed(
        "opens an incident",
        *_stop_collecting(facts.service, state),
        *opened,
        *turn,
        SaveEntity(entity.with_incident(incident.unique_id)),
        *build_tasks(alert, incident.unique_id, now),
        *build_details(alert, incident, state, now),
        incident=incident.unique_id,
        opened=True,
    )


def _build_incident(
    alert: Alert, state: LaneState, now: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """Return the new incident, and the round-robin effect of its assignment."""
    service, config, options = state.facts.service, state.facts.config, alert.options
    row = options.escalation_policy or service.escalation_policy
    policy = config.policies.get(row or 0)
    assignee = config.people.get(options.assigned_to or "")
    turn: tuple[Effect, ...] = ()
    if assignee is None:
        assignee, turn = targets.choose_assignee(policy, config, state.get_turn(policy), now)
    incident = IncidentState(
        unique_id=identity.make_incident_id(alert.event_id),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=identity.make_incident_key(alert.event_id),
        title=alert.message,
        summary=alert.summary,
        status=IncidentStatus.TRIGGERED,
        urgency=actions.get_urgency(alert, state.facts),
        creation_date=now,
        run_started_at=now + timedelta(seconds=options.delay_s),
        sla_started_at=now,
        assigned_to=assignee.row if assignee else None,
        escalation_policy=row,
        sla=options.sla or service.sla,
        team_priority=options.team_priority or service.team_priority,
        context_window_start=now - CONTEXT_WINDOW,
        context_window_end=now,
        collecting=service.collation is Collation.TIME_BASED,
    )
    return incident, turn


def _stop_collecting(service: ServiceFacts, state: LaneState) -> tuple[SaveIncident, ...]:
    """End the collection of the incident before: only one incident of a service collects alerts.

    This is invariant 3 (design, section 2).
    """
    if service.collation is not Collation.TIME_BASED:
        return ()
    latest = state.get_collecting()
    return (SaveIncident(latest.with_changes(collecting=False)),) if latest else ()
