"""What each action of an alert rule makes of an alert, and what it says of it."""

import hashlib
from dataclasses import replace

import pytest

from models.enums import AlertType, RuleAction, Urgency
from models.facts import Nameable, Named, PolicyFacts
from pipeline import actions
from pipeline.actions import Scene, act
from pipeline.conditions import subject_of
from tests.facts import ALICE, BOB, NOON, alert, directory, lane
from tests.rules import action

EVERYBODY = replace(
    directory((0, "alice")),
    policies={
        1: PolicyFacts(1, "policy-1", "Default", (), 0, True),
        2: PolicyFacts(2, "policy-2", "Database", (), 0, True),
    },
)
NAMEABLE = Nameable(
    policies={"policy-1": Named(1, "Default"), "policy-2": Named(2, "Database")},
    slas={"sla-1": Named(11, "Gold"), "sla-2": Named(12, "Silver")},
    priorities={"priority-1": Named(21, "P1"), "priority-2": Named(22, "P2")},
    tags={"tag-1": Named(31, "Disk"), "tag-2": Named(32, "Night")},
    roles={"role-1": Named(41, "Commander"), "role-2": Named(42, "Scribe")},
    task_templates={"template-1": Named(51, "Outage")},
    schedules={"schedule-1": Named(61, "Nights")},
)
FACTS = replace(lane(EVERYBODY, sla=12, team_priority=22), nameable=NAMEABLE)
DISK = alert(summary="97% of /var", payload={"host": "db1", "tags": ["disk", "NIGHT", "?"], "nothing": None})


def done(kind, value="", *, to=DISK, **fields):
    scene = Scene(FACTS, subject_of(to, actions.urgency_of(to, FACTS), NOON, None))
    return act(to, action(kind, value, **fields), scene)


A = RuleAction

EFFECTS = [
    (A.CHANGE_ALERT_TYPE, {"value": "5"}, DISK.but(alert_type=AlertType.RESOLVED), "critical", "resolved"),
    (
        A.CHANGE_ALERT_TYPE,
        {"value": "Warning"},
        DISK.but(alert_type=AlertType.WARNING),
        "critical",
        "warning",
    ),
    (A.ADD_NOTE, {"value": "see {{payload.host}}"}, DISK.wanting(notes=("see db1",)), None, "see db1"),
    (A.SUPPRESS, {}, DISK.but(suppressed=True), "not suppressed", "suppressed"),
    (
        A.ROUTE_TO_ESCALATION_POLICY,
        {"escalation_policy": "policy-2"},
        DISK.wanting(escalation_policy=2),
        "Default",
        "Database",
    ),
    (
        A.ROUTE_TO_ESCALATION_POLICY,
        {"value": "policy-2"},
        DISK.wanting(escalation_policy=2),
        "Default",
        "Database",
    ),
    (A.ASSIGN_USER, {"assign_to": "bob"}, DISK.wanting(assigned_to="bob"), None, "Bob"),
    (A.ASSIGN_USER, {"value": "bob"}, DISK.wanting(assigned_to="bob"), None, "Bob"),
    (A.CHANGE_URGENCY, {"value": "0"}, DISK.wanting(urgency=Urgency.LOW), "high", "low"),
    (A.CHANGE_URGENCY, {"value": "low"}, DISK.wanting(urgency=Urgency.LOW), "high", "low"),
    (
        A.CHANGE_MESSAGE,
        {"value": "{{message}} on\n{{payload.host}}"},
        DISK.but(message="Disk full on db1"),
        "Disk full",
        "Disk full on db1",
    ),
    (
        A.CHANGE_SUMMARY,
        {"value": "{{ summary }}!\nLook"},
        DISK.but(summary="97% of /var!\nLook"),
        "97% of /var",
        "97% of /var!\nLook",
    ),
    (A.CHANGE_SUMMARY, {"value": ""}, DISK.but(summary=""), "97% of /var", ""),
    (
        A.CHANGE_ENTITY_ID,
        {"value": "{{payload.host}}/{{entity_id}}"},
        DISK.but(entity_id="db1/db1"),
        "db1",
        "db1/db1",
    ),
    (A.ADD_TAGS, {"value": "tag-1, tag-2"}, DISK.wanting(tags=(31, 32)), None, "Disk, Night"),
    (A.ASSIGN_SLA, {"sla": "sla-1"}, DISK.wanting(sla=11), "Silver", "Gold"),
    (A.ASSIGN_SLA, {"value": "sla-1"}, DISK.wanting(sla=11), "Silver", "Gold"),
    (A.ASSIGN_PRIORITY, {"team_priority": "priority-1"}, DISK.wanting(team_priority=21), "P2", "P1"),
    (A.ASSIGN_PRIORITY, {"value": " priority-1 "}, DISK.wanting(team_priority=21), "P2", "P1"),
    (
        A.HASH_ENTITY_ID,
        {},
        DISK.but(entity_id=hashlib.sha256(b"db1").hexdigest()),
        "db1",
        hashlib.sha256(b"db1").hexdigest(),
    ),
    (
        A.ASSIGN_ROLE,
        {"key": "Role-1 ", "value": "bob"},
        DISK.wanting(roles=((41, "bob"),)),
        None,
        "Commander: Bob",
    ),
    (
        A.CREATE_TASK,
        {"value": "Look at {{payload.host}}"},
        DISK.wanting(tasks=("Look at db1",)),
        None,
        "Look at db1",
    ),
    (
        A.APPLY_TASK_TEMPLATE,
        {"task_template": "template-1"},
        DISK.wanting(task_templates=(51,)),
        None,
        "Outage",
    ),
    (A.ADD_RESPONDER, {"value": "BOB"}, DISK.wanting(responders=("bob",)), None, "Bob"),
    (A.ADD_RESPONDER, {"value": "policy-2"}, DISK.wanting(responder_policies=(2,)), None, "Database"),
    (A.DELAY_NOTIFICATIONS, {"value": " 300 "}, DISK.wanting(delay_s=300), "0 s", "300 s"),
]


