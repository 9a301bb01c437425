"""The alert rules of an integration."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.store.ids import make_uuid
from models.tables.accounts import ConfigVersion
from models.tables.rules import AlertRule
from models.tables.schedules import Schedule
from models.tables.tasks import TaskTemplate
from models.tables.teams import EscalationPolicy, IncidentRole, Priority, Sla, Tag
from tests.support.offenders import list_offenders
from tests.support.rules import RuleAction
from web.rules import alert_rules

TYPED = ("escalation_policy", "assign_to", "schedule", "sla", "team_priority", "task_template")
NOTHING = dict.fromkeys(TYPED) | dict.fromkeys(
    ("escalation_policy_name", "assign_to_name", "value_reference_name")
)


@pytest.fixture
def integration(world) -> str:
    """Return the path of the integration."""
    team, service = world.team.unique_id, world.service.unique_id
    return f"/api/account/teams/{team}/services/{service}/integrations/{world.integration.unique_id}/"


@pytest.fixture
def rules(integration) -> str:
    return f"{integration}transformers/"


@pytest.fixture
def ids(world, now) -> dict[str, str]:
    """Create one object of the team for each kind of reference, and return the ids."""
    known = {"team": world.team, "creation_date": now}
    return {
        "policy": world.policy.unique_id,
        "sla": Sla.create(unique_id=make_uuid(), name="Gold", **known).unique_id,
        "priority": Priority.create(unique_id=make_uuid(), name="P1", **known).unique_id,
        "tag": Tag.create(unique_id=make_uuid(), name="database", **known).unique_id,
        "network": Tag.create(unique_id=make_uuid(), name="network", **known).unique_id,
        "user": world.bob.username,
        "role": IncidentRole.create(unique_id=make_uuid(), title="Scribe", **known).unique_id,
        "template": TaskTemplate.create(unique_id=make_uuid(), name="Outage", **known).unique_id,
        "schedule": Schedule.create(unique_id=make_uuid(), name="Nights", **known).unique_id,
        "any": "6a3a1b8e-21a4-4f2b-9a6d-5f4c7f0b1c11",
    }


@pytest.fixture
def act(ask, rules):
    """act({...}): the answer to the creation of a rule with this action only."""

    def made(action: dict, **more):
        return ask("POST", rules, {"actions": [action]}, **more)

    return made


def test_a_rule_has_useful_defaults(ask, rules):
    made = ask("POST", rules, {})

    assert made.status_code == 201
    assert made.json.pop("unique_id")
    assert {name: value for name, value in made.json.items() if name != "unique_id"} == {
        "rule_type": 0,
        "description": "",
        "stop": False,
        "position": 1,
        "conditions": [],
        "actions": [],
        "rule_json": "",
        "is_enabled": True,
    }


def test_an_update_changes_only_the_given_fields(ask, rules, ids):
    body = {
        "description": "x",
        "rule_json": "{}",
        "actions": [{"action_type": 3}],
        "stop": True,
        "ruleType": "1",
    }
    made = ask("POST", rules, body).json
    one = f"{rules}{made['unique_id']}/"

    assert (made["rule_type"], made["stop"]) == (1, True)
    assert ask("PUT", one, {"description": "y"}).json == {**made, "description": "y"}
    assert ask("PATCH", one, {"is_enabled": "false", "position": 0}).json["is_enabled"] is False
    assert ask("GET", one).json["position"] == 1
    again = ask("PATCH", one, {"actions": made["actions"]}).json["actions"][0]
    assert again["unique_id"] != made["actions"][0]["unique_id"]
    assert ask("PUT", one, {"actions": None, "conditions": None}).json["actions"] == []
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


def test_rules_are_listed_in_the_order_of_evaluation(ask, rules):
    action_fields = [("a", 5), ("b", None), ("c", 5), ("d", "1"), ("e", 0), ("f", "")]
    for description, position in action_fields:
        assert ask("POST", rules, {"description": description, "position": position}).status_code == 201

    listed = [(rule["description"], rule["position"]) for rule in ask("GET", rules).json]

    assert listed == [("d", 1), ("a", 5), ("c", 5), ("b", 6), ("e", 7), ("f", 8)]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"==": [{"var":"message"},  "x"]}', json.dumps({"type": "group"})]
)
def test_a_condition_is_stored_as_sent(ask, rules, text):
    made = ask("POST", rules, {"rule_json": text}).json

    assert ask("GET", f"{rules}{made['unique_id']}/").json["rule_json"] == text


@pytest.mark.parametrize(
    "text", ["{", "7", '{"nosuch": []}', '{"matches": [{"var": "message"}, "(?=x)"]}', {}]
)
def test_a_condition_that_cannot_be_evaluated_is_refused(ask, rules, text):
    one = f"{rules}{ask('POST', rules, {}).json['unique_id']}/"

    for method, path in (("POST", rules), ("PUT", one), ("PATCH", one)):
        refused = ask(method, path, {"rule_json": text}, scheme="Token")
        assert (refused.status_code, set(refused.json["errors"])) == (400, {"rule_json"})


def test_conditions_are_stored_separately_from_rule_json(ask, rules):
    conditions = [
        {"alert_condition_type": "2", "alert_field": "$.labels[0].team", "pattern": "^data"},
        {"alert_condition_type": 1, "pattern": 3, "position": 9, "unique_id": "x"},
    ]
    made = ask("POST", rules, {"conditions": conditions, "rule_type": 1}).json

    shown = [
        {name: value for name, value in each.items() if name != "unique_id"} for each in made["conditions"]
    ]
    assert shown == [
        {"alert_condition_type": 2, "alert_field": "$.labels[0].team", "pattern": "^data", "position": 1},
        {"alert_condition_type": 1, "alert_field": "", "pattern": "3", "position": 9},
    ]
    assert made["rule_json"] == ""


WRONG_CONDITIONS = [
    ("alert_condition_type", {"alert_condition_type": 3}),
    ("alert_condition_type", {"pattern": "critical"}),
    ("pattern", {"alert_condition_type": 1, "pattern": "awful"}),
    ("pattern", {"alert_condition_type": 1}),
    ("pattern", {"alert_condition_type": 2, "alert_field": "a", "pattern": "("}),
    ("pattern", {"alert_condition_type": 2, "alert_field": "a", "pattern": "(?<=a)b"}),
    ("pattern", {"alert_condition_type": 2, "alert_field": "a", "pattern": "x" * 2_000}),
    ("alert_field", {"alert_condition_type": 2, "alert_field": "a[", "pattern": "x"}),
    ("alert_field", {"alert_condition_type": 2, "pattern": "x"}),
]


def test_invalid_conditions_are_refused(ask, rules):
    def check(case):
        field, wrong = case
        refused = ask("POST", rules, {"conditions": [wrong]}, scheme="Token")

        assert (refused.status_code, set(refused.json["errors"])) == (400, {f"conditions.0.{field}"})

    assert list_offenders(check, WRONG_CONDITIONS) == []


def test_both_condition_lists_share_one_limit(ask, rules):
    """Each of the two lists is within the limit, but their sum is not."""
    search = {"alert_condition_type": 2, "pattern": "x"}
    conditions = [{**search, "alert_field": f"a{place}"} for place in range(60)]
    nodes = [
        {
            "type": "rule",
            "properties": {
                "field": "alert.payload",
                "operator": "payloadsearch",
                "value": [f"$.b{place}", "x"],
                "operatorOptions": {"ploperator": "equal"},
            },
        }
        for place in range(60)
    ]
    text = json.dumps({"type": "group", "properties": {"conjunction": "AND"}, "children1": nodes})
    one = f"{rules}{ask('POST', rules, {'conditions': conditions}).json['unique_id']}/"

    assert ask("POST", rules, {"rule_json": text}).status_code == 201
    assert ask("PATCH", one, {"rule_json": text}).status_code == 400
    assert ask("PATCH", one, {"description": "x"}).status_code == 200


# type, fields of the request, additional fields of the answer
ACTIONS = (
    (1, {"value": "3"}, {}), (1, {"value": "Critical"}, {}), (1, {"value": 4}, {"value": "4"}),
    (2, {"value": "See {{payload.runbook}}"}, {}), (3, {}, {}), (3, {"value": "yes"}, {}),
    (4, {"escalation_policy": "policy"}, {"escalation_policy_name": "Default Escalation Policy"}),
    (4, {"value": "policy"}, {"escalation_policy": "policy",
                              "escalation_policy_name": "Default Escalation Policy"}),
    (5, {"value": "schedule"}, {"schedule": "schedule"}), (5, {"schedule": "schedule"}, {}),
    (6, {"assign_to": "user"}, {"assign_to_name": "Bob"}),
    (6, {"value": "user"}, {"assign_to": "user", "assign_to_name": "Bob"}),
    (7, {"value": "0"}, {}), (7, {"value": 1}, {"value": "1"}),
    (8, {"value": "{{ payload.host }}: {{message}}"}, {}), (9, {"value": "  as it is  "}, {}),
    (10, {"value": ""}, {}), (10, {"value": "{{payload.host}}"}, {}),
    (11, {"key": "role", "value": "user"}, {}),
    (12, {"value": "tag"}, {}), (12, {"value": "{{payload.tags}}"}, {}),
    (13, {"value": "Look at the disk"}, {}),
    (14, {"sla": "sla"}, {}), (14, {"value": "sla"}, {"sla": "sla"}),
    (15, {"team_priority": "priority"}, {}), (15, {"value": "priority"}, {"team_priority": "priority"}),
    (16, {"task_template": "template"}, {}), (16, {"value": "template"}, {"task_template": "template"}),
    (17, {"value": "user"}, {}), (17, {"value": "policy"}, {}), (17, {"value": "schedule"}, {}),
    (18, {}, {}), (19, {"value": "300"}, {}), (19, {"value": 86400}, {"value": "86400"}),
)  # fmt: skip
NAMES = {
    (4, "policy"): "Default Escalation Policy", (6, "user"): "Bob", (11, "user"): "Bob",
    (12, "tag"): "database", (14, "sla"): "Gold", (15, "priority"): "P1", (17, "user"): "Bob",
    (17, "policy"): "Default Escalation Policy", (17, "schedule"): "Nights", (5, "schedule"): "Nights",
    (16, "template"): "Outage",
}  # fmt: skip


def test_the_table_has_every_type_of_action():
    assert {each[0] for each in ACTIONS} == set(RuleAction)


@pytest.mark.parametrize(("action_type", "action_fields", "filled"), ACTIONS, ids=str)
def test_each_action_is_returned_as_sent(ask, rules, act, ids, action_type, action_fields, filled):
    """Unused fields may be missing, null or blank: the published clients send all three."""
    action_fields = {name: ids.get(value, value) for name, value in action_fields.items()}
    name = NAMES.get(
        (action_type, next((k for k, v in ids.items() if v in action_fields.values() and k != "any"), None))
    )
    expected = {
        **NOTHING, "key": "", "value": "", "action_type": action_type, "value_reference_name": name,
        **action_fields, **{field: ids.get(value, value) for field, value in filled.items()},
    }  # fmt: skip

    for absent in ({}, dict.fromkeys(TYPED, ""), dict.fromkeys(TYPED)):
        made = act({"key": "", **absent, "action_type": str(action_type), **action_fields})
        assert made.status_code == 201, made.json
        shown = ask("GET", f"{rules}{made.json['unique_id']}/").json["actions"][0]
        assert shown == made.json["actions"][0]
        assert shown.pop("unique_id")
        assert shown == expected


WRONG_ACTIONS = [
    ("action_type", {"action_type": 0}), ("action_type", {"action_type": 20}), ("action_type", {}),
    ("value", {"action_type": 1}), ("value", {"action_type": 1, "value": "6"}),
    ("escalation_policy", {"action_type": 4}), ("escalation_policy", {"action_type": 4, "value": ""}),
    ("value", {"action_type": 4, "value": "any"}), ("value", {"action_type": 4, "value": "x"}),
    ("escalation_policy", {"action_type": 4, "escalation_policy": "any"}),
    ("escalation_policy", {"action_type": 4, "escalation_policy": "x", "value": "policy"}),
    ("schedule", {"action_type": 5}), ("value", {"action_type": 5, "value": "x"}),
    ("value", {"action_type": 5, "value": "any"}),
    ("assign_to", {"action_type": 6}),
    ("assign_to", {"action_type": 6, "assign_to": "39569d4b-6540-4b64-a086-6"}),
    ("value", {"action_type": 7}), ("value", {"action_type": 7, "value": "2"}),
    ("value", {"action_type": 8, "value": "x" * 20_000}), ("value", {"action_type": 8, "value": ["x"]}),
    ("value", {"action_type": 11, "key": "role", "value": ""}),
    ("value", {"action_type": 11, "key": "role", "value": "39569d4b-6540-4b64-a086-6"}),
    ("key", {"action_type": 11, "value": "user"}),
    ("key", {"action_type": 11, "key": "any", "value": "user"}),
    ("value", {"action_type": 12}), ("value", {"action_type": 12, "value": " , "}),
    ("value", {"action_type": 12, "value": "database"}), ("value", {"action_type": 12, "value": "any"}),
    ("value", {"action_type": 12, "value": "{{payload.x}}, any"}),
    ("sla", {"action_type": 14, "sla": "any"}), ("value", {"action_type": 15, "value": "any"}),
    ("task_template", {"action_type": 16}), ("value", {"action_type": 16, "value": "any"}),
    ("value", {"action_type": 17, "value": "somebody"}), ("value", {"action_type": 17, "value": "any"}),
    ("value", {"action_type": 19}), ("value", {"action_type": 19, "value": "86401"}),
    ("value", {"action_type": 19, "value": "-1"}), ("value", {"action_type": 19, "value": "1.5"}),
]  # fmt: skip


def test_invalid_actions_are_refused(ask, rules, act, ids):
    def check(case):
        field, wrong = case
        refused = act({name: ids.get(value, value) if isinstance(value, str) else value
                       for name, value in wrong.items()}, scheme="Token")  # fmt: skip

        assert refused.status_code == 400
        assert set(refused.json["errors"]) == {f"actions.0.{field}"}
        assert ask("GET", rules).json == []

    assert list_offenders(check, WRONG_ACTIONS) == []


def test_an_action_may_name_more_than_one_tag_and_placeholders(act, ids):
    value = f"{ids['tag']}, {{{{payload.team}}}},{ids['network'].upper()},team-{{{{ payload.x }}}}, "

    shown = act({"action_type": 12, "value": value}).json["actions"][0]

    assert (shown["value"], shown["value_reference_name"]) == (value, "database, network")


def test_a_deleted_reference_keeps_its_id_and_has_no_name(ask, rules, ids, world):
    actions = [
        {"action_type": 14, "sla": ids["sla"]},
        {"action_type": 12, "value": ids["tag"]},
        {"action_type": 4, "escalation_policy": ids["policy"]},
        {"action_type": 6, "assign_to": ids["user"]},
    ]
    made = ask("POST", rules, {"actions": actions}).json
    for table in (Sla, Tag):
        table.delete().execute()
    EscalationPolicy.update(team=world.charlies_team).execute()
    world.bob.removed_at = world.bob.joining_date
    world.bob.save()

    shown = ask("GET", rules).json[0]["actions"]

    assert [each["value_reference_name"] for each in shown] == [None] * 4
    assert (shown[2]["escalation_policy_name"], shown[3]["assign_to_name"]) == (None, None)
    same = [{k: v for k, v in each.items() if not k.endswith("_name")} for each in made["actions"]]
    assert [{k: v for k, v in each.items() if not k.endswith("_name")} for each in shown] == same
    assert ask("PATCH", f"{rules}{made['unique_id']}/", {"description": "still here"}).status_code == 200


def test_a_shared_policy_of_another_team_is_allowed(act, world):
    theirs = EscalationPolicy.get(EscalationPolicy.team == world.charlies_team)
    action = {"action_type": 4, "escalation_policy": theirs.unique_id}
    assert act(action).status_code == 400

    theirs.global_ep = True
    theirs.save()

    assert act(action).json["actions"][0]["escalation_policy"] == theirs.unique_id


@pytest.mark.parametrize(
    ("name", "one", "limit"),
    [
        ("actions", {"action_type": 3}, alert_rules.MAX_ACTIONS),
        ("conditions", {"alert_condition_type": 1, "pattern": "3"}, alert_rules.MAX_CONDITIONS),
    ],
)
def test_the_lists_of_a_rule_have_limits(ask, rules, name, one, limit):
    assert ask("POST", rules, {name: [one] * limit}).status_code == 201
    assert ask("POST", rules, {name: [one] * (limit + 1)}).status_code == 400


def test_an_integration_has_a_limit_of_rules(ask, rules, monkeypatch):
    monkeypatch.setattr(alert_rules.ALERT_RULES, "max_rows", 1)
    assert ask("POST", rules, {}).status_code == 201

    assert ask("POST", rules, {}).status_code == 400


def test_rules_are_deleted_with_their_integration(ask, integration, rules):
    ask("POST", rules, {})

    assert ask("DELETE", integration).status_code == 204
    assert AlertRule.select().count() == 0


def test_two_simultaneous_creates_get_different_positions(ask, rules):
    start = threading.Barrier(4)

    def add_rule_in_thread(_) -> int:
        start.wait()
        return ask("POST", rules, {}).json["position"]

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(add_rule_in_thread, range(4))) == [1, 2, 3, 4]


def test_each_write_increments_the_configuration_version(ask, rules, world):
    def version() -> int:
        return ConfigVersion.get(ConfigVersion.account == world.account).version

    seen = [version()]
    one = f"{rules}{ask('POST', rules, {}).json['unique_id']}/"
    seen.append(version())
    for method, body in (("PUT", {"stop": True}), ("PATCH", {"stop": False}), ("DELETE", None)):
        ask(method, one, body)
        seen.append(version())

    assert seen == sorted(set(seen))


def test_a_position_is_at_most_the_number_of_rules_that_an_integration_can_have(ask, rules):
    first = ask("POST", rules, {"position": 2**31 - 1}).json
    second = ask("POST", rules, {}).json
    moved = ask("PATCH", f"{rules}{second['unique_id']}/", {"position": 2**31 - 1}).json

    assert (first["position"], moved["position"]) == (alert_rules.MAX_RULES, alert_rules.MAX_RULES)


def test_a_rule_can_be_added_after_the_largest_position(ask, rules):
    """The rules that exist get positions without gaps. Their order, also of equal positions, stays."""
    for description, position in (("a", 7), ("b", 2**31 - 1), ("c", 7)):
        ask("POST", rules, {"description": description, "position": position})

    made = ask("POST", rules, {"description": "d"})

    assert made.status_code == 201
    listed = [(rule["description"], rule["position"]) for rule in ask("GET", rules).json]
    assert listed == [("a", 1), ("c", 1), ("b", 2), ("d", 3)]


def test_rules_of_other_integrations_keep_their_positions(ask, rules, world):
    service = rules.partition("integrations/")[0]
    body = {"name": "Other", "application": world.integration.application}
    other = ask("POST", f"{service}integrations/", body).json["unique_id"]
    ask("POST", f"{service}integrations/{other}/transformers/", {"position": 9})
    ask("POST", rules, {"position": 2**31 - 1})

    ask("POST", rules, {})

    assert [rule["position"] for rule in ask("GET", rules).json] == [1, 2]
    assert AlertRule.get(AlertRule.integration != world.integration).position == 9
