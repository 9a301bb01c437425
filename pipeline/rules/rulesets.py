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

from models.domain.enums import AlertConditionType, RuleAction, RuleType
from models.domain.facts import AlertRuleFacts, LaneFacts
from pipeline.alert import Alert
from pipeline.rules import actions
from pipeline.rules.conditions import (
    HISTORY,
    NEVER,
    BadRule,
    CompiledCondition,
    Index,
    Subject,
    Verdict,
    build_subject,
    compile_rule,
    evaluate,
    reads_history,
)

# What the recorder keeps of each alert: so many rules, each value cut at so many characters.
MAX_RECORDS = 50
MAX_SHOWN_LENGTH = 200

Record = Mapping[str, Any]
# Seconds since the last incident of the alert's entity, which rules may change; None when there was none.
SecondsSince = Callable[[Alert], float | None]


@dataclass(frozen=True, slots=True)
class RuleSetResult:
    """An alert after its rules; `records` tell each rule that was looked at, `matched` how many did."""

    alert: Alert
    matched: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """`compiled` is None for one that cannot be read any more: it never matches, and says why."""

    compiled: CompiledCondition | None
    problem: str | None = None

    def evaluate(self, subject: Subject) -> Verdict:
        return evaluate(self.compiled, subject) if self.compiled else Verdict(False, self.problem)


def compile_condition(*texts: str) -> Condition:
    """The condition that all of these stored ones make together."""
    try:
        return Condition(compile_cached(*texts))
    except BadRule as error:
        return Condition(None, f"the rule cannot be read: {error}")


# A condition that matches everything stands in for one that cannot be read, to keep its place in an index.
_ALWAYS = compile_rule("")


def build_index(conditions: Iterable[Condition]) -> Index:
    """What cannot be read is always offered, to say so."""
    return Index([each.compiled or _ALWAYS for each in conditions])


@dataclass(frozen=True, slots=True)
class Rule:
    facts: AlertRuleFacts
    condition: Condition


class Interrupted(Exception):
    """Somebody had said that it is enough before an alert had met all of its rules."""


def _return_false() -> bool:
    return False


class RuleSet:
    """The rules of one list, in its order. To be kept and shared, also between threads."""

    def __init__(
        self, rules: Sequence[AlertRuleFacts], should_stop: Callable[[], bool] = _return_false
    ) -> None:
        """`is_enough` is asked before each rule: where patterns are slow a rule may take half a second."""
        self.rules = [_compile(facts) for facts in rules]
        self._should_stop = should_stop
        self._index = build_index(rule.condition for rule in self.rules)
        # Whether any condition depends on what became of earlier alerts.
        known = (rule.condition.compiled for rule in self.rules)
        self.reads_history = any(each is not None and reads_history(each) for each in known)

    def apply(
        self, alert: Alert, facts: LaneFacts, now: datetime, seconds_since: SecondsSince
    ) -> RuleSetResult:
        """The alert as its rules leave it. Raises Interrupted, but nothing for what a rule or an alert can
        hold."""
        records: list[dict[str, Any]] = []
        matched, position = 0, 0
        while True:
            subject = build_subject(alert, actions.get_urgency(alert, facts), now, seconds_since(alert))
            evaluated, found = self._next_match(subject, position)
            records += [build_record(r.facts.unique_id, r.facts.description, v) for r, v in evaluated]
            if found is None:
                break
            rule, matched, position = self.rules[found], matched + 1, found + 1
            alert, done = _apply_actions(
                alert, rule, actions.ActionContext(facts, subject), now, seconds_since
            )
            records[-1]["actions"] = done
            if rule.facts.stop:
                records[-1]["stop"] = True
                break
        return RuleSetResult(alert, matched, limit_records(records))

    def _next_match(self, subject: Subject, first: int) -> tuple[list[tuple[Rule, Verdict]], int | None]:
        """The verdicts of all that are looked at from `first` on, up to the first that matches: its place."""
        evaluated: list[tuple[Rule, Verdict]] = []
        for position in self._index.find_candidates(subject):
            if position < first:
                continue
            if self._should_stop():
                raise Interrupted
            rule = self.rules[position]
            verdict = rule.condition.evaluate(subject)
            evaluated.append((rule, verdict))
            if verdict.matches:
                return evaluated, position
        return evaluated, None


def _apply_actions(
    alert: Alert, rule: Rule, context: actions.ActionContext, now: datetime, seconds_since: SecondsSince
) -> tuple[Alert, list[Record]]:
    """The alert after a rule's actions, each of which sees what the one before it did."""
    done: list[Record] = []
    for action in rule.facts.actions:
        change = actions.apply_action(alert, action, context)
        if change.alert is not alert:
            alert = change.alert
            urgency = actions.get_urgency(alert, context.facts)
            context = actions.ActionContext(
                context.facts, build_subject(alert, urgency, now, seconds_since(alert))
            )
        done.append(_build_action_record(action, change))
    return alert, done


def _build_action_record(action: Mapping[str, Any], change: actions.Change) -> Record:
    values = {"from": change.before, "to": change.after, "note": change.note}
    texts = {name: shorten(text) for name, text in values.items() if text is not None}
    return {"action": RuleAction(action["action_type"]).name.lower(), **texts}


def build_record(rule: str, description: str, verdict: Verdict) -> dict[str, Any]:
    """What the recorder keeps of a rule (its unique_id) that was looked at."""
    record: dict[str, Any] = {
        "rule": rule,
        "description": shorten(description),
        "matches": verdict.matches,
        "read": {name: format_value(name, value) for name, value in verdict.read.items()},
    }
    return record if verdict.note is None else {**record, "note": shorten(verdict.note)}


def limit_records(records: Sequence[Record]) -> tuple[Record, ...]:
    """No more records than are kept of one alert; how many were left out is the last."""
    if len(records) <= MAX_RECORDS:
        return tuple(records)
    # What matched is worth more than what did not.
    first = sorted(range(len(records)), key=lambda position: not records[position]["matches"])[:MAX_RECORDS]
    return (*[records[position] for position in sorted(first)], {"more": len(records) - MAX_RECORDS})


def format_value(name: str, value: Any) -> Any:
    """A value that a condition read, short enough to keep and to look at."""
    if name == HISTORY and value == NEVER:
        return "never"
    if isinstance(value, dict) and value.get(HISTORY) == NEVER:
        value = {**value, HISTORY: "never"}
    if value is None or isinstance(value, bool | int | float):
        return value
    return shorten(value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace"))


def shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "..."


def _compile(facts: AlertRuleFacts) -> Rule:
    conditions = build_conditions_json(facts.rule_type, facts.conditions)
    return Rule(facts, compile_condition(facts.rule_json, conditions))


@lru_cache(maxsize=4096)
def compile_cached(*texts: str) -> CompiledCondition:
    """All of these conditions together; kept, since a new version leaves most rules as they were."""
    return compile_rule(*texts)


def build_conditions_json(rule_type: RuleType, conditions: Sequence[Mapping[str, Any]]) -> str:
    """An alert rule's `conditions` as a condition of their own, a tree of the query builder; "" for none."""
    if not conditions:
        return ""
    children = [_build_condition_node(each) for each in sorted(conditions, key=lambda each: each["position"])]
    conjunction = "AND" if rule_type is RuleType.ALL else "OR"
    tree = {
        "type": "group",
        "id": "conditions",
        "properties": {"conjunction": conjunction},
        "children1": children,
    }
    return msgspec.json.encode(tree).decode()


def _build_condition_node(condition: Mapping[str, Any]) -> dict[str, Any]:
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