@pytest.mark.parametrize(
    ("kind", "given", "expected", "before", "after"), EFFECTS, ids=[f"{e[0].name} {e[1]}" for e in EFFECTS]
)
def test_an_action_changes_the_alert_and_says_from_what_to_what(kind, given, expected, before, after):
    change = done(kind, **given)

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
@pytest.mark.parametrize(("kind", "what"), MISSING, ids=lambda value: getattr(value, "name", ""))
def test_what_names_nothing_changes_nothing_and_says_so(kind, what, value):
    change = done(kind, value)

    assert (change.alert, change.note) == (DISK, f"without effect: there is no such {what}")


def test_every_type_of_action_is_tried_here():
    assert {kind for kind, *_ in (*EFFECTS, *MISSING)} == set(RuleAction) == set(actions.ACTIONS)


NOBODY_ON_CALL = "without effect: nobody is on call by Nights"
UNFIT = [
    (A.CHANGE_ALERT_TYPE, "loud", "'loud' is none of info, warning, error, critical, acknowledged, resolved"),
    (A.CHANGE_ALERT_TYPE, "6", "'6' is none of info, warning, error, critical, acknowledged, resolved"),
    (A.CHANGE_URGENCY, "2", "'2' is none of low, high"),
    (A.CHANGE_MESSAGE, "{{payload.none}}", "the message came out empty and stays as it was"),
    (A.CHANGE_MESSAGE, "", "the message came out empty and stays as it was"),
    (A.CHANGE_ENTITY_ID, "{{payload.none}}", "the entity_id came out empty and stays as it was"),
    (A.ADD_NOTE, " {{payload.nothing}} ", "the note came out empty"),
    (A.ADD_TAGS, "", "it names no tag"),
    (A.ADD_TAGS, "gone, {{payload.none}}", "1 of 1 tags do not exist"),
    (A.CREATE_TASK, " {{payload.nothing}} ", "the task came out empty"),
    (A.ASSIGN_SCHEDULE, "schedule-1", NOBODY_ON_CALL),
    (A.ADD_RESPONDER, "schedule-1", NOBODY_ON_CALL),
    (A.DELAY_NOTIFICATIONS, "soon", "without effect: the delay is no number of seconds"),
    (A.DELAY_NOTIFICATIONS, "-5", "without effect: the delay is no number of seconds"),
    (A.DELAY_NOTIFICATIONS, "9999999", "without effect: the delay is no number of seconds"),
    (A.DELAY_NOTIFICATIONS, "1.5", "without effect: the delay is no number of seconds"),
]


@pytest.mark.parametrize(("kind", "value", "note"), UNFIT, ids=[f"{k.name} {v!r}" for k, v, _ in UNFIT])
def test_a_value_that_makes_no_sense_leaves_the_alert_as_it_was_and_says_so(kind, value, note):
    change = done(kind, value)

    assert (change.alert.parsed, change.alert.entity_id) == (DISK.parsed, DISK.entity_id)
    assert (change.alert.plan, change.note) == (DISK.plan, note)


@pytest.mark.parametrize("value", [None, "", " "], ids=repr)
def test_an_empty_template_for_the_entity_id_is_a_fresh_one_for_each_alert(value):
    other = alert(number=1)
    fresh = [done(A.CHANGE_ENTITY_ID, value, to=each).alert.entity_id for each in (DISK, other, DISK)]

    assert [len(each) for each in fresh] == [32, 32, 32]
    assert fresh[0] == fresh[2] != fresh[1]


