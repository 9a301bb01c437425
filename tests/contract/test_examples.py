"""The examples of the description can be sent: each operation accepts its own, with ids that exist."""

import pytest

from tests.support.contract.matrix import group_by_table, name
from tests.support.contract.operations import OPERATIONS, Row
from tests.support.contract.requests import free_policy, get_path, with_alert
from web.http.openapi import examples

__all__ = ["with_alert"]

# Our own operations without a row of the contract. Those that need a code, an acknowledged incident or other
# incidents are missing.
OWN = (
    Row("POST", "/api/tocsin/users/<username>/contacts/", 201, None, "contact"),
    Row("POST", "/api/tocsin/rules/try/", 200, None, "rule"),
    Row("POST", "/api/tocsin/drills/", 201, None, "drill"),
)
WITH_BODY = [row for row in (*OPERATIONS, *OWN) if row.body is not None]
# A second object like the one that a change made would be refused.
CREATING = [row for row in WITH_BODY if row.method == "POST"]
CHANGING = [row for row in WITH_BODY if row.method != "POST"]
# Which id of the sample account a field of an example names. An example has the same id in every field.
IDS = {
    "contact": "contact_id",
    "custom_role": "custom_role_id",
    "escalation_policy": "escalation_policy_id",
    "incident": "incident_id",
    "integration": "integration_id",
    "integration_unique_id": "integration_id",
    "policy": "escalation_policy_id",
    "role": "incident_role_id",
    "rule": "ruleset_id",
    "schedule": "schedule_id",
    "service": "service_id",
    "sla": "sla_id",
    "task_template": "task_template_id",
    "team": "team_id",
    "team_ids": "team_id",
    "team_priority": "priority_id",
    "team_tag": "other_tag_id",
}


@pytest.mark.usefixtures("with_alert")
@pytest.mark.parametrize("rows", [*group_by_table(CREATING), *group_by_table(CHANGING)])
def test_each_operation_accepts_its_own_example(ask, samples, described, world, rows):
    refused = []
    for row in rows:
        free_policy(row, ask, samples)
        # Charlie is in no list yet, and Bob's rows are changed. Bob cannot forward to himself.
        person = world.charlie if row.method == "POST" or row.body == "forwarding_rule" else world.bob
        body = name_existing(described.example(row), samples, person.username)

        answer = ask(row.method, get_path(row, samples), body)

        if answer.status_code != row.status:
            refused.append((name(row), answer.status_code, answer.text[:300], body))
    assert refused == []


def name_existing(value, samples, username, field=""):
    """Replace the ids of an example with those of the sample account."""
    if isinstance(value, dict):
        return {key: name_existing(inner, samples, username, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [name_existing(inner, samples, username, field) for inner in value]
    if value == examples.USERNAME:
        return username
    if value in (examples.UUID, examples.SHORT_ID) and field in IDS:
        return samples.ids[IDS[field]]
    return value
