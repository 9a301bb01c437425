"""Stage 1: turn the source's body into alerts with an identity."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from models.domain import identity
from models.domain.effects import Decision, proceed
from models.domain.reasons import make_reason
from pipeline.alert import NO_INTEGRATION, Alert, ParsedAlert
from pipeline.lane_state import LaneState
from pipeline.router import RouterLane
from pipeline.sources import SOURCES, STORED_SOURCES, generic
from pipeline.sources.body import RequestBody


def parse_alerts(
    trace_id: str, receipt: int, integration: int, source: str, body: bytes, accepted_at: datetime
) -> Iterator[Alert]:
    """Yield every alert of a receipt's body, in order. The IDs follow from the trace_id.

    Raises BadBody if the body cannot be read. Bodies are checked before they are accepted.
    """
    alerts = parse_body(source, body)
    yield from build_alerts(trace_id, receipt, integration, accepted_at, alerts, len(alerts))


def parse_body(source: str, body: bytes) -> list[ParsedAlert]:
    """Return every alert of a body, in order. Raises BadBody if the body cannot be read."""
    return STORED_SOURCES[source].parse(RequestBody(body))


def build_alerts(
    trace_id: str,
    receipt: int,
    integration: int,
    accepted_at: datetime,
    alerts: Sequence[ParsedAlert],
    group_size: int,
    start: int = 0,
) -> Iterator[Alert]:
    """Yield parsed alerts with their identity. The first one is at the position `start` of its body.

    `group_size` is the number of all alerts of the body.
    """
    for position, parsed in enumerate(alerts, start):
        yield build_alert(trace_id, receipt, position, integration, accepted_at, parsed, group_size)


def parse_routed_alerts(lane: RouterLane) -> Iterator[Alert]:
    """Yield every alert of a body, or of its piece, that was sent with a router's key.

    The alerts have no integration yet. A body in the generic form is one alert; the stage `route` reads it
    again for each target. Raises BadBody if the body cannot be read.
    """
    alerts, group_size = lane.alerts, lane.group_size
    if alerts is None:
        is_generic = lane.source == generic.EXTENSION
        alerts = [generic.parse_any(lane.body)] if is_generic else SOURCES[lane.source].parse(lane.body)
        group_size = len(alerts)
    yield from build_alerts(
        lane.trace_id, lane.receipt, NO_INTEGRATION, lane.accepted_at, alerts, group_size, lane.start
    )


def build_alert(
    trace_id: str,
    receipt: int,
    position: int,
    integration: int,
    accepted_at: datetime,
    parsed: ParsedAlert,
    group_size: int = 1,
) -> Alert:
    """Return the parsed alert at a position of a receipt's body as an alert of this integration."""
    entity_id = parsed.entity_id or identity.make_entity_id(trace_id, position)
    return Alert(
        event_id=identity.make_event_id(trace_id, position, integration),
        trace_id=trace_id,
        receipt=receipt,
        position=position,
        integration=integration,
        accepted_at=accepted_at,
        entity_id=identity.limit_entity_id(entity_id),
        parsed=parsed,
        group_size=group_size,
    )


def decide(alert: Alert, state: LaneState | RouterLane, now: datetime) -> Decision:
    """Record the level of the alert, whether the sender gave the entity_id, and whether the tool has no
    normalizer. The body is parsed before."""
    level, kind = alert.alert_type.name.lower(), alert.parsed.read_as_generic
    if alert.parsed.entity_id:
        reason = make_reason("entity_given", level=level)
    else:
        reason = make_reason("entity_generated", level=level)
    return proceed(reason.add(make_reason("read_as_generic", kind=kind)) if kind else reason)