def test_a_placeholder_without_a_value_is_empty_and_the_rest_stays():
    template = "{{payload.none}}on {{ payload.host }}{{payload.nothing}} {{nonsense("

    assert done(A.CHANGE_MESSAGE, template).after == "on db1 {{nonsense("


def test_what_was_filled_in_is_no_template_itself():
    sly = alert(payload={"a": "{{payload.b}}", "b": "secret"})

    assert done(A.CHANGE_MESSAGE, "{{payload.a}}", to=sly).after == "{{payload.b}}"


def test_tags_are_named_by_id_or_by_name_in_any_case_and_each_is_kept_once():
    change = done(A.ADD_TAGS, "TAG-1,{{payload.tags[*]}}", to=DISK.wanting(tags=(31,)))

    assert change.alert.plan.tags == (31, 32)
    assert change.note == "1 of 4 tags do not exist"


def test_texts_are_as_clean_and_as_short_as_if_the_sender_had_said_them():
    wild = alert(payload={"x": "a\x00\u202eb\r\nc" + "x" * 50_000})

    assert done(A.CHANGE_MESSAGE, "{{payload.x}}", to=wild).after == "ab c" + "x" * 996
    assert len(done(A.CHANGE_SUMMARY, "{{payload.x}}", to=wild).after) == 16 * 1024
    assert len(done(A.ADD_NOTE, "{{payload.x}}", to=wild).after) == 16 * 1024
    assert done(A.CHANGE_ENTITY_ID, "{{payload.x}}", to=wild).after.startswith("sha256:")


def test_the_hash_of_an_entity_id_is_stable_and_takes_any_text():
    wild = [alert(entity_id=text) for text in ("\ud800", "e" * 255, "é")]
    digests = [done(A.HASH_ENTITY_ID, to=each).alert.entity_id for each in (*wild, *wild)]

    assert digests[:3] == digests[3:]
    assert {len(each) for each in digests} == {64}


def test_an_alert_brings_so_many_notes_tags_and_tasks_and_no_more():
    full = DISK.wanting(notes=("n",) * actions.MOST_NOTES, tags=tuple(range(100, 100 + actions.MOST_TAGS)))
    busy = DISK.wanting(tasks=("t",) * actions.MOST_TASKS)

    note, tag = done(A.ADD_NOTE, "one more", to=full), done(A.ADD_TAGS, "tag-1", to=full)
    task = done(A.CREATE_TASK, "one more", to=busy)

    assert (note.alert, note.note) == (full, "an alert brings 50 notes at most")
    assert (tag.alert, tag.note) == (full, "an alert brings 50 tags at most")
    assert (task.alert, task.note) == (busy, "an alert brings 50 tasks at most")


def test_what_an_earlier_rule_said_is_what_a_change_is_from():
    changed = DISK.wanting(assigned_to="alice", sla=11, urgency=Urgency.LOW, delay_s=60, escalation_policy=2)

    assert done(A.ASSIGN_USER, "bob", to=changed).before == ALICE.name
    assert done(A.ASSIGN_SLA, "sla-2", to=changed).before == "Gold"
    assert done(A.CHANGE_URGENCY, "1", to=changed).before == "low"
    assert done(A.DELAY_NOTIFICATIONS, "0", to=changed).alert.plan.delay_s == 0
    assert done(A.ROUTE_TO_ESCALATION_POLICY, "policy-1", to=changed).before == "Database"
    assert BOB.name == done(A.ASSIGN_USER, "bob", to=changed).after


def test_a_role_has_one_person_and_a_list_what_it_holds_once():
    wanted = DISK.wanting(roles=((41, "alice"), (42, "alice")), responders=("bob",), task_templates=(51,))
    given = done(A.ASSIGN_ROLE, "bob", key="role-1", to=wanted)

    assert given.alert.plan.roles == ((41, "bob"), (42, "alice"))
    assert (given.before, given.after) == ("Commander: Alice", "Commander: Bob")
    assert done(A.ADD_RESPONDER, "bob", to=wanted).alert == wanted
    assert done(A.APPLY_TASK_TEMPLATE, "template-1", to=wanted).alert == wanted


@pytest.mark.parametrize(
    ("key", "value", "what"), [("gone", "bob", "incident role"), ("role-1", "x", "user")]
)
def test_a_role_needs_somebody_and_somebody_a_role(key, value, what):
    change = done(A.ASSIGN_ROLE, value, key=key)

    assert (change.alert, change.note) == (DISK, f"without effect: there is no such {what}")


@pytest.mark.parametrize("kind", RuleAction, ids=lambda kind: kind.name)
@pytest.mark.parametrize("value", [None, "", "x" * 100_000, "{{" * 1000, "{{payload}}", "\ud800", "٣"])
def test_no_action_ever_fails(kind, value):
    done(kind, value)
