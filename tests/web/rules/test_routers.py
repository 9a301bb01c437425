"""Global routers and their rules."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.tables.accounts import ConfigVersion
from models.tables.routers import RouterRule
from models.tables.services import Integration
from tests.support.offenders import list_offenders
from web.rules import routers

ROUTERS = "/api/v2/account/events/router/"
# A constant: with parallel tests, all processes must use the same test ids.
UNKNOWN_ROUTER = "00000000-0000-4000-8000-00000000dead"

TREE = json.dumps(
    {
        "type": "group",
        "id": "1",
        "children1": {
            "2": {
                "type": "rule",
                "id": "2",
                "properties": {
                    "field": "alert.payload",
                    "operator": "payloadsearch",
                    "value": ["$.labels.team", "data"],
                    "operatorOptions": {"ploperator": "equal"},
                    "valueSrc": ["value", "value"],
                    "valueType": ["text", "text"],
                },
            }
        },
        "properties": {"conjunction": "AND", "not": False},
    }
)


@pytest.fixture
def router(ask) -> str:
    """Create a router and return its path."""
    made = ask("POST", ROUTERS, {"name": "Front door"})
    return f"{ROUTERS}{made.json['unique_id']}/"


@pytest.fixture
def rules(router) -> str:
    return f"{router}rulesets/"


@pytest.fixture
def add(ask, rules):
    """add("name"): create a rule and return its unique_id."""

    def add_rule(name: str) -> str:
        made = ask("POST", rules, {"name": name})
        assert made.status_code == 201
        return made.json["unique_id"]

    return add_rule


@pytest.fixture
def list_names(ask, rules):
    """list_names(): the names of the rules in order. It checks that the positions have no gaps."""

    def listed() -> list[str]:
        shown = ask("GET", rules).json
        assert [rule["position"] for rule in shown] == list(range(1, len(shown) + 1))
        return [rule["name"] for rule in shown]

    return listed


def build_target(integration: str) -> dict:
    return {"action_type": 0, "integration": integration}


def test_a_router_is_created_changed_and_deleted(ask, world):
    made = ask("POST", ROUTERS, {"name": "Front door", "description": "All tools", "account": "x"})
    shown = made.json
    one = f"{ROUTERS}{shown['unique_id']}/"

    assert made.status_code == 201
    assert (shown["name"], shown["description"], shown["is_enabled"]) == ("Front door", "All tools", True)
    assert shown["account"] == world.account.unique_id
    assert shown["account_identifier"] == world.account.account_identifier
    assert ask("PATCH", one, {"is_enabled": "false"}).json == {**shown, "is_enabled": False}
    assert ask("PUT", one, {"name": "Gate"}).json == {**shown, "is_enabled": False, "name": "Gate"}
    assert [each["unique_id"] for each in ask("GET", ROUTERS).json] == [shown["unique_id"]]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


def test_only_owners_and_admins_see_routers(ask, router):
    for who in ("bob", "charlie"):
        assert ask("GET", ROUTERS, who=who).status_code == 403
        assert ask("POST", ROUTERS, {}, who=who).status_code == 403
        assert ask("GET", router, who=who).status_code == 403
    assert ask("GET", ROUTERS, who="mallory").json == []
    assert ask("GET", router, who="mallory").status_code == 404


@pytest.mark.parametrize("name", ["integration", "integration_obj"])
def test_a_rule_accepts_each_name_of_its_integration(ask, rules, world, name):
    target = world.integration
    for target_value in (
        target.unique_id,
        target.integration_key,
        {"unique_id": target.unique_id, "name": "x"},
    ):
        action = {"action_type": "0", name: target_value}

        made = ask("POST", rules, {"name": "x", "actions": [action]}).json["actions"][0]

        assert made.pop("unique_id")
        assert made == {
            "action_type": 0,
            "integration_obj": {"name": "Probe", "unique_id": target.unique_id},
            "service": {"name": "Checkout", "unique_id": world.service.unique_id},
            "team": {"name": "Payments", "unique_id": world.team.unique_id},
        }


def test_a_rule_may_drop_an_alert(ask, rules):
    made = ask("POST", rules, {"actions": [{"action_type": 1, "integration": ""}]}).json["actions"][0]

    assert (made["action_type"], made["integration_obj"], made["team"]) == (1, None, None)


WRONG_ACTIONS = [
    ("actions.0.integration", [{"action_type": 0}]),
    ("actions.0.integration", [{"action_type": 0, "integration": ""}]),
    ("actions.1.integration", [{"action_type": 1}, build_target(UNKNOWN_ROUTER)]),
    ("actions.0.action_type", [{"action_type": 2}]),
    ("actions.0.action_type", [{}]),
    ("actions", {"action_type": 1}),
    ("actions", [{"action_type": 1}] * (routers.MAX_ACTIONS + 1)),
    ("actions.0", ["x"]),
]


def test_invalid_actions_are_refused(ask, rules):
    def check(case):
        scheme, (field, wrong) = case
        refused = ask("POST", rules, {"actions": wrong}, scheme=scheme)

        assert refused.status_code == 400
        assert set(refused.json["errors"]) == {field}
        assert ask("GET", rules).json == []

    assert list_offenders(check, itertools.product(["Bearer", "Token"], WRONG_ACTIONS)) == []


def test_an_outbound_integration_is_no_target(ask, rules, world):
    Integration.update(integration_type=1).execute()

    assert ask("POST", rules, {"actions": [build_target(world.integration.unique_id)]}).status_code == 400


def test_a_deleted_target_is_null(ask, rules, world):
    made = ask("POST", rules, {"actions": [build_target(world.integration.unique_id)]}).json
    world.integration.delete_instance()

    shown = ask("GET", f"{rules}{made['unique_id']}/").json["actions"][0]

    assert shown == {
        "unique_id": made["actions"][0]["unique_id"],
        "action_type": 0,
        "integration_obj": None,
        "service": None,
        "team": None,
    }
    assert ask("PATCH", f"{rules}{made['unique_id']}/", {"name": "still here"}).status_code == 200


@pytest.mark.parametrize("text", ["", "{}", " ", TREE, '{"==": [{"var":"message"},  "x"]}'])
def test_a_condition_is_stored_as_sent(ask, rules, text):
    made = ask("POST", rules, {"rule_json": text}).json

    assert made["rule_json"] == text
    assert ask("GET", f"{rules}{made['unique_id']}/").json["rule_json"] == text


WRONG_CONDITIONS = ["{", "[]", "3", '{"nosuch": []}', '{"a": 1, "b": 2}', "[" * 90_000, {}, 7]


def test_a_condition_that_cannot_be_evaluated_is_refused(ask, rules, add):
    def check(text):
        one = f"{rules}{add('x')}/"

        for method, path in (("POST", rules), ("PUT", one), ("PATCH", one)):
            refused = ask(method, path, {"rule_json": text}, scheme="Token")
            assert refused.status_code == 400
            assert set(refused.json["errors"]) == {"rule_json"}

    assert list_offenders(check, WRONG_CONDITIONS) == []


def test_an_update_changes_only_the_given_fields(ask, rules, world):
    body = {"name": "x", "rule_json": TREE, "actions": [build_target(world.integration.unique_id)]}
    made = ask("POST", rules, body).json
    one = f"{rules}{made['unique_id']}/"

    assert ask("PUT", one, {"name": "y", "position": 7}).json == {**made, "name": "y"}
    again = ask("PATCH", one, {"actions": made["actions"]}).json["actions"][0]
    assert again["integration_obj"] == made["actions"][0]["integration_obj"]
    assert again["unique_id"] != made["actions"][0]["unique_id"]
    assert ask("PATCH", one, {"actions": None}).json["actions"] == []


def test_a_new_rule_is_the_last_one(add, list_names):
    for name in "abc":
        add(name)

    assert list_names() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("rule", "position", "after"),
    [
        ("a", 1, "abcd"), ("a", 2, "bacd"), ("a", "4", "bcda"), ("a", 99, "bcda"),
        ("d", 1, "dabc"), ("c", 2, "acbd"), ("d", 4, "abcd"), ("b", 3.0, "acbd"),
    ],
    ids=str,
)  # fmt: skip
def test_a_rule_is_moved(ask, rules, add, list_names, rule, position, after):
    ids = {name: add(name) for name in "abcd"}

    moved = ask("PUT", rules, {"rule": ids[rule], "position": position})

    assert moved.status_code == 200
    assert [each["name"] for each in moved.json] == list(after)
    assert list_names() == list(after)


@pytest.mark.parametrize(
    "wrong",
    [{"rule": None}, {"rule": "x"}, {"rule": UNKNOWN_ROUTER}, {"position": 0}, {"position": "x"}],
    ids=str,
)
def test_invalid_positions_are_refused(ask, rules, add, list_names, wrong):
    body = {"rule": add("a"), "position": 1}

    assert ask("PUT", rules, {**body, **wrong}).status_code == 400
    assert ask("PUT", rules, {"rule": body["rule"]}).status_code == 400
    assert list_names() == ["a"]


def test_a_deletion_closes_the_gap_in_the_positions(ask, rules, add, list_names):
    ids = {name: add(name) for name in "abc"}

    assert ask("DELETE", f"{rules}{ids['b']}/").status_code == 204

    assert list_names() == ["a", "c"]
    add("d")
    assert list_names() == ["a", "c", "d"]


def test_a_router_has_a_limit_of_rules(ask, rules, add, monkeypatch):
    monkeypatch.setattr(routers.RULES, "max_rows", 2)
    add("a")
    add("b")

    assert ask("POST", rules, {"name": "c"}).status_code == 400


def test_rules_are_deleted_with_their_router(ask, router, add):
    add("a")

    assert ask("DELETE", router).status_code == 204
    assert RouterRule.select().count() == 0


def test_two_simultaneous_creates_get_different_positions(ask, rules, list_names):
    start = threading.Barrier(4)

    def add_rule(name: str) -> int:
        start.wait()
        return ask("POST", rules, {"name": name}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(add_rule, "abcd")) == {201}
    assert sorted(list_names()) == list("abcd")


def test_each_write_increments_the_configuration_version(ask, router, rules, add, world):
    def version() -> int:
        return ConfigVersion.get(ConfigVersion.account == world.account).version

    rule = add("a")
    seen = [version()]
    for method, path, body in (
        ("POST", rules, {"name": "b"}),
        ("PUT", rules, {"rule": rule, "position": 2}),
        ("PATCH", f"{rules}{rule}/", {"name": "c"}),
        ("DELETE", f"{rules}{rule}/", None),
        ("PATCH", router, {"is_enabled": False}),
        ("DELETE", router, None),
    ):
        assert ask(method, path, body).status_code in (200, 201, 204)
        seen.append(version())

    assert seen == sorted(set(seen))
