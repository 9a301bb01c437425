"""The rules of an alert cause only limited work. What exceeds it is skipped, and the rest goes on."""

import random
from time import thread_time

import pytest

from models.domain.facts import PersonFacts
from models.domain.values import replace
from pipeline.rules.conditions.budget import (
    BUDGETS_PER_BODY,
    LIMITS,
    Budget,
    BudgetExceeded,
    Work,
    count_items,
)
from pipeline.rules.rulesets import RuleSet
from tests.support.conditions.trees import group, search
from tests.support.facts import NOON, alert, lane
from tests.support.rules import RuleAction, action, rule_facts, var

A = RuleAction
FACTS = lane()
# Without a budget, each of these took 8 to 34 s. With one, the slowest takes 0.2 s.
MAX_CPU_S = 2

LIST = {"list": [0] * 240_000}
MANY_PLACEHOLDERS = "{{payload.list[*].x}}" * 200
SLOW_TEXT = {"text": "".join(random.Random(1).choices("ax", k=350_000))}
TAGS = "{{payload.list[*]}}"


def match(number):
    return {"matches": [var("payload.text"), f"[ax]*a[ax]{{90}}b{number}"]}


def read(number):
    return group(search("equal", f"$.list[*].x{number}", "v"))


NOTE = action(A.ADD_NOTE, "matched")
ATTACKS = {
    "templates over a list": (
        [
            rule_facts(
                action(A.CHANGE_SUMMARY, MANY_PLACEHOLDERS), action(A.CHANGE_MESSAGE, MANY_PLACEHOLDERS)
            )
        ],
        LIST,
    ),
    "patterns": ([rule_facts(NOTE, when=match(number)) for number in range(40)], SLOW_TEXT),
    "searches": ([rule_facts(NOTE, when=read(number)) for number in range(100)], LIST),
    "whole payload in texts": ([rule_facts(*[action(A.CHANGE_SUMMARY, "{{payload}}")] * 30)] * 20, LIST),
    "each item in texts": ([rule_facts(*[action(A.CHANGE_SUMMARY, TAGS)] * 30)] * 20, LIST),
    "iterators": (
        [rule_facts(NOTE, when={"some": [var("payload.list"), {"==": [var(""), 1]}]}) for _ in range(1_000)],
        LIST,
    ),
}


def apply_rules(rules, budget=None, **fields):
    return RuleSet(rules).apply(alert(**fields), FACTS, NOON, lambda _: None, budget)


@pytest.mark.parametrize("attack", ATTACKS)
def test_costly_rules_take_little_time_and_the_rest_is_skipped(attack):
    rules, payload = ATTACKS[attack]
    ruleset = RuleSet(rules)
    one = alert(payload=payload)

    started = thread_time()
    result = ruleset.apply(one, FACTS, NOON, lambda _: None)

    assert thread_time() - started < MAX_CPU_S
    assert result.skipped > 0


def test_a_costly_pattern_is_skipped_with_a_reason_and_other_rules_act():
    cheap = rule_facts(action(A.CHANGE_MESSAGE, "changed"), when={"==": [var("message"), "Disk full"]})

    result = apply_rules([rule_facts(NOTE, when=match(1)), cheap], payload=SLOW_TEXT)

    assert (result.alert.message, result.alert.options.notes, result.skipped) == ("changed", (), 1)
    assert result.records[0]["note"].code == "patterns_exceeded"


def test_a_costly_action_is_skipped_with_a_reason_and_the_actions_before_it_count():
    costly = action(A.CHANGE_SUMMARY, MANY_PLACEHOLDERS)

    result = apply_rules([rule_facts(NOTE, costly)], payload=LIST)

    assert result.alert.options.notes == ("matched",)
    assert result.records[0]["actions"][1]["note"].code == "steps_exceeded"


def test_too_much_text_of_templates_is_skipped():
    long = action(A.CHANGE_SUMMARY, "{{payload.text}}")
    count = LIMITS[Work.WRITTEN] // 30_000

    result = apply_rules([rule_facts(*[long] * 2 * count)], payload={"text": "x" * 40_000})

    assert count // 2 < result.skipped < 2 * count
    assert result.records[0]["actions"][-1]["note"].code == "templates_exceeded"


