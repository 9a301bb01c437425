"""Accounts are isolated, and teams share only what is permitted.

Invariant 10 (design, section 2). The tests send every operation as a person without the permission.
"""

import re
from typing import Any

import pytest

from models.store.ids import make_uuid
from tests.support.contract.matrix import name, tried
from tests.support.contract.requests import BODIES, dump_all_rows
from tests.support.contract.samples import build_step
from tests.support.offenders import list_offenders
from web.routes import ROUTES

# Operations without a token: the path contains a key, or the answer contains no data of an account.
OPEN = {
    "/api/events/<integration_key>/",
    "/integration/<account_id>/<extension>/<integration_key>/",
    "/api/integration/<extension>/<integration_key>/",
    "/integration/<account_id>/heartbeat/<integration_key>/",
    "/integration/<account_id>/httphealthcheck/<integration_key>/<alert_type>/",
    "/api/integration/httphealthcheck/<integration_key>/<alert_type>/",
    "/api/integration/heartbeat/<integration_key>/",
    # The request contains a key: tests/web/event_apis.
    "/api/v2/alerts/",
    "/integration/alertmanager/<integration_key>/api/v2/alerts/",
    "/v2/enqueue/",
    "/generic/2010-04-15/create_event.json/",
    "/v2/alerts/",
    "/v2/alerts/requests/<request_id>/",
    "/v2/alerts/<path:identifier>/<action>/",
    "/v2/alerts/<path:identifier>/",
    "/v2/alerts/<path:identifier>/tags/",
    "/v2/alerts/<path:identifier>/priority/",
    "/v2/alerts/<path:identifier>/snooze/",
    "/integrations/generic/20131114/alert/<integration_key>/",
    "/integrations/generic/20131114/alert/<integration_key>/<path:routing_key>/",
    "/api/openapi.json",
    "/api/docs/",
    # Numbers of the whole installation, without names: tests/web/operations/test_metrics.py.
    "/metrics",
    # The health of the whole installation, without names: tests/web/pages/test_start.py.
    # The path contains a signed link without names: tests/web/pages/test_linked_incident.py.
    "/i/<token>",
    # The path contains a signed link without names: tests/web/pages/test_bundle.py.
    "/b/<token>",
    # The path contains a signed link without names: tests/web/pages/console/test_linked_swap.py.
    "/swap/<token>",
    # The path contains a signed invitation: tests/web/pages/test_join.py.
    "/join/<token>",
    # The path contains a signed link or invitation: tests/web/pages/test_browser_push.py.
    "/i/<token>/browser/",
    "/join/<token>/browser/",
    # A script and a public key, the same for everybody: tests/web/pages/test_browser_push.py.
    "/push.js",
    "/push/key/",
    # The path contains a signed link: tests/web/callbacks.
    "/callbacks/ntfy/<token>/<action>/",
    "/callbacks/web_push/<token>/<action>/",
    # The provider signs the request: tests/web/callbacks.
    "/callbacks/slack/",
    "/callbacks/telegram/",
    "/callbacks/twilio/phone/digits/",
    "/callbacks/twilio/phone/status/",
    "/callbacks/twilio/sms/reply/",
    "/callbacks/twilio/sms/status/",
    # The path contains a signed address: tests/web/oncall/test_calendars.py.
    "/calendars/<token>.ics",
}
# All members of an account may see each other, and the applications that the account added.
SEEN_BY_ALL = {
    ("GET", "/api/account/members/<username>/"),
    ("GET", "/api/account/users/<username>/"),
    ("GET", "/api/tocsin/applications/<application_id>/"),
}

# Refused to all plain members without a custom role.
FOR_ADMINS = {"/api/v2/account/events/router/", "/api/account/customroles/", "/api/tocsin/stakeholders/"}

GUARDED = [route for route in ROUTES if route.path not in OPEN]
WITH_IDS = [route for route in GUARDED if "<" in route.path]
WITHOUT_IDS = [route for route in GUARDED if "<" not in route.path]


