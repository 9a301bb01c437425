"""What each action of an alert rule changes in an alert, and what its record says."""

import hashlib
import itertools

import pytest

from models.domain.enums import AlertType, Urgency
from models.domain.facts import PolicyFacts, Reference, ReferenceMap, References
from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline.alert import get_urgency
from pipeline.rules import actions
from pipeline.rules.action_table import ACTIONS
from pipeline.rules.actions import ActionContext
from pipeline.rules.conditions import Budget, build_subject
from tests.support.facts import ALICE, BOB, NOON, alert, build_config, lane
from tests.support.offenders import list_offenders
from tests.support.rules import RuleAction, action

FULL_CONFIG = replace(
    build_config((0, "alice")),
    policies={
        1: PolicyFacts(1, "policy-1", "Default", (), 0, True),
        2: PolicyFacts(2, "policy-2", "Database", (), 0, True),
    },
)
REFERENCES = References(
    policies=ReferenceMap({"policy-1": Reference(1, "Default"), "policy-2": Reference(2, "Database")}),
    slas=ReferenceMap({"sla-1": Reference(11, "Gold"), "sla-2": Reference(12, "Silver")}),
    priorities=ReferenceMap({"priority-1": Reference(21, "P1"), "priority-2": Reference(22, "P2")}),
    tags=ReferenceMap({"tag-1": Reference(31, "Disk"), "tag-2": Reference(32, "Night")}),
    roles=ReferenceMap({"role-1": Reference(41, "Commander"), "role-2": Reference(42, "Scribe")}),
    task_templates=ReferenceMap({"template-1": Reference(51, "Outage")}),
    schedules=ReferenceMap({"schedule-1": Reference(61, "Nights")}),
)
FACTS = replace(lane(FULL_CONFIG, sla=12, team_priority=22), references=REFERENCES)
DISK = alert(summary="97% of /var", payload={"host": "db1", "tags": ["disk", "NIGHT", "?"], "nothing": None})


def run_action(kind, value="", *, target_alert=DISK, **fields):
    subject = build_subject(target_alert, get_urgency(target_alert, FACTS), NOON, None)
    context = ActionContext(FACTS, subject, Budget())
    return ACTIONS[kind].act(target_alert, action(kind, value, **fields), context)


A = RuleAction

