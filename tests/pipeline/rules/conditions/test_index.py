"""The index finds the same conditions as an evaluation of each, in the same order."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rules.conditions import Budget, Index, compile_rule, evaluate
from pipeline.rules.conditions.equalities import find_required_equalities
from tests.support.conditions.strategies import (
    LOGIC,
    PAYLOADS,
    SUBJECTS,
    TREES,
)
from tests.support.conditions.trees import group, rule, search, subject
from tests.support.scenarios.combinations import count_examples


def list_by_scan(rules, alert):
    return [position for position, each in enumerate(rules) if evaluate(each, alert, Budget()).matches]


def list_by_index(rules, alert):
    return [
        each
        for each in Index(rules).find_candidates(alert, Budget())
        if evaluate(rules[each], alert, Budget()).matches
    ]


RULES = st.lists(st.one_of(TREES, LOGIC, st.just({})), max_size=12)


@settings(max_examples=count_examples(300), deadline=None)
@given(RULES, SUBJECTS)
def test_the_index_finds_the_same_matches_in_the_same_order(rules, alert):
    compiled = [compile_rule(json.dumps(each)) for each in rules]

    assert list_by_scan(compiled, alert) == list_by_index(compiled, alert)


@settings(max_examples=count_examples(300), deadline=None)
@given(LOGIC, SUBJECTS)
def test_the_picked_variables_give_the_same_verdict_as_the_whole_subject(logic, alert):
    """Also with a variable whose name is computed, for which the engine gets the whole subject."""
    everything = {"or": [logic, {"!==": [{"var": {"cat": ["mess", "age"]}}, alert["message"]]}]}

    picked, full_rule = (compile_rule(json.dumps(each)) for each in (logic, everything))

    assert evaluate(full_rule, alert, Budget()).matches is evaluate(picked, alert, Budget()).matches


@given(PAYLOADS)
def test_a_missing_variable_stays_missing_and_null_stays_present(payload):
    logic = {"!": [{"missing": ["payload.a", "payload.none"]}]}

    verdict = evaluate(compile_rule(json.dumps(logic)), subject(payload=payload), Budget())

    assert verdict.matches is ({"a", "none"} <= set(payload))


def test_only_rules_that_name_the_value_are_candidates():
    names = [f"service-{number}" for number in range(2_000)]
    rules = [
        compile_rule(json.dumps(each))
        for name in names
        for each in (
            {"and": [{"==": [{"var": "payload.name"}, name]}, {"==": [{"var": "alert_type"}, "critical"]}]},
            group(rule("alert.alert_type", "equal", "3"), search("equal", "$.name", name)),
        )
    ]
    anything = compile_rule("")

    index = Index([*rules, anything])

    assert index.find_candidates(subject(payload={"name": "service-700"}), Budget()) == [1400, 1401, 4000]
    assert index.find_candidates(subject(payload={"name": 7}), Budget()) == [4000]
    assert index.find_candidates(subject(), Budget()) == [4000]


@pytest.mark.parametrize(
    ("logic", "demands"),
    [
        ({"===": [{"var": "message"}, "a"]}, {("message",): {"a"}}),
        ({"==": ["a", {"var": "alert.message"}]}, {("message",): {"a"}}),
        ({"==": [{"var": "alert_type"}, "critical"]}, {("alert_type",): {"3"}}),
        ({"in": [{"var": "message"}, ["a", "b"]]}, {("message",): {"a", "b"}}),
        (
            {"or": [{"==": [{"var": "message"}, "a"]}, {"==": [{"var": "message"}, "b"]}]},
            {("message",): {"a", "b"}},
        ),
        ({"or": [{"==": [{"var": "message"}, "a"]}, {"==": [{"var": "summary"}, "b"]}]}, {}),
        # Each of these can be read as a number, a duration or null.
        ({"==": [{"var": "message"}, "24h"]}, {}),
        ({"in": [{"var": "message"}, ["a", "1d"]]}, {}),
        ({"===": [{"var": "message"}, "24h"]}, {}),
        (group(search("equal", "$.after", "1d")), {}),
        ({"==": [{"var": "message"}, ""]}, {}),
        ({"===": [{"var": "message"}, "10.0.0.1"]}, {("message",): {"10.0.0.1"}}),
        ({"==": [{"var": ["payload.a", "x"]}, "x"]}, {}),
        ({"!": [{"===": [{"var": "message"}, "a"]}]}, {}),
    ],
)
def test_required_equalities_are_found(logic, demands):
    found = find_required_equalities(compile_rule(json.dumps(logic)).logic)

    assert demands == {each.variable: set(each.texts) for each in found}