def build_request(route: Any, samples: Any) -> tuple[str, str, Any]:
    path = re.sub("<([a-z_]+)>", lambda found: samples.ids[found[1]], route.path)
    return route.method, path, samples.bodies.get(BODIES.get((route.method, route.path)) or "")


def test_only_these_operations_need_no_token():
    assert {route.path for route in ROUTES if route.auth is None} == OPEN


def test_requests_without_a_token_show_nothing(ask, samples):
    refused = {name(route): ask(*build_request(route, samples), who=None) for route in tried(GUARDED)}

    received = {
        each: (answer.status_code, answer.headers.get("WWW-Authenticate"), answer.json)
        for each, answer in refused.items()
    }
    nothing = {"detail": "Authentication credentials were not provided."}
    assert received == dict.fromkeys(received, (401, "Token", nothing))


def test_objects_of_another_account_are_not_found(ask, samples):
    before = dump_all_rows()

    refused = {name(route): ask(*build_request(route, samples), who="mallory") for route in tried(WITH_IDS)}

    received = {each: (answer.status_code, answer.json) for each, answer in refused.items()}
    # This operation says when alerts are deleted: the same for every trace_id that is not found.
    trace = "GET /api/tocsin/alerts/<trace_id>/"
    unknown = ask("GET", f"/api/tocsin/alerts/{make_uuid()}/", who="mallory")
    assert received.pop(trace) == (404, unknown.json)
    assert received == dict.fromkeys(received, (404, {"detail": "Not Found."}))
    assert dump_all_rows() == before


NOT_FOR_ALL = [route for route in WITH_IDS if (route.method, route.path) not in SEEN_BY_ALL]


def test_objects_of_another_team_are_forbidden(ask, samples):
    before = dump_all_rows()

    refused = {
        name(route): ask(*build_request(route, samples), who="charlie") for route in tried(NOT_FOR_ALL)
    }

    received = {each: (answer.status_code, answer.json) for each, answer in refused.items()}
    forbidden = {"detail": "You do not have permission to perform this action."}
    assert received == dict.fromkeys(received, (403, forbidden))
    assert dump_all_rows() == before


@pytest.mark.parametrize("who", ["mallory", "charlie"])
def test_lists_show_no_objects_of_others(ask, samples, world, who):
    hidden = {key: one for key, one in samples.ids.items() if key.endswith("_id") and key != "account_id"}
    if who == "charlie":
        del hidden["application_id"]
    if who == "mallory":
        hidden |= {"alice": world.alice.username, "bob": world.bob.username}

    def check(route: Any) -> None:
        listed = ask("GET", route.path, who=who)
        refused = who == "charlie" and route.path in FOR_ADMINS
        assert listed.status_code == (403 if refused else 200)
        assert [key for key, one in hidden.items() if one in listed.text] == []

    assert list_offenders(check, tried(r for r in WITHOUT_IDS if r.method == "GET"), name) == []


# The bodies of these operations name no other object.
WITHOUT_NAMES = (
    "/api/account/teams/",
    "/api/account/customroles/",
    "/api/incidents/filter/",
    "/api/tocsin/applications/",
    "/api/tocsin/stakeholders/",
    "/api/tocsin/tokens/",
    "/api/v2/account/events/router/",
)
# These only count: tests/web/incidents/test_analytics.py.
COUNTING = "/api/v2/account/analytics/"
NAMING = [
    route
    for route in WITHOUT_IDS
    if route.method == "POST" and route.path not in WITHOUT_NAMES and not route.path.startswith(COUNTING)
]


@pytest.mark.parametrize("route", tried(NAMING), ids=name)
@pytest.mark.parametrize("who", ["mallory", "charlie"])
def test_bodies_with_foreign_objects_change_nothing(ask, samples, route, who):
    before = dump_all_rows()

    refused = ask(*build_request(route, samples), who=who)

    assert refused.status_code in (400, 403, 404)
    assert dump_all_rows() == before


