"""An integration's alert rules, compiled: which of them match an alert, and what they make of it.

Compiled once per version of the configuration; indexed, so that an alert meets only rules that can
match it. Rules act in order, each on what those before it left (contract section 4.2).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from models.enums import AlertConditionType, RuleAction, RuleType
from models.facts import AlertRuleFacts, LaneFacts
from pipeline import actions
from pipeline.alert import Alert
from pipeline.conditions import (
    HISTORY,
    NEVER,
    BadRule,
    Compiled,
    Index,
    Subject,
    Verdict,
    compile_rule,
    evaluate,
    reads_history,
    subject_of,
)

# What the recorder keeps of each alert: so many rules, each value cut at so many characters.
MOST_RECORDED = 50
LONGEST_SHOWN = 200

Record = Mapping[str, Any]
# Seconds since the last incident of the alert's entity, which rules may change; None when there was none.
Since = Callable[[Alert], float | None]


@dataclass(frozen=True, slots=True)
class Ruled:
    """An alert after its rules; `records` tell each rule that was looked at, `matched` how many did."""

    alert: Alert
    matched: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """`compiled` is None for one that cannot be read any more: it never matches, and says why."""

    compiled: Compiled | None
    problem: str | None = None

    def verdict(self, subject: Subject) -> Verdict:
        return evaluate(self.compiled, subject) if self.compiled else Verdict(False, self.problem)


def condition_of(*texts: str) -> Condition:
    """The condition that all of these stored ones make together."""
    try:
        return Condition(compiled(*texts))
    except BadRule as error:
        return Condition(None, f"the rule cannot be read: {error}")


# A condition that matches everything stands in for one that cannot be read, to keep its place in an index.
_ALWAYS = compile_rule("")


def index_of(conditions: Iterable[Condition]) -> Index:
    """What cannot be read is always offered, to say so."""
    return Index([each.compiled or _ALWAYS for each in conditions])


@dataclass(frozen=True, slots=True)
class Rule:
    facts: AlertRuleFacts
    condition: Condition


class Interrupted(Exception):
    """Somebody had said that it is enough before an alert had met all of its rules."""


def _never() -> bool:
    return False


class RuleSet:
    """The rules of one list, in its order. To be kept and shared, also between threads."""

    def __init__(self, rules: Sequence[AlertRuleFacts], is_enough: Callable[[], bool] = _never) -> None:
        """`is_enough` is asked before each rule: where patterns are slow a rule may take half a second."""
        self.rules = [_compiled(facts) for facts in rules]
        self._is_enough = is_enough
        self._index = index_of(rule.condition for rule in self.rules)
        # Whether any condition depends on what became of earlier alerts.
        known = (rule.condition.compiled for rule in self.rules)
        self.looks_back = any(each is not None and reads_history(each) for each in known)

    def apply(self, alert: Alert, facts: LaneFacts, now: datetime, since: Since) -> Ruled:
        """The alert as its rules leave it. Raises Interrupted, but nothing for what a rule or an alert can
        hold."""
        records: list[dict[str, Any]] = []
        matched, place = 0, 0
        while True:
            subject = subject_of(alert, actions.urgency_of(alert, facts), now, since(alert))
            looked_at, found = self._next_match(subject, place)
            records += [record_of(r.facts.unique_id, r.facts.description, v) for r, v in looked_at]
            if found is None:
                break
            rule, matched, place = self.rules[found], matched + 1, found + 1
            alert, done = _acted(alert, rule, actions.Scene(facts, subject), now, since)
            records[-1]["actions"] = done
            if rule.facts.stop:
                records[-1]["stop"] = True
                break
        return Ruled(alert, matched, cut_off(records))

    def _next_match(self, subject: Subject, first: int) -> tuple[list[tuple[Rule, Verdict]], int | None]:
        """The verdicts of all that are looked at from `first` on, up to the first that matches: its place."""
        looked_at: list[tuple[Rule, Verdict]] = []
        for place in self._index.candidates(subject):
            if place < first:
                continue
            if self._is_enough():
                raise Interrupted
            rule = self.rules[place]
            verdict = rule.condition.verdict(subject)
            looked_at.append((rule, verdict))
            if verdict.matches:
                return looked_at, place
        return looked_at, None


def _acted(
    alert: Alert, rule: Rule, scene: actions.Scene, now: datetime, since: Since
) -> tuple[Alert, list[Record]]:
    """The alert after a rule's actions, each of which sees what the one before it did."""
    done: list[Record] = []
    for action in rule.facts.actions:
        change = actions.act(alert, action, scene)
        if change.alert is not alert:
            alert = change.alert
            urgency = actions.urgency_of(alert, scene.facts)
            scene = actions.Scene(scene.facts, subject_of(alert, urgency, now, since(alert)))
        done.append(_action_record(action, change))
    return alert, done


