"""Escalation policies, services and integrations: the rules between their fields."""

from contextlib import contextmanager

import pytest

from models.domain.applications import GENERIC
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy
from tests.support.offenders import list_offenders
from tests.support.web.unknown_ids import NO_SUCH_ID

CONFERENCE = "bbfdaa85-a1c1-4d0a-b59a-0e24f081d237"


@pytest.fixture
def team(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}"


@pytest.fixture
def service(team, world) -> str:
    return f"{team}/services/{world.service.unique_id}/"


@pytest.fixture
def body(world) -> dict:
    return {"escalation_policy": world.policy.unique_id, "sla": "", "team_priority": None}


def test_a_service_has_the_defaults_of_the_interface(ask, team, body, world):
    made = ask("POST", f"{team}/services/", body).json

    expected = {
        "name": "", "auto_resolve_timeout": 0, "created_by": world.alice.username, "sla": None,
        "team_priority": None, "task_template": None, "acknowledgement_timeout_enabled": False,
        "acknowledgement_timeout": 600, "status": 1, "under_maintenance": False, "collation": 0,
        "collation_time": 0, "team": world.team.unique_id,
    }  # fmt: skip
    assert {name: made[name] for name in expected} == expected


@pytest.mark.parametrize("missing", ["escalation_policy", "sla", "team_priority"])
def test_references_of_a_service_may_be_blank_but_not_missing(ask, team, service, body, missing):
    del body[missing]

    for method, path in (("POST", f"{team}/services/"), ("PUT", service)):
        refused = ask(method, path, body)
        assert (refused.status_code, list(refused.json["errors"])) == (400, [missing])
    assert ask("PATCH", service, body).status_code == 200


@pytest.mark.parametrize("name", ["", "  ", None])
@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_a_blank_name_of_a_service_is_refused(ask, team, service, body, name, scheme):
    """Only a service that was created without the field has no name: the interface does not require it."""
    for method, path in (("POST", f"{team}/services/"), ("PATCH", service)):
        refused = ask(method, path, {**body, "name": name}, scheme=scheme)
        assert (refused.status_code, refused.json["errors"]) == (400, {"name": ["A service needs a name."]})


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_a_service_without_a_name_can_be_written_back(ask, team, body, method, scheme):
    """Clients change a field of what GET returned, and send all of it."""
    nameless = {name: value for name, value in body.items() if name != "name"}
    made = ask("POST", f"{team}/services/", nameless).json
    one = f"{team}/services/{made['unique_id']}/"
    read = ask("GET", one).json

    written = ask(method, one, {**read, "summary": "Of the shop"}, scheme=scheme)

    assert (written.status_code, written.json["name"], written.json["summary"]) == (200, "", "Of the shop")
    assert ask(method, one, {**read, "name": "Shop"}, scheme=scheme).status_code == 200
    assert ask(method, one, read, scheme=scheme).json["errors"] == {"name": ["A service needs a name."]}


def test_a_client_creates_a_service_without_priority_and_sla(ask, team, world):
    """The documented samples of three published clients omit them: contract 1.6, row 9."""
    sample = {"name": "Web", "escalation_policy": world.policy.unique_id}

    made = ask("POST", f"{team}/services/", sample, scheme="Token")

    assert made.status_code == 201
    assert (made.json["sla"], made.json["team_priority"]) == (None, None)


def test_a_client_changes_a_service_without_priority_and_sla(ask, team, service, world):
    """What a PUT omits stays unchanged, as in every update."""
    sla = ask("POST", f"{team}/sla/", {"name": "Gold", "escalations": []}).json["unique_id"]
    assert ask("PATCH", service, {"sla": sla}).status_code == 200

    changed = ask("PUT", service, {"name": "Web"}, scheme="Token")

    assert changed.status_code == 200
    assert changed.json["sla"] == sla
    assert changed.json["escalation_policy"] == world.policy.unique_id


def test_a_client_needs_a_policy_for_a_new_service(ask, team):
    refused = ask("POST", f"{team}/services/", {"name": "Web"}, scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["escalation_policy"])


@pytest.mark.parametrize("policy", ["", None, "x", NO_SUCH_ID])
def test_a_service_without_a_policy_is_refused(ask, service, policy):
    assert ask("PATCH", service, {"escalation_policy": policy}).status_code == 400


