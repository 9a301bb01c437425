"""Build a new incident. Alerts, dead letters and the HTTP interface all build it here."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.effects import Effect, IncidentState
from models.domain.enums import Collation, IncidentStatus, Urgency
from models.domain.facts import OnCallConfig, PersonFacts, ServiceFacts
from schedules.escalation import targets

# The length of the context window of an incident (contract 4.1, row 20).
CONTEXT_WINDOW = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class NewIncident:
    """The values of a new incident that its origin sets. References are row numbers.

    Without a policy, an SLA or a priority, the incident gets those of its service; without an assignee, its
    policy chooses one.

    - `delay`: the time from the creation to the start of the escalation run.
    - `from_alert`: an alert opens it. Only such an incident has a context window.
    - `collects`: with time-based collation, later alerts of the service join it.
    """

    unique_id: str
    incident_key: str
    title: str
    summary: str
    urgency: Urgency = Urgency.HIGH
    status: IncidentStatus = IncidentStatus.TRIGGERED
    escalation_policy: int | None = None
    sla: int | None = None
    team_priority: int | None = None
    assignee: PersonFacts | None = None
    delay: timedelta = timedelta()
    from_alert: bool = False
    collects: bool = False


def build_incident(
    new: NewIncident,
    service: ServiceFacts,
    config: OnCallConfig,
    next_targets: Mapping[int, int],
    now: datetime,
) -> tuple[IncidentState, tuple[Effect, ...]]:
    """Return the incident as it is at its creation, and the round-robin effect of its assignment.

    `next_targets` are the positions of the next targets of round-robin policies, by row.
    """
    policy = new.escalation_policy or service.escalation_policy
    assignee, advanced = new.assignee, tuple[Effect, ...]()
    if assignee is None:
        found = config.policies.get(policy or 0)
        assignee, advanced = targets.choose_assignee(found, config, next_targets.get(policy or 0, 0), now)
    is_acknowledged = new.status is IncidentStatus.ACKNOWLEDGED
    incident = IncidentState(
        unique_id=new.unique_id,
        account=service.account,
        team=service.team,
        service=service.row,
        incident_key=new.incident_key,
        title=new.title,
        summary=new.summary,
        status=new.status,
        urgency=new.urgency,
        creation_date=now,
        run_started_at=now + new.delay,
        sla_started_at=now,
        sla_acknowledged_at=now if is_acknowledged else None,
        acknowledged_date=now if is_acknowledged else None,
        resolved_date=now if new.status is IncidentStatus.RESOLVED else None,
        assigned_to=assignee.row if assignee else None,
        escalation_policy=policy,
        sla=new.sla or service.sla,
        team_priority=new.team_priority or service.team_priority,
        context_window_start=now - CONTEXT_WINDOW if new.from_alert else None,
        context_window_end=now if new.from_alert else None,
        collecting=new.collects and service.collation is Collation.TIME_BASED,
    )
    return incident, advanced
