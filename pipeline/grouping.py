"""Content-based grouping: the values by which alerts of a service become one incident.

Contract sections 3.12 and 4.3.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress

from models.domain.enums import Collation
from models.domain.facts import GroupingFacts, GroupKey, LaneFacts
from pipeline.alert import Alert
from pipeline.lane_state import LaneState
from pipeline.rules.conditions import paths
from pipeline.rules.conditions.budget import Budget, BudgetExceeded

# The fields of every alert that a policy can name, and their values.
STATIC_FIELDS: dict[str, Callable[[Alert, LaneFacts], str]] = {
    "incident_title": lambda alert, facts: alert.message,
    "incident_summary": lambda alert, facts: alert.summary,
    "integration": lambda alert, facts: facts.integrations[alert.integration].unique_id,
}


def get_keys(alert: Alert, state: LaneState) -> tuple[GroupKey, ...]:
    """Return the values of an alert by the grouping policies of its service; () without such grouping.

    The work counts as work of rules, once for each alert.
    """
    if state.group_keys is None or state.group_keys[0] is not alert:
        keys, work = build_keys(alert, state.facts)
        state.rule_work += work
        state.group_keys = (alert, keys)
    return state.group_keys[1]


def build_keys(alert: Alert, facts: LaneFacts) -> tuple[tuple[GroupKey, ...], float]:
    """Return the values of an alert, and the work that they caused, in budgets of an alert.

    A field without a value, or with an empty one, equals no other. An alert whose payload needs too much work
    has no values: it opens its own incident, which is better than to join a wrong one.
    """
    if facts.service.collation is not Collation.CONTENT_BASED or not facts.grouping:
        return (), 0.0
    budget = Budget(alert.group_size)
    keys: tuple[GroupKey, ...] = ()
    with suppress(BudgetExceeded):
        keys = tuple(key for policy in facts.grouping for key in _build_keys(alert, facts, policy, budget))
    return keys, budget.spent


def _build_keys(alert: Alert, facts: LaneFacts, policy: GroupingFacts, budget: Budget) -> Iterator[GroupKey]:
    values = {name: STATIC_FIELDS[name](alert, facts) for name in policy.static_fields}
    for path in policy.paths:
        # A static field and a path can have the same name.
        values[f"payload {path}"] = _read(alert, path, budget)
    if not policy.match_all:
        for name, value in values.items():
            if value:
                yield GroupKey(_digest(policy, {name: value}), policy.window)
    elif all(values.values()):
        yield GroupKey(_digest(policy, values), policy.window)


def _read(alert: Alert, path: str, budget: Budget) -> str:
    """Return the values at a path as text; "": there is none."""
    found = paths.find(alert.parsed.payload, paths.parse(path), budget)
    texts = [paths.to_text_within(value, budget) for value in found]
    return json.dumps(texts) if any(texts) else ""


def _digest(policy: GroupingFacts, values: dict[str, str]) -> str:
    """Return a digest that only the same values of the same fields of this policy have."""
    text = json.dumps([policy.unique_id, policy.match_all, sorted(values.items())])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
