"""The fold: alerts in their order through the stages of a segment, each seeing what the earlier did."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from models.effects import EventState, Outcome
from models.enums import WorkState
from pipeline.alert import Alert
from pipeline.state import LaneState
from pipeline.topology import Segment, Stage


@dataclass(frozen=True, slots=True)
class Traveller:
    """An alert and the road it has behind it."""

    alert: Alert
    reasons: tuple[tuple[str, str], ...] = ()
    incident: str | None = None
    opened: bool = False
    ended: bool = False


def walk(travellers: Iterable[Traveller], segment: Segment, state: LaneState) -> Outcome:
    """Take each alert through the segment. Pure but for `state`, which is the fold's own.

    What comes out does not depend on how the alerts were cut into batches: every decision's `now` is
    the moment of the alert's acceptance.
    """
    outcome = Outcome()
    for traveller in travellers:
        for stage in segment.stages:
            traveller = _step(traveller, stage, state, outcome)
            if traveller.ended:
                break
        outcome.events.append(event_of(traveller, segment, state))
    return outcome


def _step(traveller: Traveller, stage: Stage, state: LaneState, outcome: Outcome) -> Traveller:
    decision = stage.decide(traveller.alert, state, traveller.alert.accepted_at)
    state.absorb(decision.effects)
    outcome.effects.extend(decision.effects)
    return replace(
        traveller,
        alert=decision.alert or traveller.alert,
        reasons=(*traveller.reasons, (stage.name, decision.reason)),
        incident=decision.incident or traveller.incident,
        opened=traveller.opened or decision.opened,
        ended=not decision.goes_on,
    )


def event_of(traveller: Traveller, segment: Segment, state: LaneState) -> EventState:
    """The row of an alert as it leaves a segment: its road is over, or its next stage is named."""
    alert, parsed = traveller.alert, traveller.alert.parsed
    goes_on = segment.then is not None and not traveller.ended
    return EventState(
        unique_id=alert.event_id,
        receipt=alert.receipt,
        position=alert.position,
        integration=alert.integration,
        service=state.facts.service.row,
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
        },
        source_at=parsed.source_at,
        creation_date=alert.accepted_at,
        incident=traveller.incident,
        incident_created=traveller.opened,
        stage=segment.then or "" if goes_on else "",
        state=WorkState.WAITING if goes_on else WorkState.DONE,
        reasons=traveller.reasons,
    )


def entities_of(alerts: Sequence[Alert]) -> list[tuple[int, str]]:
    """The entities that the state must hold before these alerts are walked to the end."""
    return list(dict.fromkeys((alert.integration, alert.entity_id) for alert in alerts))
