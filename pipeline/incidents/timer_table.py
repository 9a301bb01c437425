"""All kinds of timers, in one table: which state of an incident requires a timer, and what a due timer does.

A timer contains no instruction. When it is due, the decision depends on the state of the incident at that
moment. A timer that is not due by the current settings, or not needed any more, has no effects; its outcome
says why. A late timer still has its effects. pipeline/incidents/decide_timer.py completes the effects.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from models.domain.effects import IncidentState, TimerState
from models.domain.enums import IncidentStatus, TimerKind
from models.domain.facts import IncidentContext, OnCallConfig, ServiceFacts, TimerDecision
from models.domain.reasons import make_reason
from models.domain.values import replace
from schedules.escalation import escalation
from schedules.escalation.person_notifications import get_status_reason
from schedules.timers import sla

Expect = Callable[[IncidentState, ServiceFacts | None, OnCallConfig], Iterable[TimerState]]


@dataclass(frozen=True, slots=True)
class TimerSpec:
    """A kind of timer.

    - `expect`: returns the timers of this kind that an incident in this state requires. The result does not
      depend on the time.
    - `decide`: returns what a due timer does. Its second argument is the key of the timer.
    - `once`: a timer that has fired is not created again with the same key, although it is still expected.
    """

    kind: str
    expect: Expect
    decide: Callable[[IncidentContext, str], TimerDecision]
    once: bool = False


def get_expected_timers(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> tuple[TimerState, ...]:
    """Return the timers that an incident in this state requires.

    Timers that fire only once are included after they fired; models/write/timers.py leaves these out. A
    merged incident has no timers: it is silent and ends with its parent (contract 4.3).
    """
    if incident.parent is not None:
        return ()
    return tuple(
        replace(timer, once=True) if spec.once else timer
        for spec in TIMERS.values()
        for timer in spec.expect(incident, service, config)
    )


def _build_timer(incident: IncidentState, kind: TimerKind, since: datetime, due_at: datetime) -> TimerState:
    """Return the timer of a state that began at `since`.

    Its key contains `since`: when the incident enters the state again, it gets a new timer.
    """
    return TimerState(incident.unique_id, kind, f"{kind}:{since:%Y%m%dT%H%M%S%f}", due_at)


# --- the next step of the escalation run ---------------------------------------------------------------


def expect_next_step(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> Iterable[TimerState]:
    if not escalation.is_running(incident):
        return
    due_at = escalation.get_next_due_at(incident, config.policies.get(incident.escalation_policy or 0))
    if due_at is not None:
        key = f"{TimerKind.ESCALATE}:{incident.escalation_run}:{incident.next_step}"
        yield TimerState(incident.unique_id, TimerKind.ESCALATE, key, due_at)


def escalate(context: IncidentContext, key: str) -> TimerDecision:
    """Take the next step of the escalation run, and every later step that is overdue."""
    incident = context.incident
    if incident.status is not IncidentStatus.TRIGGERED:
        return TimerDecision(get_status_reason(incident.status))
    if not incident.escalating:
        return TimerDecision(make_reason("escalation_stopped"))
    updated, effects = escalation.advance(context)
    taken = updated.next_step - incident.next_step
    policy = context.policy
    if taken:
        outcome = make_reason("steps_taken", count=taken)
    elif policy is None:
        outcome = make_reason("no_policy")
    elif escalation.is_exhausted(updated, policy):
        outcome = make_reason("no_step_left")
    else:
        outcome = make_reason("step_not_due", policy=policy.name)
    return TimerDecision(outcome, effects, save=updated)


# --- an acknowledged incident is not resolved in time --------------------------------------------------


def expect_acknowledgement_timeout(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> Iterable[TimerState]:
    """Expect none while the incident is snoozed: the snooze has a timer (contract 4.3)."""
    is_acknowledged = incident.status is IncidentStatus.ACKNOWLEDGED and incident.snoozed_till is None
    since = incident.acknowledged_date
    if is_acknowledged and since is not None and service is not None and service.acknowledgement_timeout_s:
        kind = TimerKind.ACKNOWLEDGEMENT_TIMEOUT
        yield _build_timer(incident, kind, since, _get_timeout_at(incident, since, service))


def _get_timeout_at(incident: IncidentState, acknowledged_at: datetime, service: ServiceFacts) -> datetime:
    """Return when an acknowledgement times out by the service's setting (contract 4.3)."""
    started_at = max(acknowledged_at, incident.timeouts_started_at or acknowledged_at)
    return started_at + timedelta(seconds=service.acknowledgement_timeout_s)


