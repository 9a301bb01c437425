"""Alert rules act in order, each on the alert as the earlier rules left it, and record what they read."""

import json
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.domain.enums import AlertType, RuleType, Urgency
from models.domain.reasons import from_json, make_reason
from models.domain.values import replace
from models.reports.alert_trace import show_rule
from models.store.fields import JsonField
from pipeline.rules import rulesets
from pipeline.rules.conditions.budget import LIMITS, Budget, Work
from pipeline.rules.records import MAX_RECORDS, MAX_SHOWN_LENGTH
from pipeline.rules.rulesets import RuleSet
from tests.support.conditions.strategies import LOGIC
from tests.support.conditions.trees import group, search
from tests.support.facts import NOON, alert, lane
from tests.support.rules import RuleAction, action, equals, rule_facts, var
from tests.support.scenarios.combinations import count_examples

A = RuleAction
FACTS = lane()


def change_message(text):
    return action(A.CHANGE_MESSAGE, text)


def last_seen_never(_):
    return None


def apply_rules(*rules, to=None, since=last_seen_never):
    return RuleSet(rules).apply(to or alert(), FACTS, NOON, since)


def test_all_matching_rules_act_in_order_and_the_last_change_counts():
    ruled = apply_rules(
        rule_facts(change_message("one"), action(A.CHANGE_URGENCY, "0")),
        rule_facts(change_message("none"), when=equals("entity_id", "other")),
        rule_facts(change_message("two")),
    )

    assert (ruled.alert.message, ruled.alert.options.urgency) == ("two", Urgency.LOW)
    assert ruled.matched == 2


def test_no_rule_acts_after_a_matching_rule_that_stops():
    ruled = apply_rules(
        rule_facts(change_message("one"), when={"!=": [var("message"), "Disk full"]}, stop=True),
        rule_facts(change_message("two"), stop=True),
        rule_facts(change_message("three")),
    )

    assert (ruled.alert.message, ruled.matched) == ("two", 1)
    assert [record.get("stop") for record in ruled.records] == [None, True]


CHANGES = [
    (action(A.CHANGE_ALERT_TYPE, "warning"), equals("alert_type", "1")),
    (change_message("changed"), equals("message", "changed")),
    (action(A.CHANGE_SUMMARY, "changed"), equals("alert.summary", "changed")),
    (action(A.CHANGE_ENTITY_ID, "changed"), equals("entity_id", "changed")),
    (action(A.CHANGE_URGENCY, "0"), equals("urgency", "0")),
]


@pytest.mark.parametrize(
    ("change", "when"), CHANGES, ids=[RuleAction(c["action_type"]).name for c, _ in CHANGES]
)
def test_a_rule_sees_the_changes_of_earlier_rules_only(change, when):
    seen = rule_facts(action(A.ADD_NOTE, "seen"), when=when)

    assert apply_rules(rule_facts(change), seen).alert.options.notes == ("seen",)
    assert apply_rules(seen, rule_facts(change)).alert.options.notes == ()


def test_an_action_sees_the_changes_of_earlier_actions_of_its_rule():
    ruled = apply_rules(rule_facts(change_message("{{message}}!"), action(A.ADD_NOTE, "it says {{message}}")))

    assert ruled.alert.options.notes == ("it says Disk full!",)


def test_seconds_since_last_are_those_of_the_entity_id_set_by_an_earlier_rule():
    """Contract 4.2: the similar incident is the last one with the same entity_id."""
    recent = rule_facts(action(A.SUPPRESS), when={"<": [var("seconds_since_last"), 600]})
    ago = {"db1": None, "rack": 30.0}

    ruled = apply_rules(
        rule_facts(action(A.CHANGE_ENTITY_ID, "rack")), recent, since=lambda one: ago[one.entity_id]
    )

    assert ruled.alert.suppressed


def test_an_alert_without_a_similar_incident_is_recorded_as_never():
    rule = rule_facts(when={">": [var("seconds_since_last"), 10**9]})

    (record,) = apply_rules(rule).records

    assert (record["matches"], record["read"]) == (True, {"seconds_since_last": "never"})


INVALID_RULES = [
    rule_facts(action(A.SUPPRESS), when='{"no such operator": []}', name="bad"),
    rule_facts(action(A.SUPPRESS), when="{nonsense", name="bad"),
]


@pytest.mark.parametrize("bad", INVALID_RULES, ids=["unknown operator", "not JSON"])
def test_a_rule_that_cannot_be_read_never_matches_and_its_record_says_so(bad):
    ruled = apply_rules(
        rule_facts(change_message("one"), name="first"), bad, rule_facts(change_message("two"), name="last")
    )

    assert (ruled.alert.suppressed, ruled.alert.message) == (False, "two")
    assert [record["rule"] for record in ruled.records] == ["first", "bad", "last"]
    assert ruled.records[1]["note"].code == "rule_unreadable"


