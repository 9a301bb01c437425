"""Stage 1: turn the source's body into alerts with an identity."""

from collections.abc import Iterator
from datetime import datetime

from models.domain.effects import Decision, proceed
from pipeline import identity
from pipeline.alert import Alert, ParsedAlert
from pipeline.lane_state import LaneState
from pipeline.sources import SOURCES


def parse_alerts(
    trace_id: str, receipt: int, integration: int, source: str, body: bytes, accepted_at: datetime
) -> Iterator[Alert]:
    """Yield every alert of a receipt's body, in order. The IDs follow from the trace_id.

    Raises BadBody if the body cannot be read. Bodies are checked before they are accepted.
    """
    for position, parsed in enumerate(SOURCES[source].parse(body)):
        yield build_alert(trace_id, receipt, position, integration, accepted_at, parsed)


def build_alert(
    trace_id: str, receipt: int, position: int, integration: int, accepted_at: datetime, parsed: ParsedAlert
) -> Alert:
    """Return the parsed alert at a position of a receipt's body as an alert of this integration."""
    generated = identity.make_entity_id(trace_id, position)
    return Alert(
        event_id=identity.make_event_id(trace_id, position, integration),
        trace_id=trace_id,
        receipt=receipt,
        position=position,
        integration=integration,
        accepted_at=accepted_at,
        entity_id=identity.limit_entity_id(parsed.entity_id or generated),
        parsed=parsed,
    )


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Record how the alert was understood. `parse_alerts` has already parsed it."""
    return proceed(describe_alert(alert))


def describe_alert(alert: Alert) -> str:
    origin = "given" if alert.parsed.entity_id else "generated"
    return f"{alert.alert_type.name.lower()}, entity_id {origin}"