def _action_record(action: Mapping[str, Any], change: actions.Change) -> Record:
    told = {"from": change.before, "to": change.after, "note": change.note}
    said = {name: shown(text) for name, text in told.items() if text is not None}
    return {"action": RuleAction(action["action_type"]).name.lower(), **said}


def record_of(rule: str, description: str, verdict: Verdict) -> dict[str, Any]:
    """What the recorder keeps of a rule (its unique_id) that was looked at."""
    told: dict[str, Any] = {
        "rule": rule,
        "description": shown(description),
        "matches": verdict.matches,
        "read": {name: shown_value(name, value) for name, value in verdict.read.items()},
    }
    return told if verdict.note is None else {**told, "note": shown(verdict.note)}


def cut_off(records: Sequence[Record]) -> tuple[Record, ...]:
    """No more records than are kept of one alert; how many were left out is the last."""
    if len(records) <= MOST_RECORDED:
        return tuple(records)
    # What matched is worth more than what did not.
    first = sorted(range(len(records)), key=lambda place: not records[place]["matches"])[:MOST_RECORDED]
    return (*[records[place] for place in sorted(first)], {"more": len(records) - MOST_RECORDED})


def shown_value(name: str, value: Any) -> Any:
    """A value that a condition read, short enough to keep and to look at."""
    if name == HISTORY and value == NEVER:
        return "never"
    if isinstance(value, dict) and value.get(HISTORY) == NEVER:
        value = {**value, HISTORY: "never"}
    if value is None or isinstance(value, bool | int | float):
        return value
    return shown(value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace"))


def shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def _compiled(facts: AlertRuleFacts) -> Rule:
    conditions = conditions_json(facts.rule_type, facts.conditions)
    return Rule(facts, condition_of(facts.rule_json, conditions))


@lru_cache(maxsize=4096)
def compiled(*texts: str) -> Compiled:
    """All of these conditions together; kept, since a new version leaves most rules as they were."""
    return compile_rule(*texts)


def conditions_json(rule_type: RuleType, conditions: Sequence[Mapping[str, Any]]) -> str:
    """An alert rule's `conditions` as a condition of their own, a tree of the query builder; "" for none."""
    if not conditions:
        return ""
    children = [_condition_node(each) for each in sorted(conditions, key=lambda each: each["position"])]
    conjunction = "AND" if rule_type is RuleType.ALL else "OR"
    tree = {
        "type": "group",
        "id": "conditions",
        "properties": {"conjunction": conjunction},
        "children1": children,
    }
    return msgspec.json.encode(tree).decode()


def _condition_node(condition: Mapping[str, Any]) -> dict[str, Any]:
    if condition["alert_condition_type"] == AlertConditionType.ALERT_TYPE:
        properties: dict[str, Any] = {
            "field": "alert.alert_type",
            "operator": "select_equals",
            "value": [condition["pattern"]],
        }
    else:
        properties = {
            "field": "alert.payload",
            "operator": "payloadsearch",
            "value": [condition["alert_field"], condition["pattern"]],
            "operatorOptions": {"ploperator": "regex"},
        }
    return {"type": "rule", "id": condition.get("unique_id", ""), "properties": properties}