@pytest.mark.parametrize("who", ["mallory", "charlie"])
def test_a_filter_finds_no_foreign_incidents(ask, samples, who):
    ids = samples.ids
    body = {"status": 0, "team_ids": [ids["team_id"]], "service_ids": [ids["service_id"]]}

    assert ask("POST", "/api/incidents/filter/", body, who=who).json["results"] == []
    assert ask("POST", "/api/incidents/filter/", {"status": 0}, who=who).json["results"] == []
    assert len(ask("POST", "/api/incidents/filter/", body, who="bob").json["results"]) == 2


@pytest.fixture
def foreign(ask, world) -> dict[str, dict[str, str]]:
    """Return ids of objects in Mallory's account and Charlie's team, by kind."""
    found: dict[str, dict[str, str]] = {}
    for who, team in (("mallory", world.mallorys_team), ("charlie", world.charlies_team)):
        path = f"/api/account/teams/{team.unique_id}"
        user = getattr(world, who).username
        rules = {"name": "Mine", "rules": [build_step(0, user)]}
        policy = ask("POST", f"{path}/escalation_policies/", rules, who=who).json["unique_id"]
        service = {"escalation_policy": policy, "sla": "", "team_priority": ""}
        contacts = ask("GET", f"/api/account/users/{user}/contacts/", who=who).json
        found[who] = {
            "policy": policy,
            "sla": ask("POST", f"{path}/sla/", {"escalations": []}, who=who).json["unique_id"],
            "priority": ask("POST", f"{path}/priority/", {}, who=who).json["unique_id"],
            "service": ask("POST", f"{path}/services/", service, who=who).json["unique_id"],
            "contact": contacts[0]["unique_id"],
            "tag": ask("POST", f"{path}/tags/", {"name": "x"}, who=who).json["unique_id"],
            "role": ask("GET", f"{path}/roles/", who=who).json[0]["unique_id"],
            "template": ask("POST", f"{path}/task_templates/", {"name": "x"}, who=who).json["unique_id"],
            "schedule": ask("POST", f"{path}/schedules/", {"name": "x"}, who=who).json["unique_id"],
            "team": team.unique_id,
            "user": user,
        }
    return found


ROUTER = "/api/v2/account/events/router/{router_id}"
TEAM = "/api/account/teams/{team_id}"
USER = "/api/account/users/{username}"
SERVICE = TEAM + "/services/{service_id}/"
OURS = "/api/tocsin/incidents/1/"

# method, path, body with the kind of a foreign object in it
REFERENCES = (
    ("PATCH", SERVICE, {"escalation_policy": "policy"}),
    ("PATCH", SERVICE, {"sla": "sla"}),
    ("PATCH", SERVICE, {"team_priority": "priority"}),
    ("PATCH", "/api/incidents/1/", {"escalation_policy": "policy"}),
    ("PATCH", "/api/incidents/1/", {"sla": "sla"}),
    ("PATCH", "/api/incidents/1/", {"team_priority": "priority"}),
    ("POST", "/api/incidents/1/tags/", {"team_tag": "tag"}),
    ("POST", "/api/v2/incidents/1/responders/", {"escalation_policy": "policy"}),
    ("POST", OURS + "roles/", {"role": "role", "user": "user"}),
    ("PATCH", OURS + "tasks/{incident_task_id}/", {"role": "role"}),
    ("PATCH", USER + "/notification_rules/{notification_rule_id}/", {"contact": "contact"}),
)  # fmt: skip
# All members and teams of the account are allowed here, so only those of other accounts are refused.
PEOPLE = (
    ("PATCH", "/api/incidents/1/", {"assigned_to": "user"}),
    ("POST", "/api/v2/incidents/1/responders/", {"user": "user"}),
    ("PATCH", OURS + "tasks/{incident_task_id}/", {"assigned_to": "user"}),
    ("POST", TEAM + "/members/", {"user": "user"}),
    ("POST", "/api/account/api_invite/", {"team": "team", "user_detail": {"email": "new@example.org"}}),
)


