"""Stage 1: turn the source's body into alerts with an identity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from models.domain import identity
from models.domain.effects import Decision, proceed, stop
from models.domain.enums import AlertType
from models.domain.facts import NO_SETUP, SourceFacts
from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline.alert import NO_INTEGRATION, NO_OPTIONS, Alert, IncidentOptions, ParsedAlert
from pipeline.lane_state import LaneState
from pipeline.router import RouterLane
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES, STORED_SOURCES
from pipeline.stages.resent_alerts import set_end

# Nothing of a request that can be from anybody is shown.
REFUSED_MESSAGE = "refused request"
REFUSED: Mapping[str, Any] = {
    "message": REFUSED_MESSAGE,
    "summary": "",
    "payload": {},
    "urls": (),
    "images": (),
    "notes": (),
}


def parse_alerts(
    trace_id: str,
    receipt: int,
    integration: int,
    source: str,
    body: RequestBody,
    accepted_at: datetime,
    *,
    received_at: datetime | None = None,
) -> Iterator[Alert]:
    """Yield every alert of a receipt's body, in order. The IDs follow from the trace_id.

    `received_at` is as in build_alert(). Raises BadBody if the body cannot be read. Bodies are checked before
    they are accepted.
    """
    alerts = parse_body(source, body)
    yield from build_alerts(
        trace_id, receipt, integration, accepted_at, alerts, len(alerts), received_at=received_at
    )


def build_body(
    source: str, raw: bytes, headers: Mapping[str, str] | None, load_facts: Callable[[], SourceFacts]
) -> RequestBody:
    """Return a receipt's body. `load_facts` reads those of the integration; few sources need them."""
    setup = load_facts() if STORED_SOURCES[source].uses_setup else NO_SETUP
    return RequestBody(raw, headers, setup)


def parse_body(source: str, body: RequestBody) -> list[ParsedAlert]:
    """Return every alert of a body, in order. Raises BadBody if the body cannot be read.

    A request whose signature is wrong is one alert with a refusal.
    """
    found = STORED_SOURCES[source]
    refusal = found.verify(body) if found.verify is not None else None
    if refusal is not None:
        return [ParsedAlert(message=REFUSED_MESSAGE, refusal=refusal)]
    alerts = found.parse(body)
    if not found.is_checked(body.setup):
        return alerts
    remarks = () if body.setup.remark is None else (body.setup.remark,)
    return [replace(alert, is_verified=True, remarks=(*alert.remarks, *remarks)) for alert in alerts]


def list_entity_ids(source: str, body: RequestBody) -> list[str]:
    """Return the entity_ids that the sender of a body gave, in order. Raises BadBody."""
    return [identity.limit_entity_id(one.entity_id) for one in parse_body(source, body) if one.entity_id]


def build_alerts(
    trace_id: str,
    receipt: int,
    integration: int,
    accepted_at: datetime,
    alerts: Sequence[ParsedAlert],
    group_size: int,
    start: int = 0,
    *,
    received_at: datetime | None = None,
) -> Iterator[Alert]:
    """Yield parsed alerts with their identity. The first one is at the position `start` of its body.

    `group_size` is the number of all alerts of the body, `received_at` is as in build_alert().
    """
    for position, parsed in enumerate(alerts, start):
        yield build_alert(
            trace_id, receipt, position, integration, accepted_at, parsed, group_size, received_at=received_at
        )


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
        lane.trace_id,
        lane.receipt,
        NO_INTEGRATION,
        lane.accepted_at,
        alerts,
        group_size,
        lane.start,
        received_at=lane.received_at,
    )


def build_alert(
    trace_id: str,
    receipt: int,
    position: int,
    integration: int,
    accepted_at: datetime,
    parsed: ParsedAlert,
    group_size: int = 1,
    *,
    received_at: datetime | None = None,
) -> Alert:
    """Return the parsed alert at a position of a receipt's body as an alert of this integration.

    `received_at` is when the body was received, if that was before `accepted_at`: the body was a dead letter.
    """
    entity_id = parsed.entity_id or identity.make_entity_id(trace_id, position)
    return Alert(
        event_id=identity.make_event_id(trace_id, position, integration),
        trace_id=trace_id,
        receipt=receipt,
        position=position,
        integration=integration,
        accepted_at=accepted_at,
        entity_id=identity.limit_entity_id(entity_id),
        parsed=set_end(parsed, received_at or accepted_at),
        options=IncidentOptions(notes=(parsed.incident_note,)) if parsed.incident_note else NO_OPTIONS,
        group_size=group_size,
    )


def decide(alert: Alert, state: LaneState | RouterLane, now: datetime) -> Decision:
    """Record the level of the alert, whether the sender gave the entity_id, and how the body was read.

    A refused request ends here. The body is parsed before.
    """
    if alert.parsed.refusal is not None:
        return stop(alert.parsed.refusal)
    if _needs_signature(alert, state):
        return stop(make_reason("signature_required"), alert=alert.with_changes(**REFUSED))
    alert = apply_default_level(alert, _find_default_level(alert, state))
    level, kind = alert.alert_type.name.lower(), alert.parsed.read_as_generic
    if alert.parsed.entity_from:
        reason = make_reason("entity_derived", level=level, fields=alert.parsed.entity_from)
    elif alert.parsed.entity_id:
        reason = make_reason("entity_given", level=level)
    else:
        reason = make_reason("entity_generated", level=level)
    if alert.parsed.has_default_level and alert.alert_type is AlertType.INFO:
        reason = reason.add(make_reason("level_not_sent"))
    if kind:
        reason = reason.add(make_reason("read_as_generic", kind=kind))
    return proceed(reason.add(*alert.parsed.remarks), alert=alert)


def apply_default_level(alert: Alert, default: AlertType | None) -> Alert:
    """Return the alert with the default level of its integration, if its source sent no known level.

    None: the integration declares no default level.
    """
    if default is None or not alert.parsed.has_default_level:
        return alert
    return replace(alert, parsed=set_default_level(alert.parsed, default))


def set_default_level(parsed: ParsedAlert, default: AlertType) -> ParsedAlert:
    """Return a parsed alert with this level if its source sent no known level; its reason says so."""
    if not parsed.has_default_level:
        return parsed
    why = make_reason("level_declared", level=default.name.lower())
    remarks = (*parsed.remarks, why)
    return replace(parsed, alert_type=default, has_default_level=False, remarks=remarks)


def _find_default_level(alert: Alert, state: LaneState | RouterLane) -> AlertType | None:
    """Return the default level of the integration. An alert of a router gets it when it is routed."""
    integration = state.facts.integrations.get(alert.integration) if isinstance(state, LaneState) else None
    return integration.default_level if integration is not None else None


def _needs_signature(alert: Alert, state: LaneState | RouterLane) -> bool:
    """Return whether the request came to another address than that of the tool, which signs its requests.

    Each key works with the address of each tool, so the signature could be avoided. The key of a router is
    no key of the integration.
    """
    if isinstance(state, RouterLane) or alert.parsed.is_verified or alert.parsed.is_own:
        return False
    integration = state.facts.integrations.get(alert.integration)
    return integration is not None and integration.is_signed