EFFECTS = [
    (
        A.CHANGE_ALERT_TYPE,
        {"value": "5"},
        DISK.with_changes(alert_type=AlertType.RESOLVED),
        "critical",
        "resolved",
    ),
    (
        A.CHANGE_ALERT_TYPE,
        {"value": "Warning"},
        DISK.with_changes(alert_type=AlertType.WARNING),
        "critical",
        "warning",
    ),
    (A.ADD_NOTE, {"value": "see {{payload.host}}"}, DISK.with_options(notes=("see db1",)), None, "see db1"),
    (A.SUPPRESS, {}, DISK.with_changes(suppressed=True), "not suppressed", "suppressed"),
    (
        A.ROUTE_TO_ESCALATION_POLICY,
        {"escalation_policy": "policy-2"},
        DISK.with_options(escalation_policy=2),
        "Default",
        "Database",
    ),
    (
        A.ROUTE_TO_ESCALATION_POLICY,
        {"value": "policy-2"},
        DISK.with_options(escalation_policy=2),
        "Default",
        "Database",
    ),
    (A.ASSIGN_USER, {"assign_to": "bob"}, DISK.with_options(assigned_to="bob"), None, "Bob"),
    (A.ASSIGN_USER, {"value": "bob"}, DISK.with_options(assigned_to="bob"), None, "Bob"),
    (A.CHANGE_URGENCY, {"value": "0"}, DISK.with_options(urgency=Urgency.LOW), "high", "low"),
    (A.CHANGE_URGENCY, {"value": "low"}, DISK.with_options(urgency=Urgency.LOW), "high", "low"),
    (
        A.CHANGE_MESSAGE,
        {"value": "{{message}} on\n{{payload.host}}"},
        DISK.with_changes(message="Disk full on db1"),
        "Disk full",
        "Disk full on db1",
    ),
    (
        A.CHANGE_SUMMARY,
        {"value": "{{ summary }}!\nLook"},
        DISK.with_changes(summary="97% of /var!\nLook"),
        "97% of /var",
        "97% of /var!\nLook",
    ),
    (A.CHANGE_SUMMARY, {"value": ""}, DISK.with_changes(summary=""), "97% of /var", ""),
    (
        A.CHANGE_ENTITY_ID,
        {"value": "{{payload.host}}/{{entity_id}}"},
        DISK.with_changes(entity_id="db1/db1"),
        "db1",
        "db1/db1",
    ),
    (A.ADD_TAGS, {"value": "tag-1, tag-2"}, DISK.with_options(tags=(31, 32)), None, "Disk, Night"),
    (A.ASSIGN_SLA, {"sla": "sla-1"}, DISK.with_options(sla=11), "Silver", "Gold"),
    (A.ASSIGN_SLA, {"value": "sla-1"}, DISK.with_options(sla=11), "Silver", "Gold"),
    (A.ASSIGN_PRIORITY, {"team_priority": "priority-1"}, DISK.with_options(team_priority=21), "P2", "P1"),
    (A.ASSIGN_PRIORITY, {"value": " priority-1 "}, DISK.with_options(team_priority=21), "P2", "P1"),
    (
        A.HASH_ENTITY_ID,
        {},
        DISK.with_changes(entity_id=hashlib.sha256(b"db1").hexdigest()),
        "db1",
        hashlib.sha256(b"db1").hexdigest(),
    ),
    (
        A.ASSIGN_ROLE,
        {"key": "Role-1 ", "value": "bob"},
        DISK.with_options(roles=((41, "bob"),)),
        None,
        "Commander: Bob",
    ),
    (
        A.CREATE_TASK,
        {"value": "Look at {{payload.host}}"},
        DISK.with_options(tasks=("Look at db1",)),
        None,
        "Look at db1",
    ),
    (
        A.APPLY_TASK_TEMPLATE,
        {"task_template": "template-1"},
        DISK.with_options(task_templates=(51,)),
        None,
        "Outage",
    ),
    (A.ADD_RESPONDER, {"value": "BOB"}, DISK.with_options(responders=("bob",)), None, "Bob"),
    (A.ADD_RESPONDER, {"value": "policy-2"}, DISK.with_options(responder_policies=(2,)), None, "Database"),
    (A.DELAY_NOTIFICATIONS, {"value": " 300 "}, DISK.with_options(delay_s=300), "0 s", "300 s"),
]


@pytest.mark.parametrize(
    ("kind", "outcome", "expected", "before", "after"), EFFECTS, ids=[f"{e[0].name} {e[1]}" for e in EFFECTS]
)
def test_an_action_changes_the_alert_and_returns_the_values_before_and_after(
    kind, outcome, expected, before, after
):
    change = run_action(kind, **outcome)

    assert (change.alert, change.before, change.after, change.note) == (expected, before, after, None)


MISSING = [
    (A.ROUTE_TO_ESCALATION_POLICY, "escalation policy"),
    (A.ASSIGN_SCHEDULE, "schedule"),
    (A.ASSIGN_USER, "user"),
    (A.ASSIGN_ROLE, "incident role"),
    (A.ASSIGN_SLA, "SLA"),
    (A.ASSIGN_PRIORITY, "priority"),
    (A.APPLY_TASK_TEMPLATE, "task template"),
    (A.ADD_RESPONDER, "user, escalation policy or schedule"),
]


@pytest.mark.parametrize("value", ["", "gone"])
@pytest.mark.parametrize(("kind", "missing_kind"), MISSING, ids=lambda value: getattr(value, "name", ""))
def test_an_action_with_an_unknown_reference_changes_nothing_and_says_so(kind, missing_kind, value):
    change = run_action(kind, value)

    assert (change.alert, change.note) == (DISK, make_reason("no_such_thing", noun=missing_kind))


def test_every_type_of_action_is_tested_here():
    assert {kind for kind, *_ in (*EFFECTS, *MISSING)} == set(ACTIONS)


