"""Stage 5: does this alert open an incident, and with what? Contract section 4.1."""

from datetime import datetime, timedelta

from models.effects import Decision, Effect, IncidentState, SaveEntity, SaveIncident, go_on, stop
from models.enums import Collation, IncidentStatus
from models.facts import ServiceFacts
from pipeline import actions, identity, moves
from pipeline.additions import additions, tasks
from pipeline.alert import Alert, actor_of
from pipeline.coverage import covers, described
from pipeline.state import LaneState
from schedules import targets

# How far back the context window of an incident reaches (contract 4.1, row 20).
CONTEXT = timedelta(minutes=30)


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    integration = state.facts.integrations[alert.integration]
    if not covers(integration, alert.alert_type):
        level = alert.alert_type.name.lower()
        return stop(
            f"{level} opens no incident here: the integration opens them for {described(integration)}"
        )
    facts = state.facts
    incident, turn = _new_incident(alert, state, now)
    reason = f"{alert.alert_type.name.lower()} alert from {integration.name}"
    templates = (facts.service.task_template, *alert.plan.task_templates)
    opened = moves.open_incident(incident, actor_of(alert), now, reason, templates=templates)
    entity = state.entity(alert.integration, alert.entity_id)
    return go_on(
        "opens an incident",
        *_closed_collection(facts.service, state),
        *opened,
        *turn,
        SaveEntity(entity.held_by(incident.unique_id)),
        *tasks(alert, incident.unique_id, now),
        *additions(alert, incident, state, now),
        incident=incident.unique_id,
        opened=True,
    )


def _new_incident(alert: Alert, state: LaneState, now: datetime) -> tuple[IncidentState, tuple[Effect, ...]]:
    """The incident to be, and the turn that is taken by its assignment."""
    service, directory, plan = state.facts.service, state.facts.directory, alert.plan
    row = plan.escalation_policy or service.escalation_policy
    policy = directory.policies.get(row or 0)
    assignee = directory.people.get(plan.assigned_to or "")
    turn: tuple[Effect, ...] = ()
    if assignee is None:
        assignee, turn = targets.assignee(policy, directory, state.turn(policy), now)
    incident = IncidentState(
        unique_id=identity.incident_id(alert.event_id),
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=identity.incident_key(alert.event_id),
        title=alert.message,
        summary=alert.summary,
        status=IncidentStatus.TRIGGERED,
        urgency=actions.urgency_of(alert, state.facts),
        creation_date=now,
        chain_started_at=now + timedelta(seconds=plan.delay_s),
        promised_from=now,
        assigned_to=assignee.row if assignee else None,
        escalation_policy=row,
        sla=plan.sla or service.sla,
        team_priority=plan.team_priority or service.team_priority,
        context_window_start=now - CONTEXT,
        context_window_end=now,
        collecting=service.collation is Collation.TIME_BASED,
    )
    return incident, turn


def _closed_collection(service: ServiceFacts, state: LaneState) -> tuple[SaveIncident, ...]:
    """The incident that collected until now stops: there is only ever one that does (law 3)."""
    if service.collation is not Collation.TIME_BASED:
        return ()
    latest = state.collecting()
    return (SaveIncident(latest.but(collecting=False)),) if latest else ()