def build_condition(kind, pattern, field="", position=1):
    return {
        "unique_id": "c",
        "alert_condition_type": kind,
        "alert_field": field,
        "pattern": pattern,
        "position": position,
    }


CRITICAL, WARNING = build_condition(1, "critical"), build_condition(1, "1")
ON_DB1, ON_WEB = build_condition(2, "^db[0-9]$", "host"), build_condition(2, "web", "$.host", 2)


@pytest.mark.parametrize(
    ("kind", "conditions", "when", "matches"),
    [
        (RuleType.ALL, (), "", True),
        (RuleType.ANY, (), "", True),
        (RuleType.ALL, (CRITICAL, ON_DB1), "", True),
        (RuleType.ALL, (CRITICAL, ON_WEB), "", False),
        (RuleType.ANY, (CRITICAL, ON_WEB), "", True),
        (RuleType.ANY, (WARNING, ON_WEB), "", False),
        (RuleType.ALL, (CRITICAL,), equals("message", "Disk full"), True),
        (RuleType.ANY, (CRITICAL,), equals("message", "other"), False),
        (RuleType.ANY, (WARNING,), equals("message", "Disk full"), False),
        (RuleType.ALL, (build_condition(1, "loud"),), "", False),
    ],
)
def test_conditions_are_combined_by_the_rule_type_and_rule_json_must_hold_too(
    kind, conditions, when, matches
):
    rule = rule_facts(when=when, rule_type=kind, conditions=conditions)

    assert bool(apply_rules(rule, to=alert(payload={"host": "db1"})).matched) is matches


def test_records_are_truncated_and_matches_are_kept_before_others():
    long = alert(payload={"x": "y" * 10_000, "list": [1, "z" * 1000], "flag": True, "none": None})
    reads = {"and": [var(f"payload.{name}") for name in ("x", "list", "flag")]}
    unmatched = [rule_facts(when={"!": [var("payload.flag")]}, name=f"{n}") for n in range(MAX_RECORDS + 10)]

    ruled = apply_rules(*unmatched, rule_facts(when=reads, name="match"), to=long)

    assert len(ruled.records) == MAX_RECORDS + 1
    assert ruled.records[-1] == {"more": 11}
    match = ruled.records[-2]
    assert (match["rule"], match["matches"]) == ("match", True)
    assert match["read"] == {
        "payload.flag": True,
        "payload.list": '[1,"' + "z" * (MAX_SHOWN_LENGTH - 4) + "...",
        "payload.x": "y" * MAX_SHOWN_LENGTH + "...",
    }


def test_each_action_is_recorded_with_its_change_or_the_reason_for_none():
    acts = (action(A.CHANGE_ALERT_TYPE, "error"), action(A.ASSIGN_SCHEDULE, "x"), change_message("m" * 900))
    (record,) = apply_rules(rule_facts(*acts, name="Errors")).records

    assert record["description"] == "Errors"
    assert record["actions"] == [
        {"action": "change_alert_type", "from": "critical", "to": "error"},
        {"action": "assign_schedule", "note": make_reason("no_such_thing", noun="schedule")},
        {"action": "change_message", "from": "Disk full", "to": "m" * MAX_SHOWN_LENGTH + "..."},
    ]


def test_a_rule_set_reads_past_incidents_if_any_of_its_rules_does():
    since, plain = rule_facts(when={"<": [var("alert.seconds_since_last"), 5]}), rule_facts()

    assert RuleSet([plain, since]).reads_past_incidents
    assert not RuleSet([plain]).reads_past_incidents
    assert not RuleSet([]).reads_past_incidents


CHANGING = st.sampled_from(
    [
        change_message("a"),
        change_message("{{message}}b"),
        action(A.CHANGE_ENTITY_ID, "a"),
        action(A.CHANGE_ENTITY_ID, ""),
        action(A.HASH_ENTITY_ID),
        action(A.CHANGE_ALERT_TYPE, "info"),
        action(A.CHANGE_ALERT_TYPE, "nonsense"),
        action(A.CHANGE_URGENCY, "0"),
        action(A.SUPPRESS),
        action(A.ADD_NOTE, "{{entity_id}}"),
    ]
)
RULES = st.lists(
    st.builds(
        lambda logic, acts, stop: rule_facts(*acts, when=json.dumps(logic), stop=stop),
        st.one_of(LOGIC, st.just({})),
        st.lists(CHANGING, max_size=3),
        st.booleans(),
    ),
    max_size=8,
)
ALERTS = st.builds(
    lambda level, text, entity, payload: alert(level, entity, message=text, payload=payload),
    st.sampled_from(AlertType),
    st.sampled_from(["a", "3", "ab", "24h"]),
    st.sampled_from(["a", "b", "05"]),
    st.sampled_from([{}, {"a": "a"}, {"a": {"b": "info"}}, {"list": [{"x": "a"}]}]),
)


