"""Any rule_json is compiled or refused within a short time, and then gives a verdict."""

import json
from time import thread_time

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rules.conditions import BadRule, Budget, Index, compile_rule, evaluate, trace
from tests.support.conditions.strategies import (
    JSON,
    TREE_LIKE,
)
from tests.support.conditions.trees import subject
from tests.support.scenarios.combinations import count_examples

# Much longer than any example takes, and much shorter than a delay that would block a worker. It is CPU time,
# which does not pass while the machine does something else.
MAX_CPU_S = 2.0

ALERT = subject(payload={"list": [{"x": n, "text": "ab" * n} for n in range(200)], "a": {"b": "c"}})


def evaluate_or_refuse(rule_json):
    started = thread_time()
    _evaluate_or_refuse(rule_json)
    assert thread_time() - started < MAX_CPU_S


def _evaluate_or_refuse(rule_json):
    try:
        compiled = compile_rule(rule_json)
    except BadRule:
        return
    assert compiled.rule_json == rule_json
    first_verdict = evaluate(compiled, ALERT, Budget())
    second_verdict, *_ = trace(compiled, ALERT, Budget())
    assert second_verdict.verdict.matches is first_verdict.matches
    if first_verdict.matches:
        assert Index([compiled]).find_candidates(ALERT, Budget()) == [0]


@settings(max_examples=count_examples(400), deadline=None)
@given(JSON)
def test_any_json_logic_is_compiled_or_refused(value):
    evaluate_or_refuse(json.dumps(value))


@settings(max_examples=count_examples(400), deadline=None)
@given(TREE_LIKE)
def test_any_tree_is_compiled_or_refused(value):
    evaluate_or_refuse(json.dumps({"type": "group", "children1": [value]}))
    evaluate_or_refuse(json.dumps(value))


@settings(max_examples=count_examples(200), deadline=None)
@given(st.one_of(st.text(), st.text(alphabet='[]{}":,var!0 \\', max_size=200)))
def test_any_text_is_compiled_or_refused(text):
    evaluate_or_refuse(text)


@settings(max_examples=count_examples(50), deadline=None)
@given(st.sampled_from(['{"!":[', "[", '{"a":', '{"type":"group","children1":[']), st.integers(1, 10_000))
def test_any_depth_is_compiled_or_refused(opening, depth):
    closing = opening.replace("[", "]").replace("{", "}")
    evaluate_or_refuse(opening * depth + "1" + "".join(c for c in reversed(closing) if c in "]}") * depth)
