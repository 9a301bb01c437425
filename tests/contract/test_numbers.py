"""Each object of the configuration has a number: in the ETag of answers, and checked with If-Match."""

from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.contract.matrix import name, tried
from tests.support.contract.operations import OPERATIONS, Row
from tests.support.contract.requests import (
    build_body,
    dump_all_rows,
    get_path,
    with_alert,
)
from web.routes import ROUTES

__all__ = ["with_alert"]

ROUTE = {(route.method, route.path): route for route in ROUTES}
NUMBERED = [row for row in OPERATIONS if ROUTE[row.method, row.path].is_numbered]
CHANGES = [row for row in OPERATIONS if ROUTE[row.method, row.path].has_condition]
# Rows that a test of their own has: their object is named in the body.
NAMED_IN_BODY = ("/api/account/deleteuser/", "/api/account/regenerate_integration_key/")
XML = {"Accept": "application/xml"}

# Operations with one object that is no configuration: incidents and what belongs to them, alerts, reports,
# and steps of verification.
WITHOUT_NUMBER = {
    "create_incident_note", "retrieve_incident_note", "update_incident_note", "change_incident_note",
    "destroy_incident_note", "create_incident_tag", "retrieve_incident_tag", "update_incident_tag",
    "change_incident_tag", "destroy_incident_tag", "create_incident_responder",
    "retrieve_incident_responder", "update_incident_responder", "change_incident_responder",
    "destroy_incident_responder", "create_responder", "retrieve_responder", "update_responder",
    "change_responder", "destroy_responder", "create_role_in_an_incident", "destroy_role_in_an_incident",
    "create_incident_task", "retrieve_incident_task", "update_incident_task", "change_incident_task",
    "destroy_incident_task", "incidents_create", "incidents_retrieve", "incidents_update",
    "incidents_change", "traced_retrieve", "actions_reassign", "actions_snooze", "actions_unsnooze",
    "actions_merge", "actions_unmerge", "drills_create", "drills_retrieve", "dead_letters_retrieve",
    "dead_letters_replay", "dead_letters_destroy", "outbound_resend", "simulate_run", "dry_run_run",
    "source_setup_try_body", "integration_health_retrieve", "notification_figures_show", "profile_show",
    "calendars_get_own_address", "calendars_renew", "calendars_renew_for_user", "contact_test_start",
    "alerts_of_integration_get_metadata", "analytics_get_incident_stats", "analytics_get_service_analytics",
    "analytics_get_team_analytics", "analytics_get_user_analytics", "calendars_get_schedule_address",
    "escalation_policies_list_available", "integration_health_list_silent", "schedule_overview_get_on_call",
    "schedule_overview_get_timeline", "contact_codes_send", "contact_codes_show",
    "contact_codes_verify", "invitations_resend", "changes_undo", "deletion_show",
    "history_retrieve",
}  # fmt: skip
# Creates an object, or shows one that it does not change. Such operations have no condition.
MAKES = {"create", "invitations", "contacts", "tokens"}


def test_each_operation_on_one_object_of_the_configuration_has_its_number():
    single = {
        route.name
        for route in ROUTES
        if route.documented
        and route.auth == "token"
        and not route.many
        and (route.response is not None or route.method == "DELETE")
        and not {"results", "count"} <= set(route.response.fields if route.response else ())
    }
    checked = {route.name for route in ROUTES if route.is_numbered or route.has_condition}

    assert sorted(single - checked - WITHOUT_NUMBER) == []
    assert sorted(WITHOUT_NUMBER - single) == []


def test_each_operation_that_changes_a_numbered_object_has_a_condition():
    without = {
        route.name
        for route in ROUTES
        if route.is_numbered and route.method != "GET" and not route.has_condition
    }

    assert {each for each in without if each.partition("_")[0] not in MAKES} == set()


def get_read_path(row: Row, samples: Any) -> str:
    """Return the path at which the object is read that an operation changes."""
    path = get_path(row, samples)
    if path.endswith(("/source/secret/", "/outbound/secret/")):
        return path.removesuffix("secret/")
    return path.removesuffix("rulesets/") if row.method == "PUT" and path.endswith("/rulesets/") else path


def read_number(ask: Any, path: str) -> int:
    found = ask("GET", path)
    assert found.status_code == 200, (path, found.text)
    return int(found.headers["ETag"].strip('"'))


