"""What test_new_action.py runs in a process with the action of tests/support/web/page_action.py."""

import pytest

from models.tables.incidents import Incident
from models.tables.rules import AlertRule
from workers.alerts import process_lane


@pytest.fixture
def rules(world) -> str:
    path = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}"
    return f"{path}/integrations/{world.integration.unique_id}/transformers/"


def test_a_rule_with_the_action_is_created_and_acts_until_its_user_is_removed(ask, rules, world):
    made = ask("POST", rules, {"actions": [{"action_type": 99, "marks": 3, "listener": world.bob.username}]})
    assert made.status_code == 201, made.json
    (shown,) = ask("GET", f"{rules}{made.json['unique_id']}/").json["actions"]
    assert (shown["marks"], shown["listener"]) == ("3", world.bob.username)
    assert shown["value_reference_name"] == "Bob"

    path = f"/integration/{world.account.account_identifier}/generic/{world.integration.integration_key}/"
    trace = ask("POST", path, {"message": "Disk full", "alert_type": "critical"}, who=None).json["trace_id"]
    process_lane.run(world.service.id)
    incident = Incident.get()
    assert (incident.title, incident.assigned_to) == ("DISK FULL!!!", world.bob)
    ((record,),) = (alert["rules"] for alert in ask("GET", f"/api/tocsin/alerts/{trace}/").json["alerts"])
    assert record["actions"] == [{"action": "page_loudly", "from": "Disk full", "to": "DISK FULL!!!"}]

    assert ask("POST", "/api/account/deleteuser/", {"username": world.bob.username}).status_code == 204
    assert AlertRule.get(AlertRule.unique_id == made.json["unique_id"]).actions == []


def test_values_and_references_of_the_action_are_checked(ask, rules, world):
    wrong = {
        "marks": {"marks": "many", "listener": world.bob.username},
        "listener": {"marks": "3", "listener": "39569d4b-6540-4b64-a086-6"},
    }
    for field, fields in wrong.items():
        refused = ask("POST", rules, {"actions": [{"action_type": 99, **fields}]}, scheme="Token")
        assert (refused.status_code, set(refused.json["errors"])) == (400, {f"actions.0.{field}"})


def test_the_description_has_the_action_and_its_fields(ask):
    schema = ask("GET", "/api/openapi.json", who=None).json["components"]["schemas"]["ActionBody"][
        "properties"
    ]

    assert schema["action_type"]["enum"] == [*range(1, 20), 99]
    assert schema["marks"] == {"type": "string", "maxLength": 16 * 1024, "description": "How many marks."}
    assert schema["listener"]["type"] == ["string", "null"]