WRONG_SERVICES = [
    ({"acknowledgement_timeout": 0}, 200),
    ({"acknowledgement_timeout": "0", "acknowledgement_timeout_enabled": "false"}, 200),
    ({"acknowledgement_timeout_enabled": True}, 400),
    ({"acknowledgement_timeout_enabled": True, "acknowledgement_timeout": 600}, 400),
    ({"acknowledgement_timeout_enabled": "1", "acknowledgement_timeout": 601.0}, 200),
    ({"collation": 1}, 400),
    ({"collation": 1, "collation_time": 1}, 400),
    ({"collation": 1, "collation_time": 1440}, 400),
    ({"collation": "1", "collation_time": "2"}, 200),
    ({"collation": 0, "collation_time": 9999}, 200),
    ({"collation": 2, "collation_time": 5}, 400),
    ({"status": 5}, 400),
    ({"status": 1.5}, 400),
    ({"status": True}, 400),
    ({"status": None}, 400),
    ({"auto_resolve_timeout": -1}, 400),
    ({"auto_resolve_timeout": 10**30}, 400),
    ({"auto_resolve_timeout": "\u0661"}, 400),
    ({"under_maintenance": "maybe"}, 400),
    ({"under_maintenance": {}}, 400),
    ({"task_template": ""}, 200),
    ({"task_template": "x"}, 400),
    ({"name": "x" * 255}, 200),
    ({"name": "x" * 256}, 400),
    ({"unique_id": "x", "team": "", "creation_date": "", "acknowledge_timeout": "x"}, 200),
]


def test_an_invalid_service_is_refused(ask, service):
    def check(case):
        more, status = case
        before = ask("GET", service).json

        assert ask("PATCH", service, more).status_code == status
        if status == 400:
            assert ask("GET", service).json == before

    assert list_offenders(check, WRONG_SERVICES) == []


@pytest.fixture
def create_policy(ask, service):
    return lambda: ask(
        "POST", f"{service}alert-grouping-policies/", {"match_fields": {"static_fields": ["integration"]}}
    ).json["unique_id"]


def test_content_based_grouping_needs_a_policy(ask, team, service, body, create_policy):
    refused = [
        ask("PATCH", service, {"collation": 3}),
        ask("POST", f"{team}/services/", {**body, "collation": 3}),
    ]
    create_policy()
    accepted = ask("PATCH", service, {"collation": 3})

    why = "3 needs an alert grouping policy of the service: create the policy first."
    assert [each.json["errors"] for each in refused] == [{"collation": [why]}] * 2
    assert (accepted.status_code, accepted.json["collation"]) == (200, 3)


def test_a_client_creates_a_service_with_content_based_grouping(ask, team, body):
    """Published clients create the service first, and its policies after it."""
    made = ask("POST", f"{team}/services/", {**body, "collation": 3, "collation_time": 0}, scheme="Token")

    assert (made.status_code, made.json["collation"], made.json["collation_time"]) == (201, 3, 0)


def test_content_based_grouping_without_its_policy_can_be_written_back(ask, service, create_policy):
    policy = create_policy()
    assert ask("PATCH", service, {"collation": 3}).status_code == 200
    assert ask("DELETE", f"{service}alert-grouping-policies/{policy}/").status_code == 204

    assert ask("PUT", service, ask("GET", service).json).json["collation"] == 3


def test_the_rules_between_fields_include_unchanged_fields(ask, service):
    enabled = {"acknowledgement_timeout_enabled": True, "acknowledgement_timeout": 900}
    assert ask("PATCH", service, enabled).status_code == 200

    assert ask("PATCH", service, {"acknowledgement_timeout": 60}).status_code == 400
    assert ask("PATCH", service, {"name": "x"}).json["acknowledgement_timeout"] == 900


def build_rules(*steps: tuple, **more) -> dict:
    listed = [
        {"delay": delay, "targets": [{"target_type": 2, "target_id": name} for name in names]}
        for delay, *names in steps
    ]
    return {"name": "Night", "rules": listed, **more}


def test_a_policy_keeps_its_steps_in_order_and_numbers_them(ask, team, world):
    body = build_rules(
        (0, world.alice.username), (5.0, world.bob.username, world.alice.username), ("10", world.bob.username)
    )

    made = ask("POST", f"{team}/escalation_policies/", body).json

    assert [(rule["delay"], rule["position"]) for rule in made["rules"]] == [(0, 1), (5, 2), (10, 3)]
    assert [target["position"] for target in made["rules"][1]["targets"]] == [0, 1]
    assert (made["repeat_policy"], made["move_to_next"], made["global_ep"], made["connections"]) == (
        0, True, False, 0,
    )  # fmt: skip


