"""The compiled alert rules of an integration: which of them match an alert, and what their actions change.

The rules are compiled once per version of the configuration. An index selects the rules that can match an
alert. Rules act in order, each on the alert as the earlier rules left it (contract section 4.2).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import msgspec

from models.domain.enums import AlertConditionType, RuleType
from models.domain.facts import AlertRuleFacts, LaneFacts
from models.domain.reasons import Reason, make_reason
from pipeline.alert import Alert, get_urgency
from pipeline.rules import actions
from pipeline.rules.action_table import ACTIONS
from pipeline.rules.conditions import (
    SECONDS_SINCE_LAST,
    STEPS,
    BadRule,
    Budget,
    BudgetExceeded,
    CompiledCondition,
    Index,
    Subject,
    Verdict,
    build_subject,
    compile_rule,
    evaluate,
    reads_past_incidents,
    update_subject,
)
from pipeline.rules.one_at_a_time import evaluate_one_at_a_time
from pipeline.rules.records import Record, Records, build_action_record, shorten

# Steps of an alert's budget for an action, whatever it does. Measured: 4 to 11 microseconds, with its record.
ACTION_STEPS = 50

# Seconds since the last incident of the alert's entity; None if there was none. Rules can change the entity,
# but nothing else that the seconds depend on.
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
        subject = build_subject(alert, get_urgency(alert, facts), now, seconds_since(alert))
        context = actions.ActionContext(facts, subject, budget)
        candidates = _Candidates(self._index, len(self.rules), subject, budget)
        with evaluate_one_at_a_time(candidates):
            return self._apply(candidates, alert, context, seconds_since)

    def _apply(
        self,
        candidates: "_Candidates",
        alert: Alert,
        context: actions.ActionContext,
        seconds_since: SecondsSince,
    ) -> RuleSetResult:
        records = Records()
        matched = skipped = 0
        for position in candidates:
            if self._should_stop():
                raise Interrupted
            rule = self.rules[position]
            verdict = rule.condition.evaluate(context.subject, context.budget)
            record = records.add(rule.facts.unique_id, rule.facts.description, verdict)
            if not verdict.matches:
                skipped += verdict.is_skipped
                continue
            matched += 1
            done: list[Record] | None = None if record is None else []
            alert, context, skipped_actions = _apply_actions(alert, rule, context, seconds_since, done)
            skipped += skipped_actions
            if record is not None:
                record["actions"] = done
            if rule.facts.stop:
                if record is not None:
                    record["stop"] = True
                break
            candidates.continue_after_match(context.subject)
        return RuleSetResult(alert, matched, records.build(), skipped)


class _Candidates:
    """Iterate over the positions of the rules that can match an alert, while these rules change the alert.

    The index is searched before the first rule and after each rule that matched. Each search takes its work
    from the budget. If a rule changed no field that the index reads, the result and the work of the last
    search are used again: with a thousand rules that match, the searches took most of the time.
    """

    __slots__ = ("_budget", "_index", "_next", "_positions", "_size", "_subject", "_work")

    def __init__(self, index: Index, size: int, subject: Subject, budget: Budget) -> None:
        self._index, self._size, self._budget = index, size, budget
        self._positions: Sequence[int] = ()
        self._next = self._work = 0
        self._subject = subject
        self._search(subject)

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self._next == len(self._positions):
            raise StopIteration
        self._next += 1
        return self._positions[self._next - 1]

    def continue_after_match(self, subject: Subject) -> None:
        """Search the alert again, as the rule at the last position left it."""
        last = self._positions[self._next - 1]
        if self._index.is_changed(self._subject, subject):
            self._search(subject)
        else:
            self._subject = subject
            try:
                self._budget.spend(STEPS, self._work)
            except BudgetExceeded:
                # As in `find_candidates`.
                self._positions = range(self._size)
            else:
                return
        self._next = bisect_right(self._positions, last)

    def _search(self, subject: Subject) -> None:
        left = self._budget.get_left(STEPS)
        self._positions = self._index.find_candidates(subject, self._budget)
        self._work = left - self._budget.get_left(STEPS)
        self._subject = subject


def _apply_actions(
    alert: Alert,
    rule: Rule,
    context: actions.ActionContext,
    seconds_since: SecondsSince,
    done: list[Record] | None,
) -> tuple[Alert, actions.ActionContext, int]:
    """Return the alert after a rule's actions, its context, and the number of skipped actions.

    Each action sees the changes of those before it. `done` gets their records; None: they are not kept.
    """
    skipped = 0
    for action in rule.facts.actions:
        spec = ACTIONS[action["action_type"]]
        try:
            context.budget.spend(STEPS, ACTION_STEPS)
            change = spec.act(alert, action, context)
        except BudgetExceeded as exceeded:
            change = actions.Change(alert, note=exceeded.reason)
            skipped += 1
        if change.alert is not alert:
            context = _update_context(context, alert, change.alert, seconds_since)
            alert = change.alert
        if done is not None:
            done.append(build_action_record(spec.name, change))
    return alert, context, skipped


def _update_context(
    context: actions.ActionContext, before: Alert, after: Alert, seconds_since: SecondsSince
) -> actions.ActionContext:
    """Return the context after an action changed the alert. Most incident options are not in the subject."""
    is_same_entity = after.entity_id == before.entity_id
    urgency = after.options.urgency
    if is_same_entity and after.parsed is before.parsed and urgency is before.options.urgency:
        return context
    known = cast("float | None", context.subject[SECONDS_SINCE_LAST])
    since = known if is_same_entity else seconds_since(after)
    subject = update_subject(context.subject, after, get_urgency(after, context.facts), since)
    return actions.ActionContext(context.facts, subject, context.budget)


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
