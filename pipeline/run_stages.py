"""Run alerts in order through the stages of a segment; each alert sees the effects of those before it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from models.domain.effects import ChangeSet, CreateNotification, Decision, Effect, EventState
from models.domain.enums import Urgency, WorkState
from models.domain.facts import ReferenceMap
from models.domain.reasons import Reason, make_reason
from models.domain.values import Value, list_fields, replace
from pipeline.alert import NO_OPTIONS, Alert, IncidentOptions
from pipeline.lane_state import LaneState
from pipeline.router import RouterLane
from pipeline.stages.alert_stakeholders import STAGE, decide
from pipeline.topology import Segment, Stage


class AlertInProgress(Value, frozen=True):
    """An alert between two stages, with the reasons and rule records so far.

    `next_stage` is set if the alert does not start at the first stage of its segment. `service` (row number)
    is set by routing; otherwise it is the service of the lane.
    """

    alert: Alert
    reasons: tuple[tuple[str, Reason], ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    next_stage: str | None = None
    incident: str | None = None
    opened: bool = False
    ended: bool = False
    is_repeated: bool = False
    service: int | None = None


def run_stages(
    in_progress: Iterable[AlertInProgress],
    segment: Segment,
    state: LaneState | RouterLane,
    is_over: Callable[[], bool] = lambda: False,
) -> ChangeSet:
    """Run alerts through the segment and return all changes. Pure except for `is_over` and for `state`, which
    it updates.

    The result does not depend on how the alerts were divided into batches. The `now` of every decision is the
    time at which the alert was accepted or released from maintenance.

    `is_over` is called before each alert but the first. If it returns True, this alert and the later ones are
    left for the next batch: the result has no events of them.
    """
    outcome = ChangeSet()
    for progress in in_progress:
        if outcome.events and is_over():
            break
        for after in _run_segment(progress, segment, state, outcome):
            outcome.events.append(build_segment_event(after, segment, state))
    return outcome


def _run_segment(
    progress: AlertInProgress, segment: Segment, state: LaneState | RouterLane, outcome: ChangeSet
) -> list[AlertInProgress]:
    """Run one alert through a segment. Return it or, if it was routed, the alerts that continue instead."""
    stages = segment.get_stages_from(progress.next_stage)
    progress = _drop_deleted(progress, state)
    alert, next_stage = progress.alert, None
    decisions: list[tuple[Stage, Decision]] = []
    for stage in stages:
        if segment.next_segment and stage.reads_past_incidents and stage.reads_past_incidents(alert, state):
            next_stage = stage.name
            break
        decision = stage.decide(alert, state, alert.effective_at)
        effects = _name_receipt(decision.effects, alert)
        state.apply_effects(effects)
        outcome.effects.extend(effects)
        decisions.append((stage, decision))
        alert = decision.alert or alert
        if decision.routed or not decision.continues:
            break
    progress = _add_decisions(progress, alert, decisions, next_stage)
    if progress.ended and isinstance(state, LaneState):
        progress = _mail_stakeholders(progress, outcome)
    routed = decisions[-1][1].routed if decisions else ()
    return [replace(progress, alert=alert, service=service) for alert, service in routed] or [progress]


def _mail_stakeholders(progress: AlertInProgress, outcome: ChangeSet) -> AlertInProgress:
    """Add the effect for the stakeholders of an alert that passed its last stage, and the reason."""
    found = decide(progress.alert, progress.incident, progress.alert.effective_at)
    if found is None:
        return progress
    reason, effect = found
    if effect is not None:
        outcome.effects.append(effect)
    return replace(progress, reasons=(*progress.reasons, (STAGE, reason)))


def _drop_deleted(progress: AlertInProgress, state: LaneState | RouterLane) -> AlertInProgress:
    """Remove options whose object was deleted after an earlier segment set them; add a reason."""
    options = progress.alert.options
    if options is NO_OPTIONS or isinstance(state, RouterLane):
        return progress
    references = state.facts.references
    remaining = {
        "escalation_policy": _keep_existing(options.escalation_policy, references.policies),
        "sla": _keep_existing(options.sla, references.slas),
        "team_priority": _keep_existing(options.team_priority, references.priorities),
        "tags": _keep_all_existing(options.tags, references.tags),
        "roles": tuple((role, user) for role, user in options.roles if role in references.roles.by_row),
        "responder_policies": _keep_all_existing(options.responder_policies, references.policies),
        "task_templates": _keep_all_existing(options.task_templates, references.task_templates),
    }
    deleted = [name for name, value in remaining.items() if value != getattr(options, name)]
    if not deleted:
        return progress
    why = make_reason("options_deleted", options=tuple(deleted))
    return replace(
        progress,
        alert=progress.alert.with_options(**remaining),
        reasons=(*progress.reasons, ("rules", why)),
    )


def _keep_existing(row: int | None, references: ReferenceMap) -> int | None:
    return row if row in references.by_row else None


def _keep_all_existing(rows: Iterable[int], references: ReferenceMap) -> tuple[int, ...]:
    return tuple(row for row in rows if row in references.by_row)


def _add_decisions(
    progress: AlertInProgress,
    alert: Alert,
    decisions: Sequence[tuple[Stage, Decision]],
    next_stage: str | None,
) -> AlertInProgress:
    """Return the alert after these stages. `alert` is the alert as the last stage left it."""
    incidents = [decision.incident for _, decision in decisions if decision.incident]
    return AlertInProgress(
        alert=alert,
        reasons=(*progress.reasons, *((stage.name, decision.reason) for stage, decision in decisions)),
        rules=(*progress.rules, *chain.from_iterable(decision.rules for _, decision in decisions)),
        next_stage=next_stage,
        incident=incidents[-1] if incidents else progress.incident,
        opened=progress.opened or any(decision.opened for _, decision in decisions),
        ended=bool(decisions) and not decisions[-1][1].continues,
        is_repeated=any(decision.is_repeated for _, decision in decisions),
        service=progress.service,
    )


def _name_receipt(effects: Sequence[Effect], alert: Alert) -> Sequence[Effect]:
    """Write into new notifications which body of several alerts caused them."""
    if alert.group_size == 1:
        return effects
    return [
        replace(effect, notification=replace(effect.notification, receipt=alert.receipt))
        if isinstance(effect, CreateNotification)
        else effect
        for effect in effects
    ]


def build_segment_event(
    progress: AlertInProgress, segment: Segment, state: LaneState | RouterLane
) -> EventState:
    """Return the row of an alert after a segment: pending at its next stage, or done."""
    alert, parsed = progress.alert, progress.alert.parsed
    next_stage = None if progress.ended else segment.next_segment
    return EventState(
        unique_id=alert.event_id,
        receipt=alert.receipt,
        position=alert.position,
        integration=alert.integration or None,
        service=progress.service or state.service_row,
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
            "requested_options": parsed.requested_options,
            "entity_given": parsed.entity_id is not None,
            **({"is_comment": True} if parsed.is_comment else {}),
            **({"is_expiry": True} if parsed.is_expiry else {}),
            **({"resent_until": parsed.ends_at} if parsed.is_resent else {}),
            **({"is_ping": True} if parsed.is_ping else {}),
            **({"is_own": True} if parsed.is_own else {}),
            **({} if alert.options is NO_OPTIONS else {"options": _read_options(alert.options)}),
            **({"next_stage": progress.next_stage} if progress.next_stage else {}),
            **({"released_at": alert.released_at} if alert.released_at else {}),
        },
        source_at=parsed.source_at,
        creation_date=alert.accepted_at,
        incident=progress.incident,
        incident_created=progress.opened,
        stage=next_stage or "",
        state=WorkState.PENDING if next_stage else WorkState.DONE,
        is_repeated=progress.is_repeated,
        reasons=progress.reasons,
        rules=progress.rules,
    )


_OPTION_NAMES = list_fields(IncidentOptions)
_get_options = attrgetter(*_OPTION_NAMES)


def _read_options(options: IncidentOptions) -> dict[str, object]:
    """Return the options by name. `asdict` would take ten times as long, since it copies each value."""
    return dict(zip(_OPTION_NAMES, _get_options(options), strict=True))


def parse_options(stored: Mapping[str, Any] | None) -> IncidentOptions:
    """Return the incident options that `build_segment_event` stored in the alert's row."""
    if not stored:
        return NO_OPTIONS
    urgency = None if stored["urgency"] is None else Urgency(stored["urgency"])
    lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
    roles = tuple((role, user) for role, user in stored.get("roles", ()))
    return IncidentOptions(**{**stored, **lists, "roles": roles, "urgency": urgency})


def list_entities(alerts: Sequence[Alert]) -> list[tuple[int, str]]:
    """Return the entities that the state must hold before these alerts run through all stages."""
    return list(dict.fromkeys((alert.integration, alert.entity_id) for alert in alerts))