@pytest.mark.parametrize("who", ["mallory", "charlie"])
@pytest.mark.parametrize(("method", "path", "body"), REFERENCES, ids=str)
def test_references_to_foreign_objects_are_refused(ask, samples, foreign, who, method, path, body):
    body_with_theirs = {field: foreign[who][kind] for field, kind in body.items()}
    before = dump_all_rows()

    assert ask(method, path.format(**samples.ids), body_with_theirs).status_code == 400
    assert dump_all_rows() == before


@pytest.mark.parametrize(("method", "path", "body"), PEOPLE, ids=str)
def test_people_and_teams_of_another_account_are_refused(ask, samples, foreign, method, path, body):
    theirs = foreign["mallory"]
    body_with_theirs = {
        field: theirs.get(kind, kind) if isinstance(kind, str) else kind for field, kind in body.items()
    }
    before = dump_all_rows()

    assert ask(method, path.format(**samples.ids), body_with_theirs).status_code == 400
    assert dump_all_rows() == before


def test_an_incident_role_is_refused_for_a_person_of_another_account(ask, samples, foreign):
    for who, status in (("mallory", 400), ("charlie", 201)):
        assignment = {"role": samples.ids["incident_role_id"], "user": foreign[who]["user"]}
        assert ask("POST", f"{OURS}roles/", assignment).status_code == status


RULES = SERVICE + "integrations/{integration_id}/transformers/"
# type of action, kind of the foreign object
RULE_REFERENCES = (
    (4, "policy"), (5, "schedule"), (12, "tag"), (14, "sla"), (15, "priority"), (16, "template"),
    (17, "policy"), (17, "schedule"),
)  # fmt: skip


@pytest.mark.parametrize("who", ["mallory", "charlie"])
@pytest.mark.parametrize(("action_type", "kind"), RULE_REFERENCES)
def test_a_rule_cannot_refer_to_objects_of_another_team(ask, samples, foreign, who, action_type, kind):
    action = {"action_type": action_type, "value": foreign[who][kind]}

    assert ask("POST", RULES.format(**samples.ids), {"actions": [action]}).status_code == 400


def test_a_rule_cannot_assign_a_role_of_another_team(ask, samples, foreign):
    for who in ("mallory", "charlie"):
        action = {"action_type": 11, "key": foreign[who]["role"], "value": samples.ids["username"]}
        assert ask("POST", RULES.format(**samples.ids), {"actions": [action]}).status_code == 400


@pytest.mark.parametrize("action_type", [6, 11, 17])
def test_a_rule_cannot_name_a_person_of_another_account(ask, samples, foreign, action_type):
    for who, status in (("mallory", 400), ("charlie", 201)):
        key = samples.ids["incident_role_id"]
        action = {"action_type": action_type, "key": key, "value": foreign[who]["user"]}
        assert ask("POST", RULES.format(**samples.ids), {"actions": [action]}).status_code == status


def test_a_router_cannot_route_to_another_account(ask, samples, foreign, world):
    """The owner may use the integrations of all teams of the account."""
    rules = f"{ROUTER.format(**samples.ids)}/rulesets/"
    for who, status in (("mallory", 400), ("charlie", 201)):
        team = f"/api/account/teams/{foreign[who]['team']}/services/{foreign[who]['service']}"
        theirs = ask("POST", f"{team}/integrations/", samples.bodies["integration"], who=who).json
        for body_with_theirs in ("unique_id", "integration_key"):
            rule = {"actions": [{"action_type": 0, "integration": theirs[body_with_theirs]}]}
            assert ask("POST", rules, rule).status_code == status


def test_a_rule_of_another_router_cannot_be_moved(ask, samples):
    other = ask("POST", "/api/v2/account/events/router/", {}).json["unique_id"]
    path = ROUTER.format(router_id=other)

    assert ask("PUT", f"{path}/rulesets/", samples.bodies["move"]).status_code == 400
    assert ask("GET", f"{path}/rulesets/{samples.ids['ruleset_id']}/").status_code == 404


