"""Stage 5: decide whether an alert opens an incident, and with which values. Contract section 4.1."""

from datetime import datetime, timedelta

from models.domain import identity
from models.domain.effects import Decision, Effect, SaveEntity, SaveGroups, SaveIncident, proceed, stop
from models.domain.enums import AlertType, Collation
from models.domain.facts import IncidentContext, IntegrationFacts, ServiceFacts
from models.domain.reasons import Reason, make_reason
from pipeline import incidents
from pipeline.alert import NO_OPTIONS, Alert, build_alert_author, get_urgency
from pipeline.incidents.grouping import get_keys
from pipeline.incidents.new_incident import NewIncident, build_incident
from pipeline.lane_state import LaneState
from pipeline.stages.added_details import build_details, build_tasks

# The levels for which an integration opens incidents, by its `create_incidents_for` (contract section 3.6).
LEVELS: dict[int, frozenset[AlertType]] = {
    0: frozenset(),
    1: frozenset({AlertType.CRITICAL}),
    2: frozenset({AlertType.CRITICAL, AlertType.ERROR}),
    3: frozenset({AlertType.CRITICAL, AlertType.ERROR, AlertType.WARNING}),
}


def opens_incident(integration: IntegrationFacts, level: AlertType) -> bool:
    return level in LEVELS[integration.create_incidents_for]


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    integration = state.facts.integrations[alert.integration]
    if not opens_incident(integration, alert.alert_type):
        return stop(_explain_levels(alert, integration))
    facts = state.facts
    incident, advanced = build_incident(
        _build_new(alert, state), facts.service, facts.config, state.next_targets, now
    )
    level = alert.alert_type.name.lower()
    why = make_reason("opened_by_alert", level=level, integration=integration.name)
    templates = (facts.service.task_template, *alert.options.task_templates)
    context = IncidentContext(incident, facts.service, facts.config, build_alert_author(alert), now)
    opened = incidents.open_incident(context, why, templates=templates)
    entity = state.get_entity(alert.integration, alert.entity_id)
    details: tuple[Effect, ...] = ()
    if alert.options is not NO_OPTIONS:
        details = (
            *build_tasks(alert, incident.unique_id, now),
            *build_details(alert, incident, state, now),
        )
    return proceed(
        make_reason("opens_incident"),
        *_stop_collecting(facts.service, state),
        *opened,
        *_save_groups(alert, incident.unique_id, state, now),
        *advanced,
        SaveEntity(entity.with_incident(incident.unique_id)),
        *details,
        incident=incident.unique_id,
        opened=True,
    )


def _save_groups(alert: Alert, incident: str, state: LaneState, now: datetime) -> tuple[SaveGroups, ...]:
    """Store the values of the alert, so that later alerts with the same ones join its incident."""
    digests = tuple(key.digest for key in get_keys(alert, state))
    return (SaveGroups(incident, digests, now),) if digests else ()


def _explain_levels(alert: Alert, integration: IntegrationFacts) -> Reason:
    """Return why the level of an alert opens no incident."""
    opening = sorted(LEVELS[integration.create_incidents_for], reverse=True)
    if not opening:
        return make_reason("opens_never", integration=integration.name)
    level, levels = alert.alert_type.name.lower(), tuple(each.name.lower() for each in opening)
    return make_reason("level_opens_nothing", level=level, integration=integration.name, levels=levels)


def _build_new(alert: Alert, state: LaneState) -> NewIncident:
    """Return the values that the alert and its rules set for the incident."""
    options = alert.options
    return NewIncident(
        unique_id=identity.make_incident_id(alert.event_id),
        incident_key=identity.make_incident_key(alert.event_id),
        title=alert.message,
        summary=alert.summary,
        urgency=get_urgency(alert, state.facts),
        escalation_policy=options.escalation_policy,
        sla=options.sla,
        team_priority=options.team_priority,
        assignee=state.facts.config.people.get(options.assigned_to or ""),
        delay=timedelta(seconds=options.delay_s),
        from_alert=True,
        collects=True,
    )


def _stop_collecting(service: ServiceFacts, state: LaneState) -> tuple[SaveIncident, ...]:
    """Stop the previous incident from collecting alerts: only one incident of a service collects.

    This is invariant 3 (design, section 2).
    """
    if service.collation is not Collation.TIME_BASED:
        return ()
    latest = state.get_collecting()
    return (SaveIncident(latest.with_changes(collecting=False)),) if latest else ()
