"""The shared JSON Logic test suite, run with our module. `.ci/jsonlogic_suite.py` downloads it."""

import json
from pathlib import Path

import pytest

from pipeline.rules.conditions import BadRule, Budget, compile_rule, engine, evaluate
from tests.support.requirements import skip_or_fail

SUITE = Path(__file__).parents[4] / "build" / "jsonlogic" / "compatible.json"


@pytest.fixture(scope="module")
def suite():
    if not SUITE.exists():
        skip_or_fail("the shared suite is not here: run .ci/jsonlogic_suite.py")
    return [case for case in json.loads(SUITE.read_text()) if isinstance(case, dict)]


def test_every_case_of_the_suite_has_its_value(suite):
    found = [
        engine.run(engine.compile_logic(case["rule"]), json.dumps(case.get("data")), Budget())
        for case in suite
    ]

    assert len(suite) == 278
    assert [case["result"] for case in suite] == [json.loads(value) for value in found]


def is_truthy(value):
    """Return whether JSON Logic takes a value as true: all except 0, "", null, false and the empty array."""
    return value != [] and (isinstance(value, dict) or bool(value))


def test_every_condition_of_the_suite_has_its_verdict(suite):
    """The data take the place of an alert. The guards refuse none of these conditions."""
    refused = []
    for case in suite:
        data = case.get("data")
        if not isinstance(case["rule"], dict) or not isinstance(data, dict | None):
            continue
        try:
            compiled = compile_rule(json.dumps(case["rule"]))
        except BadRule as bad:
            refused.append(bad.problem)
            continue
        verdict = evaluate(compiled, data or {}, Budget())
        assert verdict.matches is (compiled.logic is True or is_truthy(case["result"])), case["description"]

    assert refused == []