def test_positions_from_a_client_are_used(ask, team, world):
    body = build_rules((5, world.bob.username), (0, world.alice.username))
    for rule, position in zip(body["rules"], (2, 1), strict=True):
        rule["position"] = position
        rule["targets"][0]["position"] = 1

    made = ask("POST", f"{team}/escalation_policies/", body).json

    assert [rule["delay"] for rule in made["rules"]] == [0, 5]
    assert made["rules"][0]["targets"][0]["position"] == 1


WRONG_POLICIES = [
    {"rules": [{"delay": 5}, {"delay": 4}]}, {"rules": [{"delay": -1}]}, {"rules": [{"delay": 10**9}]},
    {"rules": [{"delay": 0}]}, {"rules": [{"targets": []}]}, {"rules": [{"targets": None}]},
    {"rules": [{"targets": [{"target_type": 2, "target_id": "x"}]}]}, {"rules": "x"}, {"rules": [7]},
    {"rules": [{"targets": [{"target_type": 3, "target_id": "x"}]}]}, {"rules": [{"targets": [{}]}]},
    {"rules": [{"targets": [{"target_type": 1, "target_id": NO_SUCH_ID}]}]}, {"repeat_policy": 11},
    {"repeat_policy": -1}, {"move_to_next": "x"}, {"assignment_settings": {"assignee_strategy": 3}},
]  # fmt: skip


def test_an_invalid_policy_is_refused(ask, team, world):
    def check(wrong):
        path = f"{team}/escalation_policies/{world.policy.unique_id}/"
        before = ask("GET", path).json

        assert ask("PATCH", path, wrong).status_code == 400
        assert ask("GET", path).json == before

    assert list_offenders(check, WRONG_POLICIES, str) == []


@pytest.mark.parametrize("nothing", [None, ""])
def test_blank_assignment_settings_mean_none(ask, team, world, nothing):
    path = f"{team}/escalation_policies/{world.policy.unique_id}/"
    before = ask("GET", path).json

    changed = ask("PATCH", path, {"assignment_settings": nothing})

    assert (changed.status_code, changed.json) == (200, before)


def test_a_policy_has_at_most_a_hundred_steps(ask, team, world):
    path = f"{team}/escalation_policies/{world.policy.unique_id}/"
    step = {"delay": 0, "targets": [{"target_type": 2, "target_id": world.alice.username}]}

    assert ask("PATCH", path, {"rules": [step] * 100}).status_code == 200
    assert ask("PATCH", path, {"rules": [step] * 101}).status_code == 400


def test_a_policy_that_a_service_uses_cannot_be_deleted(ask, team, world, service):
    path = f"{team}/escalation_policies/{world.policy.unique_id}/"
    assert ask("GET", path).json["connections"] == 1
    assert ask("DELETE", path).status_code == 400

    assert ask("DELETE", service).status_code == 204
    assert ask("DELETE", path).status_code == 204
    assert not EscalationPolicy.select().where(EscalationPolicy.id == world.policy.id).exists()


def test_a_put_of_a_policy_changes_only_given_fields(ask, team, world):
    path = f"{team}/escalation_policies/{world.policy.unique_id}/"
    body = build_rules((0, world.bob.username))

    assert ask("PUT", path, {"name": "x"}).status_code == 400
    assert ask("PUT", path, {"name": "x"}, scheme="Token").status_code == 200
    assert ask("PUT", path, body).json["summary"] == world.policy.summary


@pytest.fixture
def integrations(service) -> str:
    return f"{service}integrations/"


def test_an_integration_needs_a_known_application(ask, integrations):
    assert ask("POST", integrations, {"name": "x"}).status_code == 400
    assert ask("POST", integrations, {"application": NO_SUCH_ID}).status_code == 400
    made = ask("POST", integrations, {"application": GENERIC, "create_incidents_for": "3"}).json
    one = f"{integrations}{made['unique_id']}"

    assert (made["create_incidents_for"], made["is_enabled"], made["default_urgency"]) == (3, True, 1)
    assert ask("PUT", one, {"is_enabled": "false"}).json["is_enabled"] is False
    assert ask("PUT", one, {"application": ""}).status_code == 400
    assert ask("PATCH", one, {"create_incidents_for": 4}).status_code == 400


