"""A verdict that is kept is that of the engine, and takes the same work from the budget of the alert."""

import json
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.rules.conditions import Budget, compile_rule, engine, evaluate, subject
from pipeline.rules.conditions.budget import LIMITS, STEPS
from tests.support.conditions import trees
from tests.support.conditions.strategies import LOGIC, SUBJECTS, TREES
from tests.support.conditions.trees import group, search
from tests.support.rules import var


def judge(compiled, alert, steps):
    """Return the verdict if the alert's budget has these steps, and the steps that are left."""
    budget = Budget()
    budget.spend(STEPS, LIMITS[STEPS] - steps)
    verdict = evaluate(compiled, alert, budget)
    return verdict, budget.get_left(STEPS)


@settings(max_examples=300)
@given(st.one_of(LOGIC, TREES), st.lists(SUBJECTS, min_size=2, max_size=4), st.integers(0, 40))
@example({"==": [var("message"), "a"]}, [trees.subject(message="a")], 10)
def test_a_kept_verdict_is_that_of_the_engine(logic, alerts, steps):
    compiled = compile_rule(json.dumps(logic))

    def judge_all():
        return [judge(compiled, alert, left) for alert in alerts for left in (steps, LIMITS[STEPS])]

    with mock.patch.object(subject, "MAX_TEXTS_LENGTH", -1):
        expected = judge_all()

    assert [judge_all(), judge_all()] == [expected] * 2


@pytest.fixture
def evaluated(monkeypatch):
    """Return a list of the data that the engine evaluates from now on."""
    found, run = [], engine.is_true

    def is_true(program, data, budget):
        found.append(data)
        return run(program, data, budget)

    monkeypatch.setattr(engine, "is_true", is_true)
    return found


SEARCH = group(search("equal", "$.list[*].x", "full"))


@pytest.mark.parametrize(
    "rule", [{"==": [var("payload.host"), "db1"]}, {"in": ["disk", var("message")]}, SEARCH, {}], ids=str
)
def test_a_condition_is_evaluated_once_for_the_same_texts(evaluated, rule):
    compiled = compile_rule(json.dumps(rule))
    for number in range(3):
        alert = trees.subject(
            message="disk full", entity_id=f"e{number}", payload={"host": "db1", "list": [{"x": "full"}]}
        )
        assert evaluate(compiled, alert, Budget()).matches

    assert len(evaluated) == 1


@pytest.mark.parametrize("host", [7, True, None, ["db1"], "x" * 300, {"a": "b"}], ids=str)
def test_other_values_and_long_texts_are_evaluated_each_time(evaluated, host):
    compiled = compile_rule(json.dumps({"==": [var("payload.host"), "db2"]}))
    for _ in range(2):
        evaluate(compiled, trees.subject(payload={"host": host}), Budget())

    assert len(evaluated) == 2
