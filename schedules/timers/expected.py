"""Compute the expected timers of an incident.

pipeline/incidents/timers.py decides what a due timer does.
"""

from datetime import datetime, timedelta

from models.domain.effects import IncidentState, TimerState
from models.domain.enums import IncidentStatus, TimerKind
from models.domain.facts import OnCallConfig, PolicyFacts, ServiceFacts
from schedules.escalation import escalation
from schedules.timers import sla


def get_expected_timers(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> tuple[TimerState, ...]:
    """Return the timers that an incident in this state requires. The result does not depend on the time.

    Timers that fire only once (enums.ONE_TIME) are included after they fired; the caller filters these out.
    A merged incident has no timers: it is silent and ends with its parent (contract 4.3).
    """
    if incident.parent is not None:
        return ()
    policy = config.policies.get(incident.escalation_policy or 0)
    candidates = (
        _build_escalation(incident, policy),
        _build_acknowledgement_timeout(incident, service),
        _build_auto_resolve(incident, service),
        _build_snooze(incident),
        *sla.get_expected_timers(incident, config),
    )
    return tuple(timer for timer in candidates if timer is not None)


def _build_escalation(incident: IncidentState, policy: PolicyFacts | None) -> TimerState | None:
    if not escalation.is_running(incident):
        return None
    due_at = escalation.get_next_due_at(incident, policy)
    if due_at is None:
        return None
    key = f"{TimerKind.ESCALATE}:{incident.escalation_run}:{incident.next_step}"
    return TimerState(incident.unique_id, TimerKind.ESCALATE, key, due_at)


def _build_acknowledgement_timeout(
    incident: IncidentState, service: ServiceFacts | None
) -> TimerState | None:
    if incident.status is not IncidentStatus.ACKNOWLEDGED or incident.acknowledged_date is None:
        return None
    # A snoozed incident has its own timer (contract 4.3).
    if incident.snoozed_till is not None:
        return None
    if service is None or not service.acknowledgement_timeout_s:
        return None
    key = f"{TimerKind.ACKNOWLEDGEMENT_TIMEOUT}:{incident.acknowledged_date:%Y%m%dT%H%M%S%f}"
    due_at = get_timeout_at(incident, incident.acknowledged_date, service)
    return TimerState(incident.unique_id, TimerKind.ACKNOWLEDGEMENT_TIMEOUT, key, due_at)


def get_timeout_at(incident: IncidentState, acknowledged_at: datetime, service: ServiceFacts) -> datetime:
    """Return when an acknowledgement times out by the service's setting (contract 4.3)."""
    started_at = max(acknowledged_at, incident.timeouts_started_at or acknowledged_at)
    return started_at + timedelta(seconds=service.acknowledgement_timeout_s)


def _build_auto_resolve(incident: IncidentState, service: ServiceFacts | None) -> TimerState | None:
    if not incident.is_open or service is None or not service.auto_resolve_s:
        return None
    key = f"{TimerKind.AUTO_RESOLVE}:{_get_age_start(incident):%Y%m%dT%H%M%S%f}"
    return TimerState(incident.unique_id, TimerKind.AUTO_RESOLVE, key, get_auto_resolve_at(incident, service))


def _build_snooze(incident: IncidentState) -> TimerState | None:
    if incident.snoozed_at is None or incident.snoozed_till is None:
        return None
    key = f"{TimerKind.SNOOZE}:{incident.snoozed_at:%Y%m%dT%H%M%S%f}"
    return TimerState(incident.unique_id, TimerKind.SNOOZE, key, incident.snoozed_till)


def get_auto_resolve_at(incident: IncidentState, service: ServiceFacts) -> datetime:
    """Return when an open incident reaches the age at which the service resolves it (contract 4.3)."""
    return _get_age_start(incident) + timedelta(seconds=service.auto_resolve_s)


def _get_age_start(incident: IncidentState) -> datetime:
    """Return the start of the incident's age. An assignment or acknowledgement time-out does not move it."""
    return incident.timeouts_started_at or incident.creation_date
