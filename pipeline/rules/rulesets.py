"""The compiled alert rules of an integration: which of them match an alert, and what their actions change.

The rules are compiled once per version of the configuration. An index selects the rules that can match an
alert. Rules act in order, each on the alert as the earlier rules left it (contract section 4.2).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from models.domain.enums import AlertConditionType, RuleType
from models.domain.facts import AlertRuleFacts, LaneFacts
from models.domain.reasons import Reason, make_reason
from pipeline.alert import Alert, get_urgency
from pipeline.rules import actions
from pipeline.rules.action_table import ACTIONS
from pipeline.rules.conditions import (
    NEVER,
    SECONDS_SINCE_LAST,
    BadRule,
    Budget,
    BudgetExceeded,
    CompiledCondition,
    Index,
    Subject,
    Verdict,
    Work,
    build_subject,
    compile_rule,
    evaluate,
    reads_past_incidents,
)

# Limits of the alert trace for each alert: the number of rules, and the characters of each value.
MAX_RECORDS = 50
MAX_SHOWN_LENGTH = 200
# Steps of an alert's budget for an action, whatever it does: the subject is built again after it.
ACTION_STEPS = 100

Record = Mapping[str, Any]
# Seconds since the last incident of the alert's entity; None if there was none. Rules can change the entity.
SecondsSince = Callable[[Alert], float | None]


@dataclass(frozen=True, slots=True)
class RuleSetResult:
    """An alert after its rules.

    `records` has an entry for each evaluated rule; `matched` counts the matches. `skipped` counts the rules
    and the actions of matching rules that the budget of the alert did not suffice for.
    """

    alert: Alert
    matched: int
    records: tuple[Record, ...]
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a rule. `compiled` None: it cannot be read and never matches; `problem` says why."""

    compiled: CompiledCondition | None
    problem: Reason | None = None

    def evaluate(self, subject: Subject, budget: Budget) -> Verdict:
        return evaluate(self.compiled, subject, budget) if self.compiled else Verdict(False, self.problem)


def compile_condition(*texts: str) -> Condition:
    """Return a condition that holds if all of these stored conditions hold."""
    try:
        return Condition(compile_cached(*texts))
    except BadRule as error:
        return Condition(None, make_reason("rule_unreadable", error=shorten(str(error))))


# Replaces a condition that cannot be read, so that the positions in an index stay the same.
_ALWAYS = compile_rule("")


def build_index(conditions: Iterable[Condition]) -> Index:
    """Return an index. Conditions that cannot be read are always candidates, so that a record shows them."""
    return Index([each.compiled or _ALWAYS for each in conditions])


@dataclass(frozen=True, slots=True)
class Rule:
    facts: AlertRuleFacts
    condition: Condition


class Interrupted(Exception):
    """`should_stop` ended the evaluation before all rules of an alert were evaluated."""


def _return_false() -> bool:
    return False


class RuleSet:
    """The rules of one list, in its order. Keep and share it, also between threads."""

    def __init__(
        self, rules: Sequence[AlertRuleFacts], should_stop: Callable[[], bool] = _return_false
    ) -> None:
        """`should_stop` is called before each rule: a rule with slow patterns can take half a second."""
        self.rules = [_compile(facts) for facts in rules]
        self._should_stop = should_stop
        self._index = build_index(rule.condition for rule in self.rules)
        # Whether any condition depends on the results of earlier alerts.
        known = (rule.condition.compiled for rule in self.rules)
        self.reads_past_incidents = any(each is not None and reads_past_incidents(each) for each in known)

    def apply(
        self,
        alert: Alert,
        facts: LaneFacts,
        now: datetime,
        seconds_since: SecondsSince,
        budget: Budget | None = None,
    ) -> RuleSetResult:
        """Return the alert after its rules. Skip what its budget does not suffice for (None: a full budget).

        Raises Interrupted, and no other error for any content of a rule or an alert.
        """
        budget = budget or Budget()
        records: list[dict[str, object]] = []
        matched, position, skipped = 0, 0, 0
        while True:
            subject = build_subject(alert, get_urgency(alert, facts), now, seconds_since(alert))
            evaluated, found = self._next_match(subject, position, budget)
            records += [build_record(r.facts.unique_id, r.facts.description, v) for r, v in evaluated]
            skipped += sum(verdict.is_skipped for _, verdict in evaluated)
            if found is None:
                break
            rule, matched, position = self.rules[found], matched + 1, found + 1
            context = actions.ActionContext(facts, subject, budget)
            alert, done, skipped_actions = _apply_actions(alert, rule, context, now, seconds_since)
            records[-1]["actions"] = done
            skipped += skipped_actions
            if rule.facts.stop:
                records[-1]["stop"] = True
                break
        return RuleSetResult(alert, matched, limit_records(records), skipped)

    def _next_match(
        self, subject: Subject, first: int, budget: Budget
    ) -> tuple[list[tuple[Rule, Verdict]], int | None]:
        """Return the verdicts of the evaluated rules from `first` on, and the position of the first match."""
        evaluated: list[tuple[Rule, Verdict]] = []
        for position in self._index.find_candidates(subject, budget):
            if position < first:
                continue
            if self._should_stop():
                raise Interrupted
            rule = self.rules[position]
            verdict = rule.condition.evaluate(subject, budget)
            evaluated.append((rule, verdict))
            if verdict.matches:
                return evaluated, position
        return evaluated, None