NOBODY_ON_CALL = make_reason("nobody_on_call", schedule="Nights")
DELAY_INVALID = make_reason("delay_invalid")
LEVELS = "info, warning, error, critical, acknowledged, resolved"


def build_invalid(detail):
    return make_reason("value_invalid", detail=detail)


def build_empty(field):
    return make_reason("template_empty", field=field)


INVALID = [
    (
        A.CHANGE_ALERT_TYPE,
        "loud",
        build_invalid(f"'loud' is not one of {LEVELS}"),
    ),
    (A.CHANGE_ALERT_TYPE, "6", build_invalid(f"'6' is not one of {LEVELS}")),
    (A.CHANGE_URGENCY, "2", build_invalid("'2' is not one of low, high")),
    (
        A.CHANGE_MESSAGE,
        "{{payload.none}}",
        build_empty("message"),
    ),
    (A.CHANGE_MESSAGE, "", build_empty("message")),
    (
        A.CHANGE_ENTITY_ID,
        "{{payload.none}}",
        build_empty("entity_id"),
    ),
    (A.ADD_NOTE, " {{payload.nothing}} ", build_empty("note")),
    (A.ADD_TAGS, "", make_reason("no_tag_named")),
    (A.ADD_TAGS, "gone, {{payload.none}}", make_reason("tags_missing", missing=1, requested=1)),
    (A.CREATE_TASK, " {{payload.nothing}} ", build_empty("task")),
    (A.ASSIGN_SCHEDULE, "schedule-1", NOBODY_ON_CALL),
    (A.ADD_RESPONDER, "schedule-1", NOBODY_ON_CALL),
    (A.DELAY_NOTIFICATIONS, "soon", DELAY_INVALID),
    (A.DELAY_NOTIFICATIONS, "-5", DELAY_INVALID),
    (A.DELAY_NOTIFICATIONS, "9999999", DELAY_INVALID),
    (A.DELAY_NOTIFICATIONS, "1.5", DELAY_INVALID),
]


@pytest.mark.parametrize(("kind", "value", "note"), INVALID, ids=[f"{k.name} {v!r}" for k, v, _ in INVALID])
def test_an_action_with_an_invalid_value_changes_nothing_and_says_so(kind, value, note):
    change = run_action(kind, value)

    assert (change.alert.parsed, change.alert.entity_id) == (DISK.parsed, DISK.entity_id)
    assert (change.alert.options, change.note) == (DISK.options, note)


@pytest.mark.parametrize("value", [None, "", " "], ids=repr)
def test_an_empty_entity_id_template_gives_each_alert_a_new_entity_id(value):
    other = alert(number=1)
    fresh = [
        run_action(A.CHANGE_ENTITY_ID, value, target_alert=each).alert.entity_id
        for each in (DISK, other, DISK)
    ]

    assert [len(each) for each in fresh] == [32, 32, 32]
    assert fresh[0] == fresh[2] != fresh[1]


def test_a_placeholder_without_a_value_is_empty_and_other_text_is_unchanged():
    template = "{{payload.none}}on {{ payload.host }}{{payload.nothing}} {{nonsense("

    assert run_action(A.CHANGE_MESSAGE, template).after == "on db1 {{nonsense("


def test_a_filled_in_value_is_not_a_template():
    sly = alert(payload={"a": "{{payload.b}}", "b": "secret"})

    assert run_action(A.CHANGE_MESSAGE, "{{payload.a}}", target_alert=sly).after == "{{payload.b}}"


def test_tags_are_found_by_id_or_by_name_in_any_case_and_added_once():
    change = run_action(A.ADD_TAGS, "TAG-1,{{payload.tags[*]}}", target_alert=DISK.with_options(tags=(31,)))

    assert change.alert.options.tags == (31, 32)
    assert change.note == make_reason("tags_missing", missing=1, requested=4)