class UnindexedRules:
    """An index that offers every rule."""

    def __init__(self, conditions):
        self._all = list(range(len(conditions)))

    def is_changed(self, before, after):
        return False

    def find_candidates(self, subject, budget):
        return self._all


@settings(max_examples=count_examples(200), deadline=None)
@given(RULES, ALERTS)
def test_rules_give_the_same_result_with_and_without_the_index(rules, one):
    indexed = apply_rules(*rules, to=one)
    with mock.patch.object(rulesets, "Index", UnindexedRules):
        scanned = apply_rules(*rules, to=one)

    assert (indexed.alert, indexed.matched) == (scanned.alert, scanned.matched)
    assert [r for r in scanned.records if r["matches"]] == [r for r in indexed.records if r["matches"]]


INDEXED_RULES = st.lists(
    st.builds(
        lambda when, acts: rule_facts(*acts, when=when),
        st.sampled_from(
            [
                equals("message", "a"),
                equals("entity_id", "a"),
                equals("urgency", "low"),
                {"in": ["b", var("message")]},
                group(search("equal", "$.list[*].x", "a")),
                "",
            ]
        ),
        st.lists(CHANGING, max_size=2),
    ),
    max_size=8,
)


@settings(max_examples=count_examples(200), deadline=None)
@given(INDEXED_RULES, st.integers(1, 10), ALERTS, st.sampled_from([LIMITS[Work.STEPS], 300, 1_000, 5_000]))
def test_rules_give_the_same_result_and_work_if_each_match_searches_the_index_again(rules, times, one, steps):
    def apply_with_budget():
        budget = Budget()
        budget.spend(Work.STEPS, LIMITS[Work.STEPS] - steps)
        result = RuleSet(rules * times).apply(one, FACTS, NOON, last_seen_never, budget)
        return result, [budget.get_left(kind) for kind in Work]

    result = apply_with_budget()
    with mock.patch.object(rulesets.Index, "is_changed", return_value=True):
        assert apply_with_budget() == result


@settings(max_examples=count_examples(100), deadline=None)
@given(RULES, ALERTS)
def test_records_of_rules_can_be_stored_as_json(rules, one):
    records = [dict(record) for record in apply_rules(*rules, to=one).records]

    assert [restore(record) for record in store(records)] == records


def store(records):
    """Return records as they are read after they were stored."""
    field = JsonField()
    return field.python_value(field.db_value(records))


def restore(record):
    """Return a stored record with its notes as reasons."""
    notes = {"note": from_json(record["note"])} if "note" in record else {}
    actions = {"actions": [restore(each) for each in record["actions"]]} if "actions" in record else {}
    return {**record, **notes, **actions}


def test_a_record_is_shown_with_texts_before_and_after_it_is_stored():
    unknown = rule_facts(action(A.ASSIGN_SCHEDULE, "x"), name="unknown")
    records = apply_rules(INVALID_RULES[0], unknown).records
    shown = [show_rule(record) for record in records]

    assert [show_rule(record) for record in store(records)] == shown
    assert shown[0]["note"].startswith("The rule cannot be read: rule_json: ")
    assert shown[1]["actions"][0]["note"] == "No effect: the schedule does not exist."


def test_a_note_on_many_unknown_parts_is_truncated():
    parts = [
        {"type": "rule", "properties": {"field": f"field{number}", "operator": "equal", "value": ["x"]}}
        for number in range(100)
    ]

    (record,) = apply_rules(rule_facts(when={"type": "group", "children1": parts})).records

    assert record["note"].code == "condition_unknown"
    assert (
        record["note"].parameters["parts"].startswith("the field 'field0' is not known; the field 'field1'")
    )
    assert len(record["note"].parameters["parts"]) == MAX_SHOWN_LENGTH + len("...")


def test_rules_do_not_change_the_origin_and_time_of_an_alert():
    acts = (
        change_message("x"),
        action(A.CHANGE_ENTITY_ID, ""),
        action(A.SUPPRESS),
        action(A.DELAY_NOTIFICATIONS, "5"),
    )
    before = alert()
    after = apply_rules(rule_facts(*acts)).alert

    assert replace(after, parsed=before.parsed, entity_id=before.entity_id, options=before.options) == before
