"""Outgoing rules: which incidents an outbound integration sends."""

import pytest

from models.tables.rules import OutgoingRule
from web.services.outgoing_rules import OUTGOING_RULES


@pytest.fixture
def rules(world) -> str:
    service = f"/api/v2/account/teams/{world.team.unique_id}/services/{world.service.unique_id}"
    return f"{service}/integrations/{world.integration.unique_id}/outgoingrules/"


def test_a_rule_is_created_changed_and_deleted(ask, rules):
    made = ask("POST", rules, {}).json
    one = f"{rules}{made['unique_id']}/"
    spaced = ' {"==" : [{"var": "urgency"},   1]}'

    assert (made["is_enabled"], made["rule_json"]) == (True, "")
    assert ask("PUT", one, {"rule_json": spaced}).json == {**made, "rule_json": spaced}
    assert ask("PATCH", one, {"is_enabled": "false"}).json["rule_json"] == spaced
    assert ask("GET", rules).json == [{**made, "rule_json": spaced, "is_enabled": False}]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [{"rule_json": "{"}, {"rule_json": '{"no_such": []}'}, {"rule_json": {}}, {"is_enabled": None}],
    ids=str,
)
def test_an_invalid_rule_is_refused(ask, rules, wrong):
    refused = ask("POST", rules, wrong, scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, list(wrong))


def test_the_number_of_rules_is_limited(ask, rules, world, now):
    OutgoingRule.insert_many(
        {"unique_id": str(n), "integration": world.integration, "creation_date": now}
        for n in range(OUTGOING_RULES.max_rows)
    ).execute()

    assert ask("POST", rules, {}).status_code == 400
