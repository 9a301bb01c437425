"""Looks at every open incident now and then: has it the timers that it should have, was anybody told?

Finds what a change of a policy or a service moved, and would mend what was never written.
"""

from datetime import datetime

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, connection, store
from models.effects import Actor, ArmTimers, Effect, IncidentState, Outcome, SaveIncident, TimerState
from models.enums import ActorKind, IncidentStatus, TimerKind
from models.incident_states import open_incidents_after
from models.incidents import Incident
from models.loading import lock_service, service_surroundings, slas_behind
from schedules import escalation
from schedules.timers import wanted
from workers import bell

log = structlog.get_logger()

AUDITOR = Actor(ActorKind.TIMER, "audit")

# Incidents that the audit looks at in one transaction.
AUDITED_AT_ONCE = 200


def audit(now: datetime | None = None) -> int:
    """Look at all open incidents; returns how many. A service that fails keeps none of the others from it."""
    looked_at = 0
    with connection():
        open_ones = Incident.select(Incident.service).where(Incident.status < IncidentStatus.RESOLVED)
        services = [row for (row,) in open_ones.distinct().tuples() if row is not None]
        for service_row in services:
            try:
                looked_at += _audit_service(service_row, now)
            except STORE_ERRORS:
                raise
            except Exception:
                log.exception("a service's timers could not be audited", service=service_row)
    return looked_at


def _audit_service(service_row: int, now: datetime | None) -> int:
    looked_at, last = 0, 0
    while rows := _audit_some(service_row, last, now):
        looked_at += len(rows)
        last = rows[-1]
    return looked_at


def _audit_some(service_row: int, after: int, now: datetime | None) -> list[int]:
    with store().writing():
        lock_service(service_row)
        found = open_incidents_after(service_row, after, AUDITED_AT_ONCE)
        policies = {one.escalation_policy for one in found if one.escalation_policy}
        around = service_surroundings(service_row, policies, now, slas_behind(found))
        if around is None:
            return []
        service, directory = around
        at = now or store().now()
        planned = [(one, wanted(one, service, directory)) for one in found]
        effects: list[Effect] = [
            ArmTimers(one.unique_id, timers, at, "planned anew by the audit") for one, timers in planned
        ]
        for one in _untold(planned):
            effects += escalation.tell_somebody(one, directory, AUDITOR, at)
            effects.append(SaveIncident(one.but(reached=True)))
        rows = {one.unique_id: one.row for one in found if one.row is not None}
        channels = apply(Outcome(effects=effects), rows).channels
    bell.ring_deliveries(channels)
    return list(rows.values())


def _untold(planned: list[tuple[IncidentState, tuple[TimerState, ...]]]) -> list[IncidentState]:
    """Incidents that wait for an answer although their chain has named nobody, and will not.

    That happens when a policy is emptied, or its people leave, before its first step was due.
    """
    return [
        one
        for one, timers in planned
        if one.status is IncidentStatus.TRIGGERED
        and one.escalating
        and not one.reached
        and not any(timer.kind is TimerKind.ESCALATE for timer in timers)
    ]
