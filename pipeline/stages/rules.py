"""Stage 3: apply the sender's requested options, then the integration's alert rules."""

from datetime import datetime

from models.domain.effects import Decision, ExpectPing, proceed
from models.domain.reasons import Reason, make_reason
from pipeline.alert import Alert
from pipeline.lane_state import LaneState
from pipeline.rules import requested_options
from pipeline.rules.conditions import Budget


def reads_past_incidents(alert: Alert, state: LaneState) -> bool:
    """Return whether this alert's rules read the results of earlier alerts.

    Only the transaction that runs dedupe knows these results.
    """
    ruleset = state.rulesets.get(alert.integration)
    return ruleset is not None and ruleset.reads_past_incidents


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    if alert.parsed.is_expiry:
        # A rule could change the entity that ends, or its level.
        return proceed(make_reason("rules_not_for_expiry"))
    notes: tuple[Reason, ...] = ()
    changed = alert
    expected = _expect_ping(alert, state)
    if alert.parsed.requested_options:
        changed, notes = requested_options.apply_requested(alert, state.facts.references)
    ruleset = state.rulesets.get(alert.integration)
    if ruleset is None:
        return proceed(make_reason("no_alert_rules").add(*notes), *expected, alert=changed)

    def get_seconds_since(candidate: Alert) -> float | None:
        return state.get_seconds_since_last(candidate, now) if ruleset.reads_past_incidents else None

    result = ruleset.apply(changed, state.facts, now, get_seconds_since, Budget(alert.group_size))
    why = make_reason("alert_rules_matched", matched=result.matched, total=len(ruleset.rules))
    if result.skipped:
        state.record_skipped(alert)
        why = why.add(make_reason("rules_skipped", count=result.skipped))
    return proceed(why.add(*notes), *expected, alert=result.alert, rules=result.records)


def _expect_ping(alert: Alert, state: LaneState) -> tuple[ExpectPing, ...]:
    """Return the effect of a ping. It does not depend on the rules.

    Pings that were sent with any key, of an integration or of a router, pass this stage.
    """
    within = state.facts.integrations[alert.integration].ping_timeout
    if within is None or not alert.parsed.is_ping:
        return ()
    return (ExpectPing(alert.integration, alert.accepted_at + within),)
