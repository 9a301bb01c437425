"""Telling people that an alert could not be read: one incident per integration (law 9)."""

from datetime import datetime

from models.effects import EntityState, IncidentState, Outcome, SaveEntity
from models.enums import IncidentStatus, Urgency
from pipeline import identity, moves
from pipeline.alert import Alert, Parsed
from pipeline.stages.dedupe import actor_of
from pipeline.state import LaneState
from schedules import escalation

ENTITY_ID = "tocsin:unreadable"
MESSAGE = "Tocsin could not read an alert"
SUMMARY = (
    "An alert was accepted but could not be processed. It is set aside with its error and can be replayed;"
    " later alerts are not held up by it."
)


def alert_for(trace_id: str, receipt: int, integration: int, accepted_at: datetime) -> Alert:
    """The alert that Tocsin raises about one that it could not read."""
    return Alert(
        event_id=identity.event_id(trace_id, -1, integration),
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
    facts = state.facts
    service, directory, now = facts.service, facts.directory, alert.accepted_at
    person = escalation.first_person(directory.policies.get(service.escalation_policy or 0), directory)
    name = facts.integrations[alert.integration].name if alert.integration in facts.integrations else "?"
    incident = IncidentState(
        unique_id=identity.incident_id(alert.event_id),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=identity.incident_key(alert.event_id),
        title=f"{MESSAGE} from {name}",
        summary=f"{SUMMARY} Its trace_id is {alert.trace_id}.",
        status=IncidentStatus.TRIGGERED,
        urgency=Urgency.HIGH,
        creation_date=now,
        chain_started_at=now,
        assigned_to=person.row if person else None,
        escalation_policy=service.escalation_policy,
    )
    actor = actor_of(alert)
    opened = moves.open_incident(incident, actor, now, "an alert was set aside")
    held = EntityState(alert.integration, ENTITY_ID, firing=True, incident=incident.unique_id)
    effects = [*opened, SaveEntity(held), *moves.start(incident, service, directory, actor, now)]
    return Outcome(effects=effects)
