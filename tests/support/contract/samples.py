"""One object of each kind in Alice's account, created through the interface, for paths and bodies."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from models.domain.applications import GENERIC, HEARTBEAT, KINDS
from models.domain.enums import WorkState
from models.store.ids import make_uuid
from models.tables.changes import Change
from models.tables.events import Receipt
from tests.support import stores
from tests.support.dead_letters import ERROR
from tests.support.world import World

OUTGOING_WEBHOOK, SENTRY = (KINDS[name].unique_id for name in ("outgoing_webhook", "sentry"))


@dataclass(frozen=True, slots=True)
class Samples:
    """`ids` has ids by the names of path parameters; `bodies` has valid bodies for a create, by noun."""

    ids: dict[str, str]
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)


def build_step(delay: int, *usernames: str) -> dict[str, Any]:
    return {"delay": delay, "targets": [{"target_type": 2, "target_id": name} for name in usernames]}


def build_bodies(world: World, ids: dict[str, str]) -> dict[str, dict[str, Any]]:
    responders = [{"user": world.bob.username}]
    return {
        "team": {"name": "Search"},
        "member": {"user": world.charlie.username, "role": 2},
        "permission": {"account_permissions": ["incident_read", "team_read"]},
        "role": {"title": "Scribe", "description": "Writes it down", "rank": 3},
        "task_template": {"name": "Outage", "summary": "What to do first", "due_immediately": 1},
        "template_task": {"title": "Inform everybody", "due_in": 15, "role": ids.get("incident_role_id")},
        "postmortem": {
            "author": world.bob.username,
            "incidents": [{"incident": ids.get("incident_id")}],
            "title": "The full disk",
        },
        "outgoing_rule": {"rule_json": '{"==": [{"var": "urgency"}, 1]}'},
        "post_incident_task": {"title": "Buy a disk", "assigned_to": world.bob.username},
        "grouping_policy": {"match_fields": {"static_fields": ["incident_title"]}, "time_window": 10},
        "tag": {"name": "database", "color": "red"},
        "priority": {"name": "P1", "description": "Everything is down", "color": "red"},
        "sla": {
            "name": "Gold",
            "acknowledge_time": 300,
            "resolve_time": 3600,
            "escalations": [{"time": -60, "type": 1, "responders": responders}],
        },
        "schedule": {
            "name": "Nights",
            "time_zone": "Europe/Berlin",
            "layers": [
                {
                    "shift_length": 86_400,
                    "rotation_start_time": "2026-03-02T08:00:00Z",
                    "users": [{"user": world.alice.username}, {"user": world.bob.username}],
                    "restriction_type": 1,
                    "restrictions": [{"duration": 3600, "start_time_of_day": "20:00:00"}],
                }
            ],
            "overrides": [
                {
                    "user": world.bob.username,
                    "start_time": "2026-03-04T00:00:00Z",
                    "end_time": "2026-03-05T00:00:00Z",
                }
            ],
        },
        "override": {
            "name": "Dentist",
            "user": world.bob.username,
            "start_time": "2026-03-06T09:00:00Z",
            "end_time": "2026-03-06T11:00:00Z",
        },
        "maintenance": {
            "name": "New disks",
            "start_time": "2026-03-08T22:00:00Z",
            "end_time": "2026-03-08T23:30:00Z",
            "services": [{"service": ids.get("service_id")}],
        },
        "policy": {
            "name": "Day",
            "rules": [build_step(0, world.bob.username), build_step(5, world.alice.username)],
        },
        "service": {
            "name": "Search",
            "escalation_policy": ids.get("escalation_policy_id"),
            "sla": ids.get("sla_id"),
            "team_priority": ids.get("priority_id"),
        },
        "integration": {"name": "Probe", "application": GENERIC},
        "heartbeat_integration": {"name": "Backup", "application": HEARTBEAT},
        "outbound_integration": {"name": "Tickets", "application": OUTGOING_WEBHOOK, "integration_type": 1},
        "signed_integration": {"name": "Errors", "application": SENTRY},
        "source_setup": {"secret": "the secret of the tool"},
        "source_trial": {"body": {"message": "Disk full"}},
        "outbound": {"url": "https://tickets.example.org/hook"},
        "added_application": {"unique_id": "8f0d2f3c-3a7e-4f3b-9d0a-51c1a4f4c0de", "kind": "grafana"},
        "schedule_checks": {"double_shifts": "intended"},
        "heartbeat": {"every": 86_400, "grace": 1800},
        "key_owner": {"integration_unique_id": ids.get("integration_id")},
        "alert_rule": {
            "description": "Databases to those who know them",
            "rule_json": '{"==": [{"var": "payload.kind"}, "database"]}',
            "conditions": [{"alert_condition_type": 1, "pattern": "critical"}],
            "actions": [
                {"action_type": 4, "escalation_policy": ids.get("escalation_policy_id")},
                {"action_type": 8, "value": "{{payload.host}}: {{message}}"},
            ],
        },
        "stakeholder": {"email": "press@example.org", "name": "Press"},
        "router": {"name": "Front door", "description": "For all tools"},
        "router_rule": {
            "name": "Databases",
            "rule_json": '{"==": [{"var": "payload.kind"}, "database"]}',
            "actions": [{"action_type": 0, "integration": ids.get("integration_id")}],
        },
        "move": {"rule": ids.get("ruleset_id"), "position": 1},
        "account_member": {
            "time_zone": "Europe/Berlin",
            "user": {"username": world.bob.username, "first_name": "Robert", "last_name": "Builder"},
            "role": 3,
        },
        "user": {"email": "robert@example.org", "first_name": "Robert", "last_name": "Builder", "role": 3},
        "dismissal": {"username": world.charlie.username},
        "custom_role": {"name": "Reader", "description": "Reads SLAs", "permissions": ["sla_read"]},
        "user_custom_role": {"custom_role": ids.get("custom_role_id")},
        "message_settings": {"recovery_mails": False},
        "forwarding_rule": {
            "from_date": "2026-12-24T08:00:00Z",
            "to_date": "2026-12-27T08:00:00+01:00",
            "time_zone": "Europe/Berlin",
            "to_user": world.alice.username,
        },
        "contact": {"name": "Home", "contact_type": 1, "value": "bob@home.example.org"},
        "token": {"name": "laptop", "expires_at": "2099-12-31T00:00:00Z"},
        "rule": {"contact": ids.get("contact_id"), "start_delay": 5, "urgency": 1},
        "incident": {"title": "Disk full", "service": ids.get("service_id")},
        "note": {"note": "Looking into it"},
        "incident_tag": {"team_tag": ids.get("other_tag_id")},
        "first_tag": {"team_tag": ids.get("tag_id")},
        "responder": {"user": world.charlie.username, "response_status": 1},
        "first_responder": {"escalation_policy": ids.get("escalation_policy_id")},
        "held_role": {"role": ids.get("incident_role_id"), "user": world.bob.username},
        "incident_task": {
            "title": "Call the provider",
            "due_at": "2026-03-04T13:00:00Z",
            "assigned_to": world.bob.username,
            "role": ids.get("incident_role_id"),
        },
        "change": {"title": "Disk full again", "status": 2},
        "reassignment": {"assigned_to": world.bob.username, "reason": "Knows disks"},
        "filter": {"status": 0},
        "analytics": {"team_ids": [], "urgency": "1", "child_incident": "include"},
        "invitation": {
            "team": world.team.unique_id,
            "user_detail": {
                "first_name": "Dora",
                "last_name": "Doe",
                "email": "dora@example.org",
                "role": 3,
            },
        },
        "invitations": {"team": world.team.unique_id, "email_accounts": [{"email": "eve@example.org"}]},
        "simulation": {
            "integration": ids.get("integration_id"),
            "at": "2026-12-24T18:00:00Z",
            "for": 3600,
            "alert": {"message": "Disk full", "alert_type": "critical", "payload": {"kind": "database"}},
        },
        "drill": {"policy": ids.get("escalation_policy_id"), "service": ids.get("service_id")},
        "event": {"message": "Disk full", "alert_type": "critical", "payload": {"a": 1}},
    }


SAMPLES: stores.RowCache[Samples] = stores.RowCache()


@pytest.fixture
def samples(ask: Any, world: World) -> Samples:
    return SAMPLES.get(lambda: create_samples(ask, world))


def create_samples(ask: Any, world: World) -> Samples:
    ids = {
        "team_id": world.team.unique_id,
        "username": world.bob.username,
        "account_id": world.account.account_identifier,
        "extension": "generic",
        "alert_type": "critical",
        "incident": "1",
    }
    team, user = f"/api/account/teams/{ids['team_id']}/", f"/api/account/users/{ids['username']}/"

    def make(name: str, path: str, noun: str, who: str = "alice") -> dict[str, Any]:
        created = ask("POST", path, build_bodies(world, ids)[noun], who=who)
        assert created.status_code == 201, (path, created.json)
        ids[name] = created.json["unique_id"]
        return dict(created.json)

    ids["member_id"] = ask("GET", f"{team}members/").json[1]["unique_id"]
    make("priority_id", f"{team}priority/", "priority")
    make("tag_id", f"{team}tags/", "tag")
    make("other_tag_id", f"{team}tags/", "tag")
    make("sla_id", f"{team}sla/", "sla")
    make("incident_role_id", f"{team}roles/", "role")
    make("task_template_id", f"{team}task_templates/", "task_template")
    make("task_id", f"{team}task_templates/{ids['task_template_id']}/tasks/", "template_task")
    make("schedule_id", f"{team}schedules/", "schedule")
    make("escalation_policy_id", f"{team}escalation_policies/", "policy")
    make("service_id", f"{team}services/", "service")
    make("maintenance_id", f"{team}maintenance/", "maintenance")
    created = make("integration_id", f"{team}services/{ids['service_id']}/integrations/", "integration")
    ids["integration_key"] = created["integration_key"]
    added = {**build_bodies(world, ids)["added_application"], "unique_id": make_uuid()}
    ids["application_id"] = ask("POST", "/api/tocsin/applications/", added).json["unique_id"]
    make("heartbeat_id", f"{team}services/{ids['service_id']}/integrations/", "heartbeat_integration")
    integration = f"{team}services/{ids['service_id']}/integrations/{ids['integration_id']}/"
    make("transformers_id", f"{integration}transformers/", "alert_rule")
    make("outgoing_rule_id", f"{integration.replace('/api/', '/api/v2/', 1)}outgoingrules/", "outgoing_rule")
    make("post_incident_task_id", f"{team}post_incident_tasks/", "post_incident_task")
    policies = f"{team}services/{ids['service_id']}/alert-grouping-policies/"
    make("grouping_policy_id", policies, "grouping_policy")
    make("stakeholder_id", "/api/tocsin/stakeholders/", "stakeholder")
    make("router_id", "/api/v2/account/events/router/", "router")
    make("ruleset_id", f"/api/v2/account/events/router/{ids['router_id']}/rulesets/", "router_rule")
    make("contact_id", f"{user}contacts/", "contact")
    created = make("custom_role_id", "/api/account/customroles/", "custom_role")
    ask("PATCH", f"/api/account/customroles/{created['unique_id']}/", {"name": "Keeper"})
    ids["change_id"] = Change.select(Change.unique_id).order_by(Change.id.desc()).scalar()
    ids["object_id"] = created["unique_id"]
    make("forwarding_rule_id", f"{user}forwarding_rules/", "forwarding_rule")
    make("notification_rule_id", f"{user}notification_rules/", "rule")
    make("token_id", "/api/tocsin/tokens/", "token", who="bob")
    make("source_id", f"{team}services/{ids['service_id']}/integrations/", "signed_integration")
    make("outbound_id", f"{team}services/{ids['service_id']}/integrations/", "outbound_integration")
    outbound = f"/api/tocsin/integrations/{ids['outbound_id']}/outbound/"
    ask("PUT", outbound, build_bodies(world, ids)["outbound"])
    make("incident_id", "/api/incidents/", "incident")
    ids["delivery_id"] = ask("GET", f"{outbound}deliveries/").json["results"][0]["unique_id"]
    make("assignment_id", "/api/tocsin/incidents/1/roles/", "held_role")
    make("incident_task_id", "/api/tocsin/incidents/1/tasks/", "incident_task")
    make("note_id", "/api/incidents/1/note/", "note", who="bob")
    make("incident_tag_id", "/api/incidents/1/tags/", "first_tag")
    make("responder_id", "/api/incidents/1/responders/", "first_responder")
    make("postmortem_id", f"{team}postmortem/", "postmortem")
    make("drill_id", "/api/tocsin/drills/", "drill")
    current = f"/integration/{ids['account_id']}/generic/{ids['integration_key']}/"
    ids["trace_id"] = ask("POST", current, build_bodies(world, ids)["event"]).json["trace_id"]
    ids["dead_letter_id"] = ask("POST", current, build_bodies(world, ids)["event"]).json["trace_id"]
    dead_letters = Receipt.update(state=WorkState.DEAD_LETTER, error=ERROR)
    dead_letters.where(Receipt.trace_id == ids["dead_letter_id"]).execute()
    return Samples(ids, build_bodies(world, ids))
