"""The fold: alerts in their order through the stages of a segment, each seeing what the earlier did."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from models.effects import EventState, Outcome
from models.enums import Urgency, WorkState
from models.facts import Nameable, Named
from pipeline.alert import NO_PLAN, Alert, Plan
from pipeline.state import LaneState
from pipeline.topology import Segment, Stage


@dataclass(frozen=True, slots=True)
class Traveller:
    """An alert and the road it has behind it; `next` is the stage still to come, if it is not the first
    of the segment that takes it up."""

    alert: Alert
    reasons: tuple[tuple[str, str], ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    next: str | None = None
    incident: str | None = None
    opened: bool = False
    ended: bool = False


def walk(travellers: Iterable[Traveller], segment: Segment, state: LaneState) -> Outcome:
    """Take each alert through the segment. Pure but for `state`, which is the fold's own.

    What comes out does not depend on how the alerts were cut into batches: every decision's `now` is
    the moment of the alert's acceptance, or that of its release from maintenance.
    """
    outcome = Outcome()
    for traveller in travellers:
        traveller = _through(traveller, segment, state, outcome)
        outcome.events.append(event_of(traveller, segment, state))
    return outcome


def _through(traveller: Traveller, segment: Segment, state: LaneState, outcome: Outcome) -> Traveller:
    stages = segment.from_stage(traveller.next)
    traveller = replace(_with_what_is_left(traveller, state.facts.nameable), next=None)
    for stage in stages:
        if segment.then and stage.looks_back and stage.looks_back(traveller.alert, state):
            return replace(traveller, next=stage.name)
        traveller = _step(traveller, stage, state, outcome)
        if traveller.ended:
            break
    return traveller


def _with_what_is_left(traveller: Traveller, nameable: Nameable) -> Traveller:
    """Without what was planned before a seam of the road and has been deleted since; says so."""
    plan = traveller.alert.plan
    if plan is NO_PLAN:
        return traveller
    left = {
        "escalation_policy": _left(plan.escalation_policy, nameable.policies),
        "sla": _left(plan.sla, nameable.slas),
        "team_priority": _left(plan.team_priority, nameable.priorities),
        "tags": _all_left(plan.tags, nameable.tags),
        "roles": tuple((role, user) for role, user in plan.roles if _left(role, nameable.roles)),
        "responder_policies": _all_left(plan.responder_policies, nameable.policies),
        "task_templates": _all_left(plan.task_templates, nameable.task_templates),
    }
    gone = [name for name, value in left.items() if value != getattr(plan, name)]
    if not gone:
        return traveller
    reason = ("rules", f"deleted before it was its turn: {', '.join(gone)}")
    return replace(traveller, alert=traveller.alert.wanting(**left), reasons=(*traveller.reasons, reason))


def _left(row: int | None, named: Mapping[str, Named]) -> int | None:
    return row if any(each.row == row for each in named.values()) else None


def _all_left(rows: Iterable[int], named: Mapping[str, Named]) -> tuple[int, ...]:
    return tuple(row for row in rows if _left(row, named))


def _step(traveller: Traveller, stage: Stage, state: LaneState, outcome: Outcome) -> Traveller:
    decision = stage.decide(traveller.alert, state, traveller.alert.moment)
    state.absorb(decision.effects)
    outcome.effects.extend(decision.effects)
    return replace(
        traveller,
        alert=decision.alert or traveller.alert,
        reasons=(*traveller.reasons, (stage.name, decision.reason)),
        rules=(*traveller.rules, *decision.rules),
        incident=decision.incident or traveller.incident,
        opened=traveller.opened or decision.opened,
        ended=not decision.goes_on,
    )


def event_of(traveller: Traveller, segment: Segment, state: LaneState) -> EventState:
    """The row of an alert as it leaves a segment: its road is over, or its next stage is named."""
    goes_on = segment.then is not None and not traveller.ended
    return row_of(traveller, state.facts.service.row, segment.then if goes_on else None)


def row_of(traveller: Traveller, service: int | None, waits_at: str | None) -> EventState:
    """The row of an alert in a service's lane: it waits at a stage, or its road is over."""
    alert, parsed = traveller.alert, traveller.alert.parsed
    return EventState(
        unique_id=alert.event_id,
        receipt=alert.receipt,
        position=alert.position,
        integration=alert.integration,
        service=service,
        message=parsed.message,
        summary=parsed.summary,
        alert_type=parsed.alert_type,
        entity_id=alert.entity_id,
        suppressed=parsed.suppressed,
        alert={
            "payload": parsed.payload,
            "urls": parsed.urls,
            "images": parsed.images,
            "notes": parsed.notes,
            "wishes": parsed.wishes,
            "entity_given": parsed.entity_id is not None,
            **({"is_ping": True} if parsed.is_ping else {}),
            **({"is_own": True} if parsed.is_own else {}),
            **({} if alert.plan is NO_PLAN else {"plan": asdict(alert.plan)}),
            **({"next": traveller.next} if traveller.next else {}),
            **({"released_at": alert.released_at} if alert.released_at else {}),
        },
        source_at=parsed.source_at,
        creation_date=alert.accepted_at,
        incident=traveller.incident,
        incident_created=traveller.opened,
        stage=waits_at or "",
        state=WorkState.WAITING if waits_at else WorkState.DONE,
        reasons=traveller.reasons,
        rules=traveller.rules,
    )


def plan_of(kept: Mapping[str, Any] | None) -> Plan:
    """A plan as `row_of` kept it in the alert's row."""
    if not kept:
        return NO_PLAN
    urgency = None if kept["urgency"] is None else Urgency(kept["urgency"])
    lists = {name: tuple(value) for name, value in kept.items() if isinstance(value, list)}
    roles = tuple((role, user) for role, user in kept.get("roles", ()))
    return Plan(**{**kept, **lists, "roles": roles, "urgency": urgency})


def entities_of(alerts: Sequence[Alert]) -> list[tuple[int, str]]:
    """The entities that the state must hold before these alerts are walked to the end."""
    return list(dict.fromkeys((alert.integration, alert.entity_id) for alert in alerts))
