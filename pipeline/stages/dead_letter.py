"""Telling people that an alert could not be read: one incident per integration (law 9)."""

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
    "An alert was accepted but could not be processed. It is set aside with its error and can be replayed;"
    " later alerts are not held up by it."
)
DELETED_MESSAGE = "Tocsin set aside alerts of a deleted integration"
DELETED_SUMMARY = (
    "The integration was deleted while alerts of it were still waiting. They are kept and listed by"
    " `tocsin dead-letters`; without their integration they cannot be processed."
)


def build_alert(trace_id: str, receipt: int, integration: int, accepted_at: datetime) -> Alert:
    """The alert that Tocsin raises about one that it could not read; another one each time that it is
    taken up again."""
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
    """One incident for all of an integration's unreadable alerts; nothing more while it is open."""
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
    """An incident about alerts whose integration was deleted before they were worked on."""
    incident, turn = _build_incident(
        name, DELETED_MESSAGE, f"{DELETED_SUMMARY} Set aside: {count}.", state, now
    )
    actor = Actor(ActorKind.ALERT, "alerts of a deleted integration")
    return _open_incident(incident, actor, state, now, *turn)


def _build_incident(
    name: str, title: str, summary: str, state: LaneState, now: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """The incident to be, and the turn that is taken by its assignment."""
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
        incident, actor, now, "an alert was set aside", templates=[service.task_template]
    )
    started = incidents.start_escalation(incident, service, state.facts.config, actor, now)
    return ChangeSet(effects=[*opened, *extra, *started])
