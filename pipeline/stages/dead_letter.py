"""Report an alert that Tocsin could not process: one incident per integration.

This is invariant 9 (design, section 2).
"""

from datetime import datetime

from models.domain.effects import Actor, ChangeSet, Effect, IncidentState, SaveEntity
from models.domain.enums import ActorKind, IncidentStatus, Urgency
from pipeline import identity, incidents
from pipeline.alert import Alert, ParsedAlert, get_actor
from pipeline.lane_state import LaneState
from schedules.escalation import targets

ENTITY_ID = "tocsin:dead_letter"
MESSAGE = "Tocsin could not read an alert"
SUMMARY = (
    "An alert was accepted but could not be processed. It is stored as a dead letter and can be replayed;"
    " later alerts are processed as usual."
)
DELETED_MESSAGE = "Tocsin could not process alerts of a deleted integration"
DELETED_SUMMARY = (
    "The integration was deleted while it had pending alerts. They are stored as dead letters and listed by"
    " `tocsin dead-letters`; without the integration they cannot be processed."
)


def build_alert(trace_id: str, receipt: int, integration: int, accepted_at: datetime) -> Alert:
    """Return the alert that Tocsin writes about an alert that it could not process.

    After each replay of the dead letter it is another alert.
    """
    return Alert(
        event_id=identity.make_event_id(f"{trace_id} {accepted_at.isoformat()}", -1, integration),
        trace_id=trace_id,
        receipt=receipt,
        position=-1,
        integration=integration,
        accepted_at=accepted_at,
        entity_id=ENTITY_ID,
        parsed=ParsedAlert(MESSAGE, SUMMARY, entity_id=ENTITY_ID),
    )


def report_dead_letter(alert: Alert, state: LaneState) -> ChangeSet:
    """Open one incident for all dead letters of an integration. No effects while it is open."""
    entity = state.get_entity(alert.integration, ENTITY_ID)
    if state.get_open_incident(entity) is not None:
        return ChangeSet()
    integrations = state.facts.integrations
    name = integrations[alert.integration].name if alert.integration in integrations else "?"
    incident, turn = _build_incident(
        alert.event_id,
        f"{MESSAGE} from {name}",
        f"{SUMMARY} Its trace_id is {alert.trace_id}.",
        state,
        alert.accepted_at,
    )
    entity_effect = SaveEntity(entity.with_incident(incident.unique_id))
    return _open_incident(incident, get_actor(alert), state, alert.accepted_at, entity_effect, *turn)


def report_deleted(name: str, count: int, state: LaneState, now: datetime) -> ChangeSet:
    """Open an incident about alerts whose integration was deleted before they were processed."""
    incident, turn = _build_incident(name, DELETED_MESSAGE, f"{DELETED_SUMMARY} Alerts: {count}.", state, now)
    actor = Actor(ActorKind.ALERT, "alerts of a deleted integration")
    return _open_incident(incident, actor, state, now, *turn)


def _build_incident(
    name: str, title: str, summary: str, state: LaneState, now: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """Return the new incident, and the round-robin effect of its assignment."""
    service, config = state.facts.service, state.facts.config
    policy = config.policies.get(service.escalation_policy or 0)
    person, turn = targets.choose_assignee(policy, config, state.get_turn(policy), now)
    incident = IncidentState(
        unique_id=identity.make_incident_id(name),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=identity.make_incident_key(name),
        title=title,
        summary=summary,
        status=IncidentStatus.TRIGGERED,
        urgency=Urgency.HIGH,
        creation_date=now,
        run_started_at=now,
        sla_started_at=now,
        assigned_to=person.row if person else None,
        escalation_policy=service.escalation_policy,
    )
    return incident, turn


def _open_incident(
    incident: IncidentState, actor: Actor, state: LaneState, now: datetime, *extra: Effect
) -> ChangeSet:
    service = state.facts.service
    opened = incidents.open_incident(
        incident, actor, now, "an alert became a dead letter", templates=[service.task_template]
    )
    started = incidents.start_escalation(incident, service, state.facts.config, actor, now)
    return ChangeSet(effects=[*opened, *extra, *started])
