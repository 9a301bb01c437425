"""Grouping policies of a service."""

from datetime import timedelta

import pytest

from models.tables.rules import AlertGroupingPolicy
from tests.support.offenders import list_offenders


@pytest.fixture
def policies(world) -> str:
    service = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}"
    return f"{service}/alert-grouping-policies/"


BY_TITLE = {"match_fields": {"static_fields": ["incident_title"]}}


def test_a_policy_is_created_changed_and_deleted(ask, policies, world, now):
    made = ask("POST", policies, BY_TITLE).json
    one = f"{policies}{made['unique_id']}/"

    expected = {
        "service": world.service.unique_id, "match_mode": 1, "time_window": 5, "is_active": True,
        "match_fields": {"static_fields": ["incident_title"], "custom_fields": []},
    }  # fmt: skip
    assert {name: made[name] for name in expected} == expected
    assert made["created_at"] == made["updated_at"]
    AlertGroupingPolicy.update(creation_date=now - timedelta(days=1)).execute()
    changed = ask("PATCH", one, {"time_window": "20", "match_mode": 2, "is_active": False}).json
    assert (changed["time_window"], changed["match_mode"], changed["is_active"]) == (20, 2, False)
    assert changed["match_fields"] == made["match_fields"]
    assert changed["created_at"] < changed["updated_at"]
    assert ask("GET", policies).json == [changed]
    assert ask("DELETE", one).status_code == 204
    assert ask("GET", one).status_code == 404


def test_duplicate_fields_are_removed(ask, policies):
    fields = {"static_fields": ["integration", "integration"], "custom_fields": ["a.b", "$.c[0]", "a.b"]}

    made = ask("POST", policies, {"match_fields": fields}).json

    assert made["match_fields"] == {"static_fields": ["integration"], "custom_fields": ["a.b", "$.c[0]"]}


WRONG_FIELDS = [
    {}, [], "x", None, {"static_fields": []}, {"static_fields": ["status"]}, {"static_fields": [7]},
    {"custom_fields": [""]}, {"custom_fields": ["$"]}, {"custom_fields": ["a["]},
    {"custom_fields": ["x" * 1001]}, {"custom_fields": ["a"] * 21}, {"custom_fields": {"a": "b"}},
]  # fmt: skip


def test_invalid_fields_are_refused(ask, policies):
    def check(fields):
        refused = ask("POST", policies, {"match_fields": fields}, scheme="Token")

        assert refused.status_code == 400
        assert all(field.startswith("match_fields") for field in refused.json["errors"])

    assert list_offenders(check, WRONG_FIELDS, lambda fields: str(fields)[:40]) == []


@pytest.mark.parametrize(
    "wrong",
    [{"time_window": 0}, {"time_window": 21}, {"match_mode": 0}, {"match_mode": 3}, {"is_active": None}],
    ids=str,
)
def test_an_invalid_policy_is_refused(ask, policies, wrong):
    refused = ask("POST", policies, {**BY_TITLE, **wrong}, scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, list(wrong))


def test_a_policy_is_found_only_under_its_service(ask, policies, world):
    made = ask("POST", policies, BY_TITLE).json["unique_id"]
    services = f"/api/account/teams/{world.team.unique_id}/services/"
    body = {"escalation_policy": world.policy.unique_id, "sla": "", "team_priority": ""}
    other = ask("POST", services, body).json["unique_id"]

    assert ask("GET", f"{services}{other}/alert-grouping-policies/").json == []
    assert ask("GET", f"{services}{other}/alert-grouping-policies/{made}/").status_code == 404
