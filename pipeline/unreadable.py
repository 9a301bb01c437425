"""Telling people that an alert could not be read: one incident per integration (law 9)."""

from datetime import datetime

from models.effects import Actor, Effect, IncidentState, Outcome, SaveEntity
from models.enums import ActorKind, IncidentStatus, Urgency
from pipeline import identity, moves
from pipeline.alert import Alert, Parsed, actor_of
from pipeline.state import LaneState
from schedules import targets

ENTITY_ID = "tocsin:unreadable"
MESSAGE = "Tocsin could not read an alert"
SUMMARY = (
    "An alert was accepted but could not be processed. It is set aside with its error and can be replayed;"
    " later alerts are not held up by it."
)
LOST_MESSAGE = "Tocsin set aside alerts of a deleted integration"
LOST_SUMMARY = (
    "The integration was deleted while alerts of it were still waiting. They are kept and listed by"
    " `tocsin aside`; without their integration they cannot be processed."
)


def alert_for(trace_id: str, receipt: int, integration: int, accepted_at: datetime) -> Alert:
    """The alert that Tocsin raises about one that it could not read; another one each time that it is
    taken up again."""
    return Alert(
        event_id=identity.event_id(f"{trace_id} {accepted_at.isoformat()}", -1, integration),
        trace_id=trace_id,
        receipt=receipt,
        position=-1,
        integration=integration,
        accepted_at=accepted_at,
        entity_id=ENTITY_ID,
        parsed=Parsed(MESSAGE, SUMMARY, entity_id=ENTITY_ID),
    )


def tell(alert: Alert, state: LaneState) -> Outcome:
    """One incident for all of an integration's unreadable alerts; nothing more while it is open."""
    entity = state.entity(alert.integration, ENTITY_ID)
    if state.holder(entity) is not None:
        return Outcome()
    integrations = state.facts.integrations
    name = integrations[alert.integration].name if alert.integration in integrations else "?"
    incident, turn = _incident(
        alert.event_id,
        f"{MESSAGE} from {name}",
        f"{SUMMARY} Its trace_id is {alert.trace_id}.",
        state,
        alert.accepted_at,
    )
    held = SaveEntity(entity.held_by(incident.unique_id))
    return _opened(incident, actor_of(alert), state, alert.accepted_at, held, *turn)


def tell_lost(name: str, count: int, state: LaneState, now: datetime) -> Outcome:
    """An incident about alerts whose integration was deleted before they were worked on."""
    incident, turn = _incident(name, LOST_MESSAGE, f"{LOST_SUMMARY} Set aside: {count}.", state, now)
    actor = Actor(ActorKind.ALERT, "alerts of a deleted integration")
    return _opened(incident, actor, state, now, *turn)


def _incident(
    name: str, title: str, summary: str, state: LaneState, now: datetime
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """The incident to be, and the turn that is taken by its assignment."""
    service, directory = state.facts.service, state.facts.directory
    policy = directory.policies.get(service.escalation_policy or 0)
    person, turn = targets.assignee(policy, directory, state.turn(policy), now)
    incident = IncidentState(
        unique_id=identity.incident_id(name),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=identity.incident_key(name),
        title=title,
        summary=summary,
        status=IncidentStatus.TRIGGERED,
        urgency=Urgency.HIGH,
        creation_date=now,
        chain_started_at=now,
        promised_from=now,
        assigned_to=person.row if person else None,
        escalation_policy=service.escalation_policy,
    )
    return incident, turn


def _opened(incident: IncidentState, actor: Actor, state: LaneState, now: datetime, *more: Effect) -> Outcome:
    service = state.facts.service
    opened = moves.open_incident(
        incident, actor, now, "an alert was set aside", templates=[service.task_template]
    )
    started = moves.start(incident, service, state.facts.directory, actor, now)
    return Outcome(effects=[*opened, *more, *started])
