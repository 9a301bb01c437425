"""Stage 3: what the sender asked for, then the integration's alert rules, change the alert."""

from datetime import datetime

from models.domain.effects import Decision, ExpectPing, proceed
from pipeline.alert import Alert
from pipeline.lane_state import LaneState
from pipeline.rules import requested_options


def reads_history(alert: Alert, state: LaneState) -> bool:
    """Whether this alert's rules ask what became of earlier alerts, which only dedupe's transaction knows."""
    ruleset = state.rulesets.get(alert.integration)
    return ruleset is not None and ruleset.reads_history


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    note = ""
    changed = alert
    expected = _expect_ping(alert, state)
    if alert.parsed.requested_options:
        changed, note = requested_options.apply_requested(alert, state.facts.references)
    ruleset = state.rulesets.get(alert.integration)
    if ruleset is None:
        return proceed(f"{note}the integration has no alert rules", *expected, alert=changed)

    def get_seconds_since(candidate: Alert) -> float | None:
        return state.get_seconds_since_last(candidate, now) if ruleset.reads_history else None

    result = ruleset.apply(changed, state.facts, now, get_seconds_since)
    reason = f"{note}{result.matched} of {len(ruleset.rules)} alert rules matched"
    return proceed(reason, *expected, alert=result.alert, rules=result.records)


def _expect_ping(alert: Alert, state: LaneState) -> tuple[ExpectPing, ...]:
    """A ping is one whatever the rules make of it, by whichever key it came: here is where all come by."""
    within = state.facts.integrations[alert.integration].ping_timeout
    if within is None or not alert.parsed.is_ping:
        return ()
    return (ExpectPing(alert.integration, alert.accepted_at + within),)
