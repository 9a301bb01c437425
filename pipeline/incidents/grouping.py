"""Content-based grouping: the values by which alerts of a service become one incident.

Contract sections 3.12 and 4.3.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from models.domain.enums import Collation
from models.domain.facts import GroupingFacts, GroupKey, LaneFacts
from pipeline.alert import Alert
from pipeline.lane_state import LaneState
from pipeline.rules.conditions import paths
from pipeline.rules.conditions.budget import Budget, BudgetExceeded, Work

# The fields of every alert that a policy can name, and their values.
STATIC_FIELDS: dict[str, Callable[[Alert, LaneFacts], str]] = {
    "incident_title": lambda alert, facts: alert.message,
    "incident_summary": lambda alert, facts: alert.summary,
    "integration": lambda alert, facts: facts.integrations[alert.integration].unique_id,
}


# The values of an alert that count, in the order of the policies: each is a row for a new incident.
MAX_KEYS = 50
# A character of a value is encoded and hashed: that takes about as long as a pattern's search of four bytes.
SEARCHED_PER_CHARACTER = 4


def get_keys(alert: Alert, state: LaneState) -> tuple[GroupKey, ...]:
    """Return the values of an alert by the grouping policies of its service; () without such grouping."""
    if state.group_keys is None or state.group_keys[0] is not alert:
        state.group_keys = (alert, build_keys(alert, state.facts))
    return state.group_keys[1]


def build_keys(alert: Alert, facts: LaneFacts) -> tuple[GroupKey, ...]:
    """Return the values of an alert by the grouping policies of its service.

    A field without a value, or with an empty one, equals no other. An alert whose payload needs too much work
    has no values: it opens its own incident, which is better than to join a wrong one.
    """
    if facts.service.collation is not Collation.CONTENT_BASED or not facts.grouping:
        return ()
    budget = Budget(alert.group_size)
    keys: tuple[GroupKey, ...] = ()
    with suppress(BudgetExceeded):
        found = (key for policy in facts.grouping for key in _build_keys(alert, facts, policy, budget))
        keys = tuple(islice(found, MAX_KEYS))
    return keys


def _build_keys(alert: Alert, facts: LaneFacts, policy: GroupingFacts, budget: Budget) -> Iterator[GroupKey]:
    values = {name: _hash(STATIC_FIELDS[name](alert, facts), budget) for name in policy.static_fields}
    # One path can be written in several ways.
    for steps in dict.fromkeys(map(paths.parse, policy.paths)):
        # A static field and a path can have the same name.
        values[f"payload {steps}"] = _read(alert, steps, budget)
    if not policy.match_all:
        for name, value in values.items():
            if value:
                yield GroupKey(_digest(policy, {name: value}), policy.window)
    elif all(values.values()):
        yield GroupKey(_digest(policy, values), policy.window)


def _read(alert: Alert, path: paths.Path, budget: Budget) -> str:
    """Return a digest of the values at a path; "": there is none."""
    found = paths.find(alert.parsed.payload, path, budget)
    texts = [paths.to_text_within(value, budget) for value in found]
    budget.spend(Work.SEARCHED, SEARCHED_PER_CHARACTER * sum(map(len, texts)))
    return _hash(json.dumps(texts), budget) if any(texts) else ""


def _hash(text: str, budget: Budget) -> str:
    """Return a digest of a value; "" for no value."""
    budget.spend(Work.SEARCHED, SEARCHED_PER_CHARACTER * len(text))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def _digest(policy: GroupingFacts, values: dict[str, str]) -> str:
    """Return a digest that only the same values of the same fields of this policy have."""
    text = json.dumps([policy.unique_id, policy.match_all, sorted(values.items())])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