def _apply_actions(
    alert: Alert, rule: Rule, context: actions.ActionContext, now: datetime, seconds_since: SecondsSince
) -> tuple[Alert, list[Record], int]:
    """Return the alert after a rule's actions, their records, and the number of skipped actions.

    Each action sees the changes of those before it.
    """
    done: list[Record] = []
    skipped = 0
    for action in rule.facts.actions:
        spec = ACTIONS[action["action_type"]]
        try:
            context.budget.spend(Work.STEPS, ACTION_STEPS)
            change = spec.act(alert, action, context)
        except BudgetExceeded as exceeded:
            change = actions.Change(alert, note=exceeded.reason)
            skipped += 1
        if change.alert is not alert:
            alert = change.alert
            urgency = get_urgency(alert, context.facts)
            subject = build_subject(alert, urgency, now, seconds_since(alert))
            context = replace(context, subject=subject)
        done.append(_build_action_record(spec.name, change))
    return alert, done, skipped


def _build_action_record(name: str, change: actions.Change) -> Record:
    values = {"from": change.before, "to": change.after}
    texts = {key: shorten(text) for key, text in values.items() if text is not None}
    return {"action": name, **texts, **_build_note(change.note)}


def _build_note(note: Reason | None) -> dict[str, Reason]:
    """Return the part of a record that has the note, with truncated texts. Without a note, return {}."""
    if note is None:
        return {}
    parameters = {
        name: shorten(value) if isinstance(value, str) else value for name, value in note.parameters.items()
    }
    return {"note": replace(note, parameters=parameters)}


def build_record(rule: str, description: str, verdict: Verdict) -> dict[str, object]:
    """Return the record of an evaluated rule (its unique_id) for the alert trace."""
    return {
        "rule": rule,
        "description": shorten(description),
        "matches": verdict.matches,
        "read": {name: format_value(name, value) for name, value in verdict.read.items()},
        **_build_note(verdict.note),
    }


def limit_records(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return at most MAX_RECORDS records. If some were left out, one more entry has their number."""
    if len(records) <= MAX_RECORDS:
        return tuple(records)
    # Keep matches before others.
    first = sorted(range(len(records)), key=lambda position: not records[position]["matches"])[:MAX_RECORDS]
    return (*[records[position] for position in sorted(first)], {"more": len(records) - MAX_RECORDS})


def format_value(name: str, value: object) -> object:
    """Return a value that a condition read, short enough to store and to show."""
    if name == SECONDS_SINCE_LAST and value == NEVER:
        return "never"
    if isinstance(value, dict) and value.get(SECONDS_SINCE_LAST) == NEVER:
        value = {**value, SECONDS_SINCE_LAST: "never"}
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
    """Compile these conditions as one. Cached, since a new version leaves most rules unchanged."""
    return compile_rule(*texts)


def build_conditions_json(rule_type: RuleType, conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return the `conditions` of an alert rule as a tree of the query builder in JSON; "" for none."""
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


def _build_condition_node(condition: Mapping[str, object]) -> dict[str, object]:
    if condition["alert_condition_type"] == AlertConditionType.ALERT_TYPE:
        properties: dict[str, object] = {
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