def test_each_update_checks_and_raises_the_number_once(ask, samples):
    """All of them in one world: an update leaves the other objects."""
    for row in tried(row for row in CHANGES if row.status != 204 and row.path not in NAMED_IN_BODY):
        path, body, read_path = get_path(row, samples), build_body(row, samples), get_read_path(row, samples)
        before = read_number(ask, read_path)

        assert_refused(ask, row, path, body, read_path)
        answer = ask(row.method, path, body, headers={"If-Match": f'"{before}"'})

        assert answer.status_code == row.status, (name(row), answer.text)
        assert answer.headers.get("ETag") == (f'"{before + 1}"' if row in NUMBERED else None), name(row)
        assert read_number(ask, read_path) == before + 1, name(row)


def test_each_delete_checks_the_number(ask, samples):
    """What is inside another object is deleted first."""
    rows = tried(row for row in CHANGES if row.status == 204 and row.path not in NAMED_IN_BODY)
    # A service uses the policy. Two paths lead to the schedule.
    for row in sorted(
        rows, key=lambda row: (row.path[:12] != "/api/tocsin/", -row.path.count("/"), "policy_id" in row.path)
    ):
        if "/schedule/<" in row.path or "/contacts/<" in row.path:
            continue
        path, read_path = get_path(row, samples), get_read_path(row, samples)
        number = read_number(ask, read_path)

        assert_refused(ask, row, path, None, read_path)
        answer = ask("DELETE", path, headers={"If-Match": f'"0", "{number}"'})

        assert (answer.status_code, answer.data) == (204, b""), (name(row), answer.text)
        assert "ETag" not in answer.headers


def assert_refused(ask: Any, row: Row, path: str, body: Any, read_path: str) -> None:
    """Assert that a write with an old number changes nothing, and gets the object as it is now."""
    shown, rows = ask("GET", read_path), dump_all_rows()

    refused = ask(row.method, path, body, headers={"If-Match": '"999"'})

    assert refused.status_code == 412, (name(row), refused.text)
    assert dump_all_rows() == rows, name(row)
    assert refused.headers["ETag"] == shown.headers["ETag"], name(row)
    assert set(refused.json) == {"detail", "number", "current", "changed"}, name(row)
    assert refused.json["number"] == int(shown.headers["ETag"].strip('"')), name(row)
    assert refused.json["current"] == shown.json, name(row)


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_a_refusal_in_xml_has_the_object_and_its_number(ask, samples, scheme):
    path = f"/api/account/teams/{samples.ids['team_id']}/roles/{samples.ids['incident_role_id']}/"
    shown = ElementTree.fromstring(ask("GET", path, scheme=scheme, headers=XML).data)

    refused = ask("PATCH", path, {"rank": 4}, scheme=scheme, headers={"If-Match": 'W/"1"', **XML})

    assert (refused.status_code, refused.mimetype) == (412, "application/xml")
    found = ElementTree.fromstring(refused.data)
    assert (found.findtext("number"), refused.headers["ETag"]) == ("1", '"1"')
    assert [each.text for each in found.find("current")] == [each.text for each in shown]


def test_the_removal_of_a_member_checks_the_number_of_the_person(ask, samples, world):
    path = f"/api/account/members/{world.charlie.username}/"
    body = {"username": world.charlie.username}
    number = read_number(ask, path)

    refused = ask("POST", "/api/account/deleteuser/", body, headers={"If-Match": f'"{number + 1}"'})
    assert (refused.status_code, refused.json["current"]["user"]["username"]) == (412, world.charlie.username)
    assert ask("GET", path).status_code == 200

    removed = ask("POST", "/api/account/deleteuser/", body, headers={"If-Match": f'"{number}"'})
    assert removed.status_code == 204


def test_a_new_key_raises_the_number_of_its_integration(ask, samples):
    path = (
        f"/api/account/teams/{samples.ids['team_id']}/services/{samples.ids['service_id']}"
        f"/integrations/{samples.ids['integration_id']}/"
    )
    number = read_number(ask, path)
    body = {"integration_unique_id": samples.ids["integration_id"]}

    renewed = ask("POST", "/api/account/regenerate_integration_key/", body)

    assert renewed.headers["ETag"] == f'"{number + 1}"'
    assert read_number(ask, path) == number + 1


def test_an_answer_is_never_not_modified(ask, samples):
    path = f"/api/account/teams/{samples.ids['team_id']}/"
    tag = ask("GET", path).headers["ETag"]

    assert ask("GET", path, headers={"If-None-Match": tag}).status_code == 200
    assert ask("GET", path, headers={"If-None-Match": "*"}).status_code == 200
