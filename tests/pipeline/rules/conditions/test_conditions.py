"""Conditions: which are accepted, which are refused and why, and what a verdict contains."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from models.domain.enums import AlertType, Urgency
from pipeline.rules.conditions import NEVER, BadRule, Budget, build_subject, compile_rule, evaluate, trace
from tests.support.conditions.trees import alert, group, rule, search, subject


def matches(condition, **changes):
    text = condition if isinstance(condition, str) else json.dumps(condition)
    return evaluate(compile_rule(text), subject(**changes), Budget()).matches


EMPTY = {
    "nothing": "",
    "blanks": " \n",
    "an empty text": '""',
    "an empty object": "{}",
    "a bare group": '{"type": "group"}',
    "no children": json.dumps(group()),
    "no children but not": json.dumps(group(negated=True)),
    "children null": '{"type": "group", "children1": null}',
    "children an empty array": '{"type": "group", "children1": []}',
    "a blank line": json.dumps(group(rule(None, None))),
}


@pytest.mark.parametrize("rule_json", EMPTY.values(), ids=EMPTY)
def test_an_empty_condition_is_always_true(rule_json):
    compiled = compile_rule(rule_json)

    assert compiled.logic is True
    assert compiled.rule_json == rule_json
    assert evaluate(compiled, subject(), Budget()).matches


def nest_lists(depth, text="1"):
    return '{"!":[' * depth + text + "]}" * depth


def nest_groups(depth):
    inner = rule("alert.message", "is_not_empty")
    for _ in range(depth - 1):
        inner = group(inner, negated=True)
    return json.dumps(inner)


VAR = '{"var": "payload.list"}'
REFUSED = {
    "not JSON": ("{", "is not JSON"),
    "python": ("{'var': 'message'}", "is not JSON"),
    "nan": ('{"<": [NaN, 1]}', "is not JSON"),
    "half a character": ('{"==": ["\\ud800", "x"]}', "is not JSON"),
    "half a character, raw": ('{"==": ["\ud800", "x"]}', "is not valid text"),
    "a list": ("[1]", "must be a JSON object"),
    "a text": ('"x"', "must be a JSON object"),
    "a truth": ("true", "must be a JSON object"),
    "null": ("null", "must be a JSON object"),
    "too large": (json.dumps({"==": ["x" * 65536, 1]}), "65536 bytes"),
    "too deep": (nest_lists(33), "nested 32 deep"),
    "far too deep": (nest_lists(8000), "nested 32 deep"),
    "too deep a list": ('{"in": [1, ' + "[" * 40 + "]" * 40 + "]}", "nested 32 deep"),
    "too many": (json.dumps({"or": [{"var": "x"}] * 1000}), "1000 operations"),
    "three iterators": (
        f'{{"some": [{VAR}, {{"all": [{VAR}, {{"none": [{VAR}, 1]}}]}}]}}',
        "may nest 2 of all, filter, map, none, reduce, some",
    ),
    "cat in reduce": (
        f'{{"reduce": [{VAR}, {{"if": [1, {{"cat": [{{"var": "accumulator"}}, "x"]}}]}}, ""]}}',
        "cat may not stand inside reduce",
    ),
    "unknown operator": ('{"and": [{"regx": [1]}]}', "unknown operator `regx` (at /and/0)"),
    "a clock": ('{"now": []}', "unknown operator `now`"),
    "two operators": ('{"==": [1, 1], "!=": [1, 1]}', "one operator"),
    "missing arguments": ('{"<": [1]}', "takes at least 2 arguments"),
    "arguments that are no list": ('{"and": true}', "takes its arguments as an array"),
    "a bad pattern": ('{"matches": [{"var": "message"}, "("]}', "cannot be used: missing )"),
    "a look-ahead": ('{"matches": [{"var": "message"}, "(?=x)"]}', "cannot be used"),
    "a reference": ('{"matches": [{"var": "message"}, "(a)\\\\1"]}', "cannot be used"),
    "a vast pattern": ('{"matches": [{"var": "message"}, "(.{900}){900}"]}', "cannot be used"),
    "a long pattern": (json.dumps({"matches": [{"var": "message"}, "x" * 1001]}), "1000 characters"),
    "a pattern that is read": ('{"matches": [1, {"var": "message"}]}', "must be written out"),
    "half a match": ('{"matches": "x"}', "takes a text and a pattern"),
    "a bad search": ('{"val": ["found", "a..b"]}', "is not a path"),
    "a bad pattern in a tree": (json.dumps(group(rule("alert.message", "regex", "["))), "cannot be used"),
    "a bad pattern for the payload": (json.dumps(search("not_regex", "a", "*")), "cannot be used"),
    "a tree too deep": (nest_groups(33), "nested 32 deep"),
    "a tree too large": (json.dumps(group(*[{"type": "group"}] * 1000)), "1000 groups and rules"),
    "too many searches": (
        json.dumps(group(*[search("equal", f"$.k{number}", "x") for number in range(101)])),
        "100 paths of the payload",
    ),
    "children of no kind": ('{"type": "group", "children1": "x"}', "children1 must be"),
    "a child of no kind": ('{"type": "group", "children1": ["x"]}', "must be an object"),
    "properties of no kind": ('{"type": "rule", "properties": []}', "properties must be an object"),
}


@pytest.mark.parametrize(("rule_json", "problem"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_condition_is_refused_with_its_problem(rule_json, problem):
    with pytest.raises(BadRule) as refused:
        compile_rule(rule_json)

    assert refused.value.field == "rule_json"
    assert problem in refused.value.problem
    assert len(refused.value.problem) < 400


ACCEPTED = {
    "deep enough": nest_lists(31),
    "a deep tree": nest_groups(32),
    "two iterators": f'{{"some": [{VAR}, {{"all": [{VAR}, 1]}}]}}',
    "iterators in a row": f'{{"some": [{{"map": [{{"filter": [{VAR}, 1]}}, 1]}}, 1]}}',
    "cat beside reduce": f'{{"==": [{{"cat": ["x"]}}, {{"reduce": [{VAR}, 1, 0]}}]}}',
    "many values": json.dumps({"in": [{"var": "message"}, [str(each) for each in range(5000)]]}),
}


@pytest.mark.parametrize("rule_json", ACCEPTED.values(), ids=ACCEPTED)
def test_a_condition_within_the_limits_is_accepted(rule_json):
    evaluate(compile_rule(rule_json), subject(), Budget())


NOT_KNOWN = {
    "field": (rule("alert.colour", "equal", "red"), "the field 'alert.colour' is not known"),
    "field of no kind": (rule(7, "equal", "red"), "the field 7 is not known"),
    "operator": (rule("alert.message", "sounds_like", "x"), "the operator 'sounds_like' of"),
    "operator of another field": (rule("alert.urgency", "like", "1"), "the operator 'like' of"),
    "ploperator": (search("near", "$.a", "x"), "the operator 'near' of"),
    "code": (rule("alert.alert_type", "select_equals", "purple"), "'purple' is not one of info, warning"),
    "time": (rule("alert.alert_time", "less", "25:00"), "is not a time of day"),
    "late": (rule("alert.alert_time", "less", 86401), "not a time of day"),
    "date": (rule("alert.alert_date", "less", "2026-02-30"), "alert_date"),
    "number": (rule("alert.seconds_since_last", "less", "soon"), "'soon' is not a number"),
    "infinity": (rule("alert.seconds_since_last", "less", "inf"), "alert.seconds_since_last"),
    "no value": (rule("alert.message", "equal"), "a value is missing"),
    "half a range": (rule("alert.alert_time", "between", "08:00"), "a value is missing"),
    "null": (rule("alert.message", "equal", None), "a value is missing"),
    "an object": (rule("alert.message", "equal", {"a": 1}), "an object is not a text"),
    "no path": (search("equal", ""), "a path is missing"),
    "bad path": (search("equal", "$..a", "x"), "is not a path"),
    "node": ({"type": "switch_group", "children1": {}}, "a node of type 'switch_group' is not known"),
    "conjunction": (group(rule("alert.message", "is_empty"), conjunction="XOR"), "conjunction 'XOR'"),
}


@pytest.mark.parametrize(("node", "note"), NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_an_unknown_element_of_a_tree_never_makes_it_match(node, note):
    """A known alternative beside it still matches."""
    for tree in (node, group(node), group(node, negated=True), group(group(node), negated=True)):
        verdict = evaluate(compile_rule(json.dumps(group(tree))), subject(), Budget())
        assert not verdict.matches
        assert verdict.note.code == "condition_unknown"
        assert note in verdict.note.parameters["parts"]

    assert matches(group(node, rule("alert.message", "like", "disk"), conjunction="OR"))


def test_a_comparison_with_another_field_is_unknown():
    node = rule("alert.message", "equal", "alert.summary")
    node["properties"]["valueSrc"] = ["field"]

    assert compile_rule(json.dumps(node)).notes == ("'alert.message': only plain values can be compared",)


TRUE, FALSE = rule("alert.message", "is_not_empty"), rule("alert.message", "is_empty")


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (group(TRUE, FALSE), False),
        (group(TRUE, TRUE), True),
        (group(TRUE, FALSE, conjunction="OR"), True),
        (group(TRUE, FALSE, negated=True), True),
        (group(TRUE, FALSE, conjunction="OR", negated=True), False),
        (group(TRUE, FALSE, conjunction="NAND"), True),
        (group(FALSE, FALSE, conjunction="NOR"), True),
        (group(TRUE, FALSE, conjunction="NOR"), False),
        (group(TRUE, conjunction="or"), True),
        (group(group(FALSE, negated=True), group(TRUE, FALSE, conjunction="OR")), True),
        (group(FALSE, group(), conjunction="OR"), True),
        (group(rule(None, None), FALSE), False),
        ({"type": "group", "children1": [TRUE, FALSE]}, False),
        ({"children1": [TRUE]}, True),
        (TRUE, True),
    ],
)
def test_a_group_combines_its_children(tree, expected):
    assert expected is matches(tree)


def test_a_verdict_has_the_values_that_were_read():
    tree = group(
        rule("alert.message", "like", "disk"),
        search("equal", "$.alerts[*].host", "db2"),
        rule("alert.alert_type", "equal", "critical"),
    )
    payload = {"alerts": [{"host": "db1"}, {"host": "db2"}], "unread": "x"}

    verdict = evaluate(compile_rule(json.dumps(tree)), subject(payload=payload), Budget())

    assert verdict.matches
    assert verdict.read == {
        "message": "Disk full on db1",
        "alert_type": "3",
        "$.alerts[*].host": ["db1", "db2"],
    }


def test_a_verdict_has_the_missing_variables():
    logic = {"and": [{"==": [{"var": "payload.a.b"}, 1]}, {"==": [{"var": "alert.payload.list.1.x"}, 1]}]}

    verdict = evaluate(compile_rule(json.dumps(logic)), subject(payload={"list": [{}, {"x": 1}]}), Budget())

    assert not verdict.matches
    assert verdict.read == {"payload.a.b": None, "payload.list.1.x": 1}


def test_a_variable_whose_name_is_computed_can_be_read():
    logic = {"==": [{"var": {"cat": ["payload.", "host"]}}, "db1"]}

    assert matches(logic, payload={"host": "db1"})


@pytest.mark.parametrize(
    "logic",
    [
        '{"<": [{"var": "message"}, 5]}',
        '{"+": [{"var": "message"}, 1]}',
        '{">": [{"var": "payload"}, 5]}',
    ],
)
def test_values_of_incomparable_types_do_not_match_and_the_note_says_so(logic):
    verdict = evaluate(compile_rule(logic), subject(), Budget())

    assert not verdict.matches
    assert verdict.note.code == "condition_failed"
    assert "types that cannot be compared" in verdict.note.parameters["error"]


def test_values_of_different_types_are_unequal_and_other_branches_still_match():
    logic = {"or": [{"==": [{"var": "message"}, 5]}, {"==": [{"var": "alert_type"}, 3]}]}

    assert matches(logic)


COSTLY = {
    "doubling a list": {"reduce": [VAR, {"merge": [{"var": "accumulator"}, {"var": "accumulator"}]}, [1]]},
    "two loops": {"all": [VAR, {"all": [{"val": [[2], "payload", "list"]}, {"var": ""}]}]},
    "long texts": {"none": [VAR, {"in": ["no", {"lower": {"val": [[2], "summary"]}}]}]},
    "patterns": {"none": [VAR, {"matches": [{"val": [[2], "summary"]}, "(\\w+\\s?){1,200}Z$"]}]},
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", COSTLY)
def test_a_condition_that_takes_too_much_work_is_stopped(kind):
    rule_json = json.dumps(COSTLY[kind]).replace(json.dumps(VAR), VAR)
    payload = {"list": list(range(1, 2_000))}

    verdict = evaluate(compile_rule(rule_json), subject(payload=payload, summary="ab " * 5_000), Budget())

    assert not verdict.matches
    # The engine limits operations; the budget of the alert limits the search by patterns.
    if kind == "patterns":
        assert (verdict.note.code, verdict.is_skipped) == ("patterns_exceeded", True)
    else:
        assert (verdict.note.code, verdict.is_skipped) == ("condition_failed", False)
        assert "too much" in verdict.note.parameters["error"]


def test_constants_that_take_too_much_work_are_stopped_at_compilation_or_evaluation():
    numbers = list(range(5_000))
    logic = {"some": [numbers, {"all": [numbers, {"!==": [{"var": ""}, 4_999]}]}]}

    assert not matches(logic)


def test_a_trace_has_a_verdict_for_each_node():
    tree = group(rule("alert.message", "like", "disk"), group(search("equal", "$.host", "db2"), negated=True))

    steps = list(trace(compile_rule(json.dumps(tree)), subject(payload={"host": "db2"}), Budget()))

    assert [(step.depth, step.verdict.matches) for step in steps] == [
        (0, False),
        (1, True),
        (1, False),
        (2, True),
        (3, True),
    ]
    assert steps[1].logic == '{"in":[{"lower":["disk"]},{"lower":[{"var":"message"}]}]}'
    assert steps[4].verdict.read == {"$.host": ["db2"]}


def test_a_trace_leaves_out_nodes_that_are_never_evaluated():
    steps = trace(compile_rule('{"!": [{"var": "payload.a"}, {"lower": []}]}'), subject(), Budget())

    assert [step.verdict.matches for step in steps] == [True, False]


def test_a_subject_has_an_alert_with_both_kinds_of_names():
    elsewhere = datetime(2026, 3, 5, 0, 30, 15, 5, tzinfo=timezone(timedelta(hours=1)))

    found = build_subject(
        alert(alert_type=AlertType.RESOLVED, payload={"a": 1}), Urgency.LOW, elsewhere, 12.5
    )

    plain = {name: value for name, value in found.items() if name != "alert"}
    assert plain == {
        "alert_type": "5",
        "urgency": "0",
        "message": "Disk full on db1",
        "summary": "97% of /var",
        "entity_id": "disk/db1",
        "payload": {"a": 1},
        "day_of_week": "3",
        "alert_time": "23:30:15",
        "alert_date": "2026-03-04",
        "seconds_since_last": 12.5,
    }
    assert found["alert"] == plain


def test_a_sunday_is_day_seven():
    sunday = datetime(2026, 3, 8, tzinfo=UTC)

    assert build_subject(alert(), Urgency.HIGH, sunday, None)["day_of_week"] == "7"
    assert build_subject(alert(), Urgency.HIGH, sunday, None)["seconds_since_last"] == NEVER
