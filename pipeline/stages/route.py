"""Stage 2: send an alert to the integrations that the rules of a global router name. Contract section 4.7.

An alert that was sent with an integration's own key passes unchanged. An alert of a router's key becomes an
alert for each target; they continue in the lanes of the targets' services. If no rule matches, the alert is
stored as suppressed and nobody is notified.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import cast

from models.domain.effects import Decision, proceed
from models.domain.enums import Urgency
from models.domain.facts import RouteTarget
from models.domain.reasons import make_reason
from pipeline import router
from pipeline.alert import Alert, ParsedAlert
from pipeline.lane_state import LaneState
from pipeline.router import RouterLane
from pipeline.rules.conditions import Budget, Subject, build_subject
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.table import SOURCES
from pipeline.stages.normalize import apply_default_level, build_alert


def decide(alert: Alert, state: LaneState | RouterLane, now: datetime) -> Decision:
    if isinstance(state, LaneState):
        return proceed(make_reason("no_router"))
    choice = state.router.choose(_build_subject(alert, state), Budget(alert.group_size))
    if choice.skipped:
        state.record_skipped(alert)
    if not choice.targets:
        state.count_events(1)
        unrouted = alert.with_changes(suppressed=True)
        return Decision(choice.reason, continues=False, alert=unrouted, rules=choice.records)
    every = (
        (sent, target.service) for target in choice.targets for sent in _build_alerts(alert, state, target)
    )
    routed = tuple(islice(every, router.MAX_EVENTS + 1))
    state.count_events(len(routed))
    reason = choice.reason
    if any(one.alert_type is not alert.alert_type for one, _ in routed) and alert.parsed.has_default_level:
        reason = reason.add(make_reason("level_declared_by_targets"))
    return Decision(reason, rules=choice.records, routed=routed)


def _build_subject(alert: Alert, lane: RouterLane) -> Subject:
    """Return the subject of a router's conditions: the payload is the whole body, not only the payload
    in it.
    """
    subject = build_subject(alert, Urgency.HIGH, lane.accepted_at, None)
    if not SOURCES[lane.source].is_generic:
        return subject
    every_field = cast("Subject", subject["alert"])
    fields = {**every_field, "payload": generic.decode_object(lane.body)}
    return {**fields, "alert": fields}


def _build_alerts(alert: Alert, lane: RouterLane, target: RouteTarget) -> Iterator[Alert]:
    """Yield the alert as this integration would have parsed it: in the generic form, it can be several."""
    parsed = {alert.position: alert.parsed}
    if lane.source == generic.EXTENSION:
        parsed = dict(enumerate(parse_for_source(target.source, lane.body)))
    for position, one in parsed.items():
        built = build_alert(
            lane.trace_id,
            lane.receipt,
            position,
            target.integration,
            lane.accepted_at,
            one,
            received_at=lane.received_at,
        )
        yield apply_default_level(built, target.default_level)


def parse_for_source(source: str, body: RequestBody) -> list[ParsedAlert]:
    """Return the alerts of a body in the generic form as a target with this source parses it.

    A body that the source cannot parse is parsed as a generic object, since the target's rules may understand
    it.
    """
    if source == generic.EXTENSION:
        return [generic.parse_any(body)]
    try:
        return SOURCES[source].parse(body)
    except BadBody:
        return [generic.parse_any(body)]
