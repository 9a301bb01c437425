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
from tests.support.scenarios.combinations import count_examples


def judge(compiled, alert, steps):
    """Return the verdict if the alert's budget has these steps, and the steps that are left."""
    budget = Budget()
    budget.spend(STEPS, LIMITS[STEPS] - steps)
    verdict = evaluate(compiled, alert, budget)
    return verdict, budget.get_left(STEPS)


@settings(max_examples=count_examples(300))
@given(st.one_of(LOGIC, TREES), st.lists(SUBJECTS, min_size=2, max_size=4), st.integers(0, 40))
@example({"==": [var("message"), "a"]}, [trees.subject(message="a")], 10)
def test_a_kept_verdict_is_that_of_the_engine(logic, alerts, steps):
    compiled = compile_rule(json.dumps(logic))

    def judge_all():
        return [judge(compiled, alert, left) for alert in alerts for left in (steps, LIMITS[STEPS])]

    with mock.patch.object(subject, "MAX_TEXTS_LENGTH", -1):
        expected = judge_all()

    assert [judge_all(), judge_all()] == [expected] * 2


# Texts that the engine may also read as a number, a time or a duration, and parts of each other.
TEXTS = st.sampled_from(["", "a", "ab", "ba", "1", "1.0", "1d", "24h", "12:00"])
READS = st.builds(var, st.sampled_from(["message", "alert.message", "payload.host"]))
OPERATORS = st.sampled_from(["==", "===", "!=", "!==", "in", "starts_with", "ends_with"])
COMPARISONS = st.one_of(
    st.builds(lambda operator, read, text: {operator: [read, text]}, OPERATORS, READS, TEXTS),
    st.builds(lambda operator, text, read: {operator: [text, read]}, OPERATORS, TEXTS, READS),
    st.builds(lambda read, texts: {"in": [read, texts]}, READS, st.lists(TEXTS, max_size=2)),
    # Other uses of a variable.
    st.one_of(
        READS,
        st.builds(lambda read, text: {"<": [read, text]}, READS, TEXTS),
        st.builds(lambda name: {"missing": [name]}, st.sampled_from(["message", "payload.host"])),
    ),
)
TEXT_LOGIC = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(
            lambda operator, every: {operator: every},
            st.sampled_from(["and", "or", "if"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
        st.builds(lambda one: {"!": one}, inner),
    ),
    max_leaves=3,
)


@settings(max_examples=count_examples(1_000))
@given(TEXT_LOGIC, st.lists(st.tuples(TEXTS, TEXTS), min_size=4, max_size=12))
def test_a_kept_verdict_holds_for_each_text_with_the_same_comparisons(logic, alerts):
    compiled = compile_rule(json.dumps(logic))
    subjects = [trees.subject(message=message, payload={"host": host}) for message, host in alerts]
    with mock.patch.object(subject, "MAX_TEXTS_LENGTH", -1):
        expected = [judge(compiled, each, LIMITS[STEPS]) for each in subjects]

    assert [judge(compiled, each, LIMITS[STEPS]) for each in subjects] == expected


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


@pytest.mark.parametrize(
    "rule",
    [
        {"!=": [var("message"), "Test 1"]},
        {"in": ["full", var("message")]},
        {
            "and": [
                {"starts_with": [var("alert.message"), "Disk"]},
                {"!": {"ends_with": [var("message"), "empty"]}},
            ]
        },
    ],
    ids=str,
)
def test_a_condition_is_evaluated_once_for_texts_with_the_same_comparisons(evaluated, rule):
    compiled = compile_rule(json.dumps(rule))
    for number in range(3):
        assert evaluate(compiled, trees.subject(message=f"Disk {number}% full"), Budget()).matches
    assert len(evaluated) == 1

    for message in ("Test 1", "CPU 7% empty"):
        evaluate(compiled, trees.subject(message=message), Budget())
    assert len(evaluated) > 1


def test_an_alert_shows_its_own_text_beside_a_kept_verdict(evaluated):
    compiled = compile_rule(json.dumps({"in": ["full", var("message")]}))
    verdicts = [evaluate(compiled, trees.subject(message=text), Budget()) for text in ("full 1", "full 2")]

    assert [verdict.read for verdict in verdicts] == [{"message": "full 1"}, {"message": "full 2"}]


@pytest.mark.parametrize("host", [7, True, None, ["db1"], "x" * 3_000, {"a": "b"}], ids=str)
def test_other_values_and_long_texts_are_evaluated_each_time(evaluated, host):
    compiled = compile_rule(json.dumps({"==": [var("payload.host"), "db2"]}))
    for _ in range(2):
        evaluate(compiled, trees.subject(payload={"host": host}), Budget())

    assert len(evaluated) == 2