def test_texts_of_actions_are_cleaned_and_truncated_like_those_of_senders():
    wild = alert(payload={"x": "a\x00\u202eb\r\nc" + "x" * 50_000})

    assert run_action(A.CHANGE_MESSAGE, "{{payload.x}}", target_alert=wild).after == "ab c" + "x" * 996
    assert len(run_action(A.CHANGE_SUMMARY, "{{payload.x}}", target_alert=wild).after) == 16 * 1024
    assert len(run_action(A.ADD_NOTE, "{{payload.x}}", target_alert=wild).after) == 16 * 1024
    assert run_action(A.CHANGE_ENTITY_ID, "{{payload.x}}", target_alert=wild).after.startswith("sha256:")


def test_the_hash_of_an_entity_id_is_stable_for_any_text():
    wild = [alert(entity_id=text) for text in ("\ud800", "e" * 255, "é")]
    digests = [run_action(A.HASH_ENTITY_ID, target_alert=each).alert.entity_id for each in (*wild, *wild)]

    assert digests[:3] == digests[3:]
    assert {len(each) for each in digests} == {64}


def test_notes_tags_and_tasks_of_an_alert_are_limited():
    full = DISK.with_options(notes=("n",) * actions.MAX_NOTES, tags=tuple(range(100, 100 + actions.MAX_TAGS)))
    busy = DISK.with_options(tasks=("t",) * actions.MAX_TASKS)

    note, tag = (
        run_action(A.ADD_NOTE, "one more", target_alert=full),
        run_action(A.ADD_TAGS, "tag-1", target_alert=full),
    )
    task = run_action(A.CREATE_TASK, "one more", target_alert=busy)

    assert (note.alert, note.note) == (full, make_reason("limit_reached", limit=50, things="notes"))
    assert (tag.alert, tag.note) == (full, make_reason("limit_reached", limit=50, things="tags"))
    assert (task.alert, task.note) == (busy, make_reason("limit_reached", limit=50, things="tasks"))


def test_the_value_before_a_change_comes_from_the_earlier_rule():
    changed = DISK.with_options(
        assigned_to="alice", sla=11, urgency=Urgency.LOW, delay_s=60, escalation_policy=2
    )

    assert run_action(A.ASSIGN_USER, "bob", target_alert=changed).before == ALICE.name
    assert run_action(A.ASSIGN_SLA, "sla-2", target_alert=changed).before == "Gold"
    assert run_action(A.CHANGE_URGENCY, "1", target_alert=changed).before == "low"
    assert run_action(A.DELAY_NOTIFICATIONS, "0", target_alert=changed).alert.options.delay_s == 0
    assert run_action(A.ROUTE_TO_ESCALATION_POLICY, "policy-1", target_alert=changed).before == "Database"
    assert BOB.name == run_action(A.ASSIGN_USER, "bob", target_alert=changed).after


def test_a_role_has_one_person_and_lists_have_no_duplicates():
    alert_with_options = DISK.with_options(
        roles=((41, "alice"), (42, "alice")), responders=("bob",), task_templates=(51,)
    )
    outcome = run_action(A.ASSIGN_ROLE, "bob", key="role-1", target_alert=alert_with_options)

    assert outcome.alert.options.roles == ((41, "bob"), (42, "alice"))
    assert (outcome.before, outcome.after) == ("Commander: Alice", "Commander: Bob")
    assert run_action(A.ADD_RESPONDER, "bob", target_alert=alert_with_options).alert == alert_with_options
    assert (
        run_action(A.APPLY_TASK_TEMPLATE, "template-1", target_alert=alert_with_options).alert
        == alert_with_options
    )


@pytest.mark.parametrize(
    ("key", "value", "missing_kind"), [("gone", "bob", "incident role"), ("role-1", "x", "user")]
)
def test_a_role_assignment_needs_a_known_role_and_a_known_user(key, value, missing_kind):
    change = run_action(A.ASSIGN_ROLE, value, key=key)

    assert (change.alert, change.note) == (DISK, make_reason("no_such_thing", noun=missing_kind))


ANY_VALUES = [None, "", "x" * 100_000, "{{" * 1000, "{{payload}}", "\ud800", "٣"]


def test_no_action_raises_an_error():
    def check(case):
        kind, value = case
        run_action(kind, value)

    assert (
        list_offenders(
            check, itertools.product(RuleAction, ANY_VALUES), lambda case: f"{case[0].name} {case[1]!r:.40}"
        )
        == []
    )