def test_a_policy_or_an_sla_cannot_name_a_person_of_another_account(ask, samples, world):
    team = TEAM.format(**samples.ids)
    policy = {"name": "x", "rules": [build_step(0, world.mallory.username)]}
    escalation = {"time": 1, "type": 1, "responders": [{"user": world.mallory.username}]}

    assert ask("POST", f"{team}/escalation_policies/", policy).status_code == 400
    assert ask("POST", f"{team}/sla/", {"escalations": [escalation]}).status_code == 400


def test_an_incident_on_a_foreign_service_is_refused(ask, foreign):
    mallorys = {"title": "x", "service": foreign["mallory"]["service"]}
    charlies = {"title": "x", "service": foreign["charlie"]["service"]}

    assert ask("POST", "/api/incidents/", mallorys).status_code == 400
    assert ask("POST", "/api/incidents/", charlies, who="bob").status_code == 403


def test_a_policy_of_another_team_may_be_used_when_it_is_global_or_shared(ask, samples, foreign, world):
    policy = foreign["charlie"]["policy"]
    path = f"/api/account/teams/{world.charlies_team.unique_id}/escalation_policies/{policy}/"
    assert ask("PATCH", path, {"global_ep": True}, who="charlie").status_code == 200

    changed = ask("PATCH", SERVICE.format(**samples.ids), {"escalation_policy": policy})

    assert changed.json["escalation_policy"] == policy


NO_IDS = ("x", "%00", "' or 1=1 --", "00000000-0000-4000-8000-000000000000", "\u00e9" * 300)


# Another object of the same account, by path parameter: the path and the body that create it.
OTHER_OWNERS = {
    "service_id": ("/api/account/teams/{team_id}/services/", "service"),
    "integration_id": ("/api/account/teams/{team_id}/services/{service_id}/integrations/", "integration"),
    "outbound_id": (
        "/api/account/teams/{team_id}/services/{service_id}/integrations/",
        "outbound_integration",
    ),
    "task_template_id": ("/api/account/teams/{team_id}/task_templates/", "task_template"),
    "schedule_id": ("/api/account/teams/{team_id}/schedules/", "schedule"),
    "router_id": ("/api/v2/account/events/router/", "router"),
    "incident": ("/api/incidents/", "incident"),
}


def create_another(kind: str, ask: Any, samples: Any, world: Any) -> str:
    if kind == "team_id":
        return str(world.charlies_team.unique_id)
    if kind == "username":
        return str(world.charlie.username)
    path, noun = OTHER_OWNERS[kind]
    return str(ask("POST", path.format(**samples.ids), samples.bodies[noun]).json["unique_id"])


def test_unknown_ids_and_ids_of_other_parents_are_not_found(ask, samples, world):
    others = {
        kind: create_another(kind, ask, samples, world) for kind in ("team_id", "username", *OTHER_OWNERS)
    }
    before = dump_all_rows()

    found = []
    for route in tried(WITH_IDS):
        *outer, last = re.findall("<([a-z_]+)>", route.path)
        method, path, body = build_request(route, samples)
        wrong = [path.replace(f"/{samples.ids[last]}/", f"/{none}/") for none in NO_IDS]
        wrong += [path.replace(f"/{samples.ids[kind]}/", f"/{others[kind]}/") for kind in outer]
        found += [(method, each) for each in wrong if ask(method, each, body).status_code != 404]

    assert found == []
    assert dump_all_rows() == before


def test_a_member_edits_own_contacts_and_an_admin_everybodys(ask, samples, world):
    contact = {"name": "x", "contact_type": 1, "value": "x@example.org"}
    path = f"/api/account/users/{world.bob.username}/contacts/"

    assert ask("POST", path, contact, who="bob").status_code == 201
    assert ask("POST", path, contact, who="alice").status_code == 201
    assert ask("POST", path, contact, who="charlie").status_code == 403
    assert ask("GET", path, who="mallory").status_code == 404