def time_out_acknowledgement(context: IncidentContext, key: str) -> TimerDecision:
    """Trigger an incident again that was acknowledged but not resolved in time; a new run starts
    (contract 4.3).
    """
    incident, service = context.incident, context.service
    if incident.status is not IncidentStatus.ACKNOWLEDGED or incident.acknowledged_date is None:
        return TimerDecision(get_status_reason(incident.status))
    if incident.snoozed_till is not None:
        return TimerDecision(make_reason("is_snoozed"), save=incident)
    if service is None or not service.acknowledgement_timeout_s:
        return TimerDecision(make_reason("timeout_off"))
    if context.now < _get_timeout_at(incident, incident.acknowledged_date, service):
        return TimerDecision(make_reason("not_due_by_service"), save=incident)
    why = make_reason("not_resolved_in_time", within=service.acknowledgement_timeout_s)
    return TimerDecision(make_reason("triggered_again"), status=IncidentStatus.TRIGGERED, reason=why)


# --- an incident is open for too long ------------------------------------------------------------------


def expect_auto_resolve(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> Iterable[TimerState]:
    if incident.is_open and service is not None and service.auto_resolve_s:
        due_at = _get_auto_resolve_at(incident, service)
        yield _build_timer(incident, TimerKind.AUTO_RESOLVE, _get_age_start(incident), due_at)


def _get_auto_resolve_at(incident: IncidentState, service: ServiceFacts) -> datetime:
    """Return when an open incident reaches the age at which the service resolves it (contract 4.3)."""
    return _get_age_start(incident) + timedelta(seconds=service.auto_resolve_s)


def _get_age_start(incident: IncidentState) -> datetime:
    """Return the start of the incident's age.

    Assignments and acknowledgement timeouts do not change this start.
    """
    return incident.timeouts_started_at or incident.creation_date


def auto_resolve(context: IncidentContext, key: str) -> TimerDecision:
    """Resolve an incident that is older than the service's auto_resolve_timeout (contract 4.3)."""
    incident, service = context.incident, context.service
    if not incident.is_open:
        return TimerDecision(make_reason("is_resolved"))
    if service is None or not service.auto_resolve_s:
        return TimerDecision(make_reason("auto_resolve_off"))
    if context.now < _get_auto_resolve_at(incident, service):
        return TimerDecision(make_reason("not_due_by_service"), save=incident)
    why = make_reason("open_too_long", within=service.auto_resolve_s)
    return TimerDecision(make_reason("auto_resolved"), status=IncidentStatus.RESOLVED, reason=why)


# --- the end of a snooze -------------------------------------------------------------------------------


def expect_end_of_snooze(
    incident: IncidentState, service: ServiceFacts | None, config: OnCallConfig
) -> Iterable[TimerState]:
    if incident.snoozed_at is not None and incident.snoozed_till is not None:
        yield _build_timer(incident, TimerKind.SNOOZE, incident.snoozed_at, incident.snoozed_till)


def time_out_snooze(context: IncidentContext, key: str) -> TimerDecision:
    """Trigger an incident again whose snooze is over; a new run starts (contract 4.3)."""
    incident = context.incident
    if incident.snoozed_till is None:
        return TimerDecision(make_reason("is_not_snoozed"))
    if context.now < incident.snoozed_till:
        return TimerDecision(make_reason("snoozed_longer"), save=incident)
    why = make_reason("snooze_over")
    return TimerDecision(make_reason("triggered_again"), status=IncidentStatus.TRIGGERED, reason=why)


# --- the table -----------------------------------------------------------------------------------------

TIMERS = {
    spec.kind: spec
    for spec in (
        TimerSpec(TimerKind.ESCALATE, expect_next_step, escalate),
        TimerSpec(
            TimerKind.ACKNOWLEDGEMENT_TIMEOUT, expect_acknowledgement_timeout, time_out_acknowledgement
        ),
        TimerSpec(TimerKind.AUTO_RESOLVE, expect_auto_resolve, auto_resolve),
        TimerSpec(TimerKind.SNOOZE, expect_end_of_snooze, time_out_snooze),
        TimerSpec(TimerKind.SLA_BREACH, sla.expect_sla_breaches, sla.decide_sla_timer, once=True),
        TimerSpec(TimerKind.SLA_ESCALATION, sla.expect_sla_escalations, sla.decide_sla_timer, once=True),
    )
}
