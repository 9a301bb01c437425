"""A tree and its translation give the same verdict for any tree and any alert."""

import json

from hypothesis import given, settings

from pipeline.rules.conditions import Budget, compile_rule, evaluate
from tests.support.conditions.strategies import (
    SUBJECTS,
    TREES,
)
from tests.support.conditions.trees import matches_tree
from tests.support.scenarios.combinations import count_examples


@settings(max_examples=count_examples(500), deadline=None)
@given(TREES, SUBJECTS)
def test_a_tree_and_its_translation_agree(tree, alert):
    verdict = evaluate(compile_rule(json.dumps(tree)), alert, Budget())

    assert matches_tree(tree, alert) is verdict.matches
    assert verdict.note is None


@given(TREES, SUBJECTS)
def test_the_children_of_a_tree_can_be_an_array(tree, alert):
    def to_array(node):
        inside = node.get("children1")
        return node if inside is None else node | {"children1": [to_array(each) for each in inside.values()]}

    assert (
        matches_tree(tree, alert)
        is evaluate(compile_rule(json.dumps(to_array(tree))), alert, Budget()).matches
    )