def test_a_thousand_ordinary_rules_are_not_skipped():
    rules = [
        rule_facts(
            NOTE if number % 10 else action(A.CHANGE_MESSAGE, "{{message}} of {{payload.labels.job}}"),
            when={
                "and": [
                    {"matches": [var("message"), f"db-{number}|disk.*full|(?i)out of memory"]},
                    {"in": ["prod", var("payload.labels.cluster")]},
                ]
            }
            if number < 500
            else group(search("equal", "$.alerts[*].labels.job", str(number))),
        )
        for number in range(1_000)
    ]
    payload = {
        "labels": {"job": "node", "cluster": "prod-eu"},
        "alerts": [{"labels": {"job": str(number)}} for number in range(10)],
    }

    result = apply_rules(rules, message="Disk full on db-7" * 10, payload=payload)

    assert result.skipped == 0


def test_a_long_text_can_be_searched_by_many_simple_patterns():
    rules = [
        rule_facts(NOTE, when={"matches": [var("payload.text"), f"error {number}"]}) for number in range(50)
    ]

    assert apply_rules(rules, payload=SLOW_TEXT).skipped == 0


@pytest.mark.parametrize("size", [1, BUDGETS_PER_BODY])
def test_the_alerts_of_a_small_body_have_a_full_budget_each(size):
    assert Budget(size).get_left(Work.STEPS) == LIMITS[Work.STEPS]


def test_the_alerts_of_a_large_body_share_budgets():
    assert Budget(BUDGETS_PER_BODY * 10).get_left(Work.STEPS) == LIMITS[Work.STEPS] // 10
    assert Budget(40_000).get_left(Work.STEPS) == Budget(10_000).get_left(Work.STEPS) > 0


def test_a_share_is_enough_for_ordinary_rules():
    rules = [rule_facts(NOTE, when={"==": [var("message"), f"m{number % 3}"]}) for number in range(30)]
    rules += [rule_facts(action(A.CHANGE_MESSAGE, "{{message}} on {{entity_id}}"))] * 10

    assert apply_rules(rules, Budget(40_000)).skipped == 0


def test_if_the_index_takes_too_much_work_every_rule_is_skipped_with_a_reason():
    searches = [rule_facts(NOTE, when=read(number)) for number in range(3)]

    result = apply_rules([*searches, rule_facts(NOTE)], payload=LIST)

    assert (result.skipped, result.matched) == (4, 0)
    assert {record["note"].code for record in result.records} == {"steps_exceeded"}


def test_actions_that_add_thousands_of_responders_are_limited():
    """Each action copies the responders of those before it."""
    people = {f"user-{number}": PersonFacts(number, f"user-{number}", "A") for number in range(4_000)}
    facts = replace(lane(), config=replace(lane().config, people=people))
    rules = [rule_facts(*(action(A.ADD_RESPONDER, name) for name in people))]

    result = RuleSet(rules).apply(alert(), facts, NOON, lambda _: None)

    assert 1_000 < len(result.alert.options.responders) < 2_000
    assert result.skipped == 4_000 - len(result.alert.options.responders)


def test_the_budget_of_a_kind_is_empty_once_it_was_exceeded():
    budget = Budget()

    with pytest.raises(BudgetExceeded):
        budget.spend(Work.STEPS, LIMITS[Work.STEPS] + 1)
    with pytest.raises(BudgetExceeded):
        budget.spend(Work.STEPS, 1)

    budget.spend(Work.WRITTEN, 1)


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("a", 1),
        ("a" * 1_000, 3),
        (7, 1),
        ([], 1),
        ([1, 2], 3),
        ([1, [2, "a"], {}], 6),
        ({"a": {"b": [1, 2]}, "c": None}, 6),
    ],
)
def test_the_items_of_a_value_are_counted_at_all_levels(value, items):
    assert count_items(value, 100) == items


def test_items_are_counted_until_the_limit():
    assert count_items([[0] * 50, [0] * 50], 30) in range(31, 103)