def test_an_application_may_be_given_in_capitals(ask, integrations):
    made = ask("POST", integrations, {"application": GENERIC.upper()})
    changed = ask("PATCH", f"{integrations}{made.json['unique_id']}/", {"application": GENERIC.upper()})

    assert (made.status_code, made.json["application"]) == (201, GENERIC)
    assert (changed.status_code, changed.json["application"]) == (200, GENERIC)
    assert ask("GET", integrations).status_code == 200


def test_an_integration_can_have_a_description(ask, integrations):
    made = ask("POST", integrations, {"application": GENERIC}).json
    one = f"{integrations}{made['unique_id']}/"

    assert made["description"] == ""
    assert (
        ask("PATCH", one, {"description": "Of the old cluster"}).json["description"] == "Of the old cluster"
    )
    assert ask("PUT", one, {"name": "x"}).json["description"] == "Of the old cluster"


@pytest.mark.parametrize(
    "body",
    [{"application": GENERIC, "integration_type": 1}, {"application": CONFERENCE, "integration_type": 0}],
    ids=["outbound integration", "outbound application"],
)
def test_an_outbound_integration_has_no_webhook_url(ask, integrations, body):
    made = ask("POST", integrations, body).json
    alert = {"application": GENERIC, "integration_type": 0}
    changed = ask("PUT", f"{integrations}{made['unique_id']}/", alert).json

    assert made["webhook_url"] == ""
    assert changed["integration_key"] in changed["webhook_url"]


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_an_application_is_active(ask, integrations, scheme):
    made = ask("POST", integrations, {"application": GENERIC}, scheme=scheme).json

    listed = ask("GET", "/api/account/applications/", scheme=scheme).json
    assert {made["application_reference"]["is_active"], *(one["is_active"] for one in listed)} == {1}


@pytest.mark.parametrize(
    "unique_id",
    [
        "27c9800c-2856-490d-8119-790be1308dd4",
        "07c84d47-7e71-49ec-b781-1cc81a78086e",
        "1ef0e211-82fb-454a-96c4-20bd26ebdcab",
        "bb399bc6-9098-4afd-91d7-3cec4d8282eb",
        "bbfdaa85-a1c1-4d0a-b59a-0e24f081d237",
    ],
)
@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_the_applications_of_published_examples_are_accepted(ask, integrations, unique_id, scheme):
    made = ask("POST", integrations, {"application": GENERIC}, scheme=scheme).json
    created = ask("POST", integrations, {"application": unique_id}, scheme=scheme)
    updated = ask("PUT", f"{integrations}{made['unique_id']}/", {"application": unique_id}, scheme=scheme)

    assert [created.status_code, updated.status_code] == [201, 200]
    assert {one.json["application_reference"]["unique_id"] for one in (created, updated)} == {unique_id}


def test_a_key_of_an_unknown_integration_is_not_regenerated(ask):
    path = "/api/account/regenerate_integration_key/"

    refused = ask("POST", path, {"integration_unique_id": NO_SUCH_ID}, scheme="Token")

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["integration_unique_id"])


def test_a_new_key_replaces_the_old_key(ask, world):
    old = world.integration.integration_key
    path = "/api/account/regenerate_integration_key/"

    answer = ask("POST", path, {"integration_unique_id": world.integration.unique_id})

    assert answer.status_code == 200
    assert answer.json["integration_key"] != old
    assert answer.json["integration_key"] in answer.json["webhook_url"]
    assert not Integration.select().where(Integration.integration_key == old).exists()


def test_an_object_that_is_deleted_in_the_meantime_is_not_found(ask, world, monkeypatch):
    @contextmanager
    def delete_meanwhile():
        Integration.delete().execute()
        yield

    monkeypatch.setattr("web.services.integrations.config_transaction", delete_meanwhile)
    path = "/api/account/regenerate_integration_key/"

    answer = ask("POST", path, {"integration_unique_id": world.integration.unique_id})

    assert (answer.status_code, answer.json) == (404, {"detail": "Not Found."})


def test_a_deletion_of_a_service_deletes_its_integrations(ask, service, world):
    assert ask("DELETE", service).status_code == 204

    assert Integration.select().count() == 0
    assert Service.select().count() == 0
