"""Stage 3: what the sender asked for, then the integration's alert rules, change the alert."""

from datetime import datetime

from models.effects import Decision, ExpectPing, go_on
from pipeline import wishes
from pipeline.alert import Alert
from pipeline.state import LaneState


def looks_back(alert: Alert, state: LaneState) -> bool:
    """Whether this alert's rules ask what became of earlier alerts, which only dedupe's transaction knows."""
    ruleset = state.rulesets.get(alert.integration)
    return ruleset is not None and ruleset.looks_back


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    told = ""
    changed = alert
    expected = _expected(alert, state)
    if alert.parsed.wishes:
        changed, told = wishes.planned(alert, state.facts.nameable)
    ruleset = state.rulesets.get(alert.integration)
    if ruleset is None:
        return go_on(f"{told}the integration has no alert rules", *expected, alert=changed)

    def since(one: Alert) -> float | None:
        return state.seconds_since_last(one, now) if ruleset.looks_back else None

    ruled = ruleset.apply(changed, state.facts, now, since)
    reason = f"{told}{ruled.matched} of {len(ruleset.rules)} alert rules matched"
    return go_on(reason, *expected, alert=ruled.alert, rules=ruled.records)


def _expected(alert: Alert, state: LaneState) -> tuple[ExpectPing, ...]:
    """A ping is one whatever the rules make of it, by whichever key it came: here is where all come by."""
    within = state.facts.integrations[alert.integration].pings_within
    if within is None or not alert.parsed.is_ping:
        return ()
    return (ExpectPing(alert.integration, alert.accepted_at + within),)
