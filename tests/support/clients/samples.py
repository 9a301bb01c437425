"""The documented requests of published clients and tools: their fields, with values of our own.

`<name>` in a path or a body stands for the ID with this name. The empty fields are part of a sample: some
clients send every field that they know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

TEAM = "/api/account/teams/<team>/"
SERVICES = f"{TEAM}services/"
INTEGRATIONS = f"{SERVICES}<service>/integrations/"
USER = "/api/account/users/<bob>/"
RULES_OF_ROUTER = "/api/v2/account/events/router/<router>/rulesets/"
EVENTS = "/api/events/<key>/"
WEBHOOK = "/integration/<account>/generic/<key>/"


@dataclass(frozen=True)
class Sample:
    """A documented request, and what its client needs.

    `answer` has the keys that the client reads, each with its value or its type; null is allowed for a type.
    `alert` has values that the alert must have after it was processed.
    """

    name: str
    method: str
    path: str
    body: Mapping[str, object] | None = None
    status: int = 200
    answer: object = field(default_factory=dict)
    alert: Mapping[str, object] | None = None


def create(name: str, path: str, body: Mapping[str, object], answer: object) -> Sample:
    return Sample(name, "POST", path, body, 201, answer)


def send(name: str, path: str, body: Mapping[str, object], **alert: object) -> Sample:
    """Return a sample of a tool, which reads only the status of the answer."""
    return Sample(name, "POST", path, body, 201 if path == EVENTS else 200, alert=alert or None)


# The JavaScript, Ruby and older Python clients document the same bodies. A chat bot uses the first.
OLDER_CLIENTS = (
    create(
        "a service with an integration",
        SERVICES,
        {
            "name": "Billing",
            "description": "Invoices",
            "integrations": [{"application": "<api>", "name": "Probe", "summary": "Of the shop"}],
            "escalation_policy": "<policy>",
            "acknowledgement_timeout": 1,
            "auto_resolve_timeout": 1,
        },
        {"unique_id": str, "name": "Billing", "escalation_policy": "<policy>", "auto_resolve_timeout": 1},
    ),
    Sample(
        "changes of a service",
        "PATCH",
        f"{SERVICES}<service>/",
        {
            "unique_id": "<service>",
            "auto_resolve_timeout": 0,
            "acknowledgement_timeout": 0,
            "status": 1,
            "escalation_policy": "<policy>",
        },
        answer={"unique_id": "<service>", "acknowledgement_timeout": 0, "status": 1},
    ),
    create(
        "an integration",
        INTEGRATIONS,
        {"name": "Shop", "summary": "Of the shop", "application": "<api>"},
        {"unique_id": str, "integration_key": str, "application": "<api>"},
    ),
    create(
        "a member",
        f"{TEAM}members/",
        {"team": "<team>", "user": "<charlie>"},
        {"unique_id": str, "team": "<team>", "user": "<charlie>", "role": 2},
    ),
    create(
        "a schedule without layers",
        f"{TEAM}schedules/",
        {
            "name": "Days",
            "summary": "From 8 to 20",
            "time_zone": "Asia/Kolkata",
            "team": "<team>",
            "layers": [],
        },
        {"unique_id": str, "time_zone": "Asia/Kolkata", "team": "<team>", "layers": []},
    ),
    Sample(
        "changes of a schedule",
        "PATCH",
        f"{TEAM}schedules/<schedule>/",
        {
            "name": "Nights",
            "summary": "From 20 to 8",
            "time_zone": "Asia/Kamchatka",
            "team": "<team>",
            "unique_id": "<schedule>",
            "layers": [],
        },
        answer={"unique_id": "<schedule>", "time_zone": "Asia/Kamchatka", "layers": []},
    ),
    create(
        "a policy without steps, with an ID of the client",
        f"{TEAM}escalation_policies/",
        {
            "name": "Evenings",
            "summary": "After work",
            "description": "Until 22",
            "rules": [],
            "unique_id": "<unknown>",
            "team": "<team>",
        },
        {"unique_id": str, "name": "Evenings", "rules": []},
    ),
    Sample(
        "changes of a policy",
        "PATCH",
        f"{TEAM}escalation_policies/<policy>/",
        {
            "summary": "All day",
            "rules": [
                {
                    "delay": 1,
                    "targets": [{"target_type": 2, "target_id": "<bob>"}],
                    "position": 1,
                    "unique_id": "<unknown>",
                }
            ],
        },
        answer={"summary": "All day", "rules": [{"delay": 1, "position": 1, "unique_id": str}]},
    ),
    create(
        "an incident with a policy and without a user",
        "/api/incidents/",
        {
            "service": "<service>",
            "escalation_policy": "<policy>",
            "user": None,
            "title": "Disk full",
            "summary": "On db1",
        },
        {"unique_id": str, "incident_number": int, "title": "Disk full", "escalation_policy": "<policy>"},
    ),
    create(
        "an incident with an assignee and without a policy",
        "/api/incidents/",
        {
            "service": "<service>",
            "escalation_policy": None,
            "assigned_to": "<bob>",
            "title": "Disk slow",
            "summary": "On db2",
        },
        {"incident_number": int, "assigned_to": "<bob>"},
    ),
    Sample(
        "the status of an incident, from a chat",
        "PATCH",
        "/api/incidents/<number>/",
        {"status": 2, "incident_number": "<number>"},
        answer={"incident_number": int, "status": 2},
    ),
    Sample(
        "incidents, with a filter in the body of a GET",
        "GET",
        "/api/incidents/",
        {"page": 1, "status": 5, "team_id": ["<team>"], "service_ids": [], "user_ids": []},
        answer={"results": list, "next": str},
    ),
    Sample(
        "incidents, with a page from a chat",
        "GET",
        "/api/incidents/",
        {"page": "1"},
        answer={"results": list},
    ),
    Sample(
        "a policy, without the last slash",
        "GET",
        f"{TEAM}escalation_policies/<policy>",
        answer={"unique_id": "<policy>"},
    ),
    Sample("a service, without the last slash", "GET", f"{SERVICES}<service>", answer={"name": str}),
    Sample(
        "an event with a misspelt field",
        "POST",
        EVENTS,
        {"message": "Queue long", "summary": "On mq1", "alert_type": "critical", "supressed": False},
        201,
        {"unique_id": str, "message": "Queue long", "alert_type": "3"},
        {"message": "Queue long", "suppressed": False},
    ),
)

# A bot of the Slack workspace lists services and creates incidents.
CHAT_BOT = (
    Sample(
        "the services for a menu",
        "GET",
        "/api/account/available_incident_services/",
        answer=[{"unique_id": "<service>", "name": str}],
    ),
    Sample(
        "the policies for a menu",
        "GET",
        "/api/account/available_account_eps/",
        answer={"escalations": [{"unique_id": "<policy>", "name": str}]},
    ),
    Sample(
        "the people for a menu",
        "GET",
        "/api/account/users/",
        answer=[{"user": {"username": "<bob>", "first_name": str, "last_name": str}}],
    ),
    create(
        "an incident of a form",
        "/api/incidents/",
        {
            "title": "Site down",
            "summary": "",
            "user": None,
            "escalation_policy": None,
            "service": "<service>",
            "urgency": "0",
        },
        {"incident_number": int, "urgency": 0},
    ),
)

GO_SERVICE = {
    "name": str,
    "creation_date": str,
    "summary": str,
    "description": str,
    "unique_id": str,
    "auto_resolve_timeout": int,
    "created_by": str,
    "team_priority": str,
    "task_template": str,
    "status": int,
    "escalation_policy": str,
    "team": str,
    "sla": str,
    "collation_time": int,
    "collation": int,
    "under_maintenance": bool,
}
# `team_priority_object` too: the Go client reads nothing else there than text or null.
GO_INCIDENT = {
    "summary": str,
    "incident_number": int,
    "creation_date": str,
    "status": int,
    "unique_id": str,
    "title": str,
    "incident_key": str,
    "service": str,
    "urgency": int,
    "merged_with": str,
    "assigned_to": str,
    "escalation_policy": str,
    "assigned_to_name": str,
    "resolved_date": str,
    "tags": list,
    "sla": str,
    "team_priority": str,
    "team_priority_object": str,
}
GO_ACTION = {
    "key": "",
    "value": "",
    "assign_to": "",
    "escalation_policy": "",
    "schedule": "",
    "team_priority": "",
    "task_template": "",
    "sla": "",
}

# The Go client, and the Terraform provider that is built on it. They send every field of a structure.
GO_AND_TERRAFORM = (
    create("a team", "/api/account/teams/", {"name": "Search"}, {"unique_id": str, "members": list}),
    Sample(
        "a team's name",
        "PATCH",
        TEAM,
        {"name": "Payments", "unique_id": "<team>"},
        answer={"name": "Payments", "owner": str, "roles": list},
    ),
    Sample(
        "the permissions of a team",
        "PUT",
        f"{TEAM}permissions/",
        {"unique_id": "<team>", "account_permissions": ["incident_read", "service_read"]},
        answer={"unique_id": "<team>", "account_permissions": ["incident_read", "service_read"]},
    ),
    create(
        "a service with empty references",
        SERVICES,
        {
            "name": "Cart",
            "creation_date": "",
            "summary": "",
            "description": "",
            "team_priority": "",
            "task_template": "",
            "escalation_policy": "<policy>",
            "team": "<team>",
            "sla": "",
            "collation_time": 0,
            "collation": 0,
        },
        {**GO_SERVICE, "name": "Cart", "team": "<team>"},
    ),
    create(
        "an integration for warnings",
        INTEGRATIONS,
        {
            "name": "Metrics",
            "summary": "",
            "application": "<prometheus>",
            "is_enabled": True,
            "create_incidents_for": 3,
            "default_urgency": 0,
        },
        {"create_incidents_for": 3, "default_urgency": 0, "webhook_url": str, "integration_type": int},
    ),
    create(
        "an integration of a published module",
        INTEGRATIONS,
        {
            "name": "Alarms",
            "summary": "Of the shop",
            "application": "1ef0e211-82fb-454a-96c4-20bd26ebdcab",
            "is_enabled": True,
            "create_incidents_for": 1,
            "default_urgency": 1,
        },
        {"webhook_url": str, "application_reference": {"name": str, "extension": "cloudwatch_v2"}},
    ),
    create(
        "a policy with two steps",
        f"{TEAM}escalation_policies/",
        {
            "name": "Infra",
            "summary": "",
            "team": "<team>",
            "unique_id": "",
            "repeat_policy": 8,
            "move_to_next": True,
            "global_ep": False,
            "rules": [
                {
                    "delay": 0,
                    "targets": [
                        {"target_type": 2, "target_id": "<bob>", "position": 0},
                        {"target_type": 1, "target_id": "<schedule>", "position": 1},
                    ],
                    "position": 1,
                    "unique_id": "",
                },
                {
                    "delay": 5,
                    "targets": [{"target_type": 2, "target_id": "<alice>", "position": 0}],
                    "position": 2,
                    "unique_id": "",
                },
            ],
        },
        {
            "repeat_policy": 8,
            "move_to_next": True,
            "global_ep": False,
            "rules": [
                {
                    "delay": 0,
                    "position": 1,
                    "targets": [
                        {"target_type": 2, "target_id": "<bob>", "position": 0},
                        {"target_type": 1, "target_id": "<schedule>", "position": 1},
                    ],
                },
                {"delay": 5, "position": 2, "targets": [{"target_id": "<alice>", "position": 0}]},
            ],
        },
    ),
    create(
        "a schedule with layers and an override",
        f"{TEAM}schedules/",
        {
            "name": "Infra",
            "description": "",
            "summary": "",
            "time_zone": "Europe/Vienna",
            "team": "<team>",
            "layers": [
                {
                    "shift_length": 86_400,
                    "name": "Days",
                    "rotation_start_time": "2026-03-02T06:36:00Z",
                    "rotation_end_time": "2027-03-02T12:21:00+05:30",
                    "restriction_type": 2,
                    "users": [{"user": "<alice>"}, {"user": "<bob>"}],
                    "restrictions": [
                        {"duration": 86_400, "start_day_of_week": 1, "start_time_of_day": "8:0:00"},
                        {"duration": 3600, "start_day_of_week": 7, "start_time_of_day": "08:00:00"},
                    ],
                },
                {
                    "shift_length": 3600,
                    "name": "Always",
                    "rotation_start_time": "2026-03-02T06:36:00Z",
                    "users": [{"user": "<bob>"}],
                    "restrictions": None,
                },
            ],
            "overrides": [
                {
                    "name": "Swap",
                    "user": "<bob>",
                    "start_time": "2026-03-03T06:00:00Z",
                    "end_time": "2026-03-04T06:00:00Z",
                }
            ],
        },
        {
            "layers": [
                {
                    "unique_id": str,
                    "name": "Days",
                    "shift_length": 86_400,
                    "rotation_start_time": "2026-03-02T06:36:00Z",
                    "rotation_end_time": "2027-03-02T06:51:00Z",
                    "last_edited": str,
                    "restriction_type": 2,
                    "is_active": True,
                    "users": [{"user": "<alice>", "position": 1}, {"user": "<bob>", "position": 2}],
                    "restrictions": [
                        {"start_day_of_week": 1, "start_time_of_day": "08:00:00"},
                        {"start_day_of_week": 7, "duration": 3600},
                    ],
                },
                {"name": "Always", "restrictions": [], "restriction_type": 0},
            ],
            "overrides": [{"name": "Swap", "user": "<bob>", "start_time": "2026-03-03T06:00:00Z"}],
        },
    ),
    create(
        "an SLA with two escalations",
        f"{TEAM}sla/",
        {
            "name": "Gold",
            "description": "",
            "acknowledge_time": 5,
            "is_active": False,
            "resolve_time": 10,
            "escalations": [
                {"responders": [{"user": "<bob>"}], "time": 30, "type": 1},
                {"responders": [{"user": "<bob>"}], "time": -10, "type": 2},
            ],
        },
        {
            "unique_id": str,
            "is_active": False,
            "resolve_time": 10,
            "escalations": [
                {"time": 30, "type": 1, "responders": [{"user": "<bob>"}]},
                {"time": -10, "type": 2, "responders": [{"user": "<bob>"}]},
            ],
        },
    ),
    create(
        "a maintenance window",
        f"{TEAM}maintenance/",
        {
            "name": "New disks",
            "start_time": "2026-03-08T22:00:00Z",
            "end_time": "2026-03-08T23:30:00Z",
            "time_zone": "Europe/Vienna",
            "services": [{"service": "<service>"}],
            "creation_date": "",
        },
        {"start_time": "2026-03-08T22:00:00Z", "repeat_interval": 0, "services": [{"service": "<service>"}]},
    ),
    create(
        "a priority",
        f"{TEAM}priority/",
        {"name": "P2", "description": "Soon", "color": "red"},
        {"unique_id": str, "team": int, "color": "red"},
    ),
    Sample(
        "a priority, read",
        "GET",
        f"{TEAM}priority/<priority>/",
        answer={"unique_id": "<priority>", "team": "<team>"},
    ),
    create("a tag", f"{TEAM}tags/", {"name": "db", "color": "blue"}, {"team": int, "color": "blue"}),
    create("a role", f"{TEAM}roles/", {"title": "Scribe", "description": ""}, {"rank": 1, "title": "Scribe"}),
    create("a template", f"{TEAM}task_templates/", {"name": "Outage", "summary": ""}, {"name": "Outage"}),
    create(
        "a task of a template",
        f"{TEAM}task_templates/<template>/tasks/",
        {
            "task_template": "<template>",
            "title": "Call",
            "description": "",
            "due_in": 0,
            "role": "<role>",
            "position": 3,
        },
        {"task_template": "<template>", "due_in": 0, "role": "<role>", "position": 3},
    ),
    create(
        "a task after an incident",
        f"{TEAM}post_incident_tasks/",
        {
            "title": "Buy disks",
            "description": "",
            "team": "<team>",
            "status": 0,
            "due_in_time": None,
            "assigned_to_obj": {"first_name": "", "last_name": "", "username": ""},
        },
        {"title": "Buy disks", "status": 0, "due_in_time": str},
    ),
    create(
        "an alert rule",
        f"{INTEGRATIONS}<integration>/transformers/",
        {
            "unique_id": "",
            "description": "Text",
            "rule_json": "",
            "actions": [{"action_type": 9, **GO_ACTION, "value": "From the shop"}],
        },
        {"description": "Text", "stop": False, "conditions": [], "actions": [{"value": "From the shop"}]},
    ),
    create(
        "an alert rule for a policy",
        f"{INTEGRATIONS}<integration>/transformers/",
        {
            "unique_id": "",
            "description": "Policy",
            "rule_json": "",
            "actions": [{"action_type": 4, **GO_ACTION, "escalation_policy": "<policy>"}],
            "position": 7,
            "stop": True,
        },
        {"position": 7, "stop": True, "actions": [{"escalation_policy": "<policy>"}]},
    ),
    create(
        "an alert rule with conditions",
        f"{INTEGRATIONS}<integration>/transformers/",
        {
            "description": "Databases",
            "rule_json": "",
            "rule_type": 1,
            "position": 2,
            "stop": False,
            "conditions": [
                {"alert_condition_type": 1, "alert_field": "alert_type", "pattern": "critical"},
                {"alert_condition_type": 2, "alert_field": "summary", "pattern": "db"},
            ],
            "actions": [{"action_type": 6, "assign_to": "<bob>"}],
        },
        {
            "rule_type": 1,
            "position": 2,
            "conditions": [
                {"unique_id": str, "alert_condition_type": 1, "pattern": "critical"},
                {"unique_id": str, "alert_field": "summary", "pattern": "db"},
            ],
            "actions": [{"action_type": 6, "assign_to": "<bob>"}],
        },
    ),
    create(
        "a rule of an outbound integration",
        f"{INTEGRATIONS}<integration>/outgoingrules/".replace("/api/", "/api/v2/"),
        {"unique_id": "", "is_enabled": True, "rule_json": ""},
        {"unique_id": str, "is_enabled": True, "rule_json": ""},
    ),
    create(
        "a router", "/api/v2/account/events/router/", {"name": "Door", "description": ""}, {"name": "Door"}
    ),
    create(
        "a rule of a router",
        RULES_OF_ROUTER,
        {
            "name": "All",
            "rule_json": "",
            "actions": [
                {
                    "action_type": 0,
                    "integration": "<integration>",
                    "integration_obj": {"name": "", "unique_id": ""},
                }
            ],
        },
        {"position": int, "actions": [{"integration_obj": {"unique_id": "<integration>"}}]},
    ),
    create(
        "a rule of a router that suppresses",
        RULES_OF_ROUTER,
        {
            "name": "None",
            "rule_json": "",
            "actions": [{"action_type": 1, "integration_obj": {"name": "", "unique_id": ""}}],
        },
        {"actions": [{"action_type": 1}]},
    ),
    create(
        "a notification rule",
        f"{USER}notification_rules/",
        {"contact": "<contact>", "start_delay": 1, "urgency": 1},
        {"contact": "<contact>", "start_delay": 1, "urgency": 1, "type": str},
    ),
    create(
        "a role of the account",
        "/api/account/customroles/",
        {"name": "sre", "description": "Reads", "permissions": ["incident_read"]},
        {"unique_id": str, "name": "sre"},
    ),
    create(
        "the role of a person",
        f"{USER}customroles/",
        {"custom_role": "<custom_role>", "user": "<bob>"},
        {"custom_role": "<custom_role>", "user": "<bob>"},
    ),
    create(
        "a person",
        "/api/account/api_invite/",
        {
            "team": "<team>",
            "user_detail": {
                "email": "dora@<team>.example.org",
                "first_name": "Dora",
                "last_name": "Doe",
                "role": 3,
            },
        },
        {"team": "<team>", "user": {"username": str, "email": "dora@<team>.example.org"}, "role": int},
    ),
    create(
        "an incident with empty references",
        "/api/incidents/",
        {
            "service": "<service>",
            "escalation_policy": "",
            "user": "",
            "title": "Cart empty",
            "summary": "",
        },
        {**GO_INCIDENT, "title": "Cart empty", "team_priority": "<priority>"},
    ),
    create(
        "a note",
        "/api/incidents/<number>/note/",
        {"note": "Looking"},
        {"incident": int, "user": str, "user_name": str},
    ),
    create(
        "a tag of an incident",
        "/api/incidents/<number>/tags/",
        {"team_tag": "<tag>"},
        {"incident": int, "tag_id": "<tag>"},
    ),
    Sample(
        "an event",
        "POST",
        EVENTS,
        {
            "message": "Latency high",
            "summary": "",
            "alert_type": "warning",
            "entity_id": "",
            "payload": {"severity": "SEV1"},
        },
        201,
        {"message": "Latency high", "alert_type": str, "entity_id": str, "suppressed": bool},
        {"message": "Latency high", "alert_type": "1"},
    ),
)

# The published collection of requests, where it differs: numbers and booleans as text, one name of a list.
COLLECTION = (
    create(
        "a service in text",
        SERVICES,
        {
            "name": "Login",
            "description": "",
            "auto_resolve_timeout": "0",
            "team_priority": "<priority>",
            "task_template": "<template>",
            "acknowledgement_timeout_enabled": "false",
            "acknowledgement_timeout": "600",
            "status": 1,
            "escalation_policy": "<policy>",
            "sla": "<sla>",
            "under_maintenance": "false",
            "collation": "0",
            "collation_time": "0",
        },
        {"auto_resolve_timeout": 0, "acknowledgement_timeout": 600, "under_maintenance": False},
    ),
    create(
        "an integration in text",
        INTEGRATIONS,
        {
            "name": "Cloud",
            "summary": "",
            "application": "<cloudwatch>",
            "is_enabled": "false",
            "create_incidents_for": "1",
            "integration_type": "0",
            "default_urgency": "1",
        },
        {"is_enabled": False, "create_incidents_for": 1, "integration_type": 0, "default_urgency": 1},
    ),
    create(
        "an SLA in text, with the other name of the responders",
        f"{TEAM}sla/",
        {
            "name": "Silver",
            "escalations": [{"responder": [{"user": "<bob>"}], "time": "-5", "type": "1"}],
            "is_active": "true",
            "acknowledge_time": "5",
            "resolve_time": "30",
        },
        {"is_active": True, "acknowledge_time": 5, "escalations": [{"time": -5, "type": 1}]},
    ),
    create(
        "a maintenance window without an end of its repetition",
        f"{TEAM}maintenance/",
        {
            "name": "Disks",
            "services": [{"service": "<service>"}],
            "start_time": "2026-03-08T22:00:00Z",
            "end_time": "2026-03-08T23:30:00Z",
            "repeat_interval": "0",
            "time_zone": "UTC",
            "repeat_until": "",
        },
        {"repeat_interval": 0, "repeat_until": str},
    ),
    create(
        "a schedule with a misspelt field, and IDs of the client",
        f"{TEAM}schedule/",
        {
            "name": "Week",
            "summary": "",
            "descripition": "From 8 to 17",
            "time_zone": "Asia/Kolkata",
            "layers": [
                {
                    "shift_length": 32_400,
                    "restrictions": [
                        {"duration": 32_400, "start_day_of_week": day, "start_time_of_day": "08:00:00"}
                        for day in range(1, 6)
                    ],
                    "name": "Weekdays",
                    "users": [{"user": "<bob>", "position": 1, "unique_id": "<unknown>"}],
                    "rotation_start_time": "2026-07-20T02:30:00Z",
                    "rotation_end_time": None,
                    "restriction_type": 2,
                    "is_active": True,
                }
            ],
            "overrides": [],
        },
        {"layers": [{"name": "Weekdays", "rotation_end_time": str, "users": [{"user": "<bob>"}]}]},
    ),
    Sample(
        "incidents, with a filter of empty lists",
        "POST",
        "/api/incidents/filter/",
        {
            "status": 0,
            "team_ids": [],
            "all_teams": 1,
            "service_ids": [],
            "user_ids": [],
            "priority_name": "",
            "priority_ids": [],
            "tag_ids": [],
            "sla_ids": [],
            "from_date": [],
            "to_date": [],
            "postmortem_filter": -1,
            "escalation_policy_ids": [],
        },
        answer={"results": list},
    ),
    create(
        "an incident with all its references",
        "/api/incidents/",
        {
            "title": "Login slow",
            "service": "<service>",
            "summary": "",
            "status": "1",
            "assigned_to": "<bob>",
            "escalation_policy": "<policy>",
            "sla": "<sla>",
            "team_priority": "<priority>",
        },
        {"status": 1, "assigned_to": "<bob>", "sla": "<sla>", "team_priority": "<priority>"},
    ),
    create(
        "a tag of an incident, with the mistake in its path",
        "/api/incidents/<incident>%7D/tags/",
        {"team_tag": "<other_tag>"},
        {"tag_id": "<other_tag>"},
    ),
    create(
        "a responder",
        "/api/incidents/<incident>/responders/",
        {"user": "<bob>"},
        {"user": "<bob>", "user_name": str},
    ),
    create(
        "a template in text",
        f"{TEAM}task_templates/",
        {"name": "First steps", "summary": "", "due_immediately": "0"},
        {"due_immediately": 0},
    ),
    create(
        "a postmortem",
        f"{TEAM}postmortem/",
        {
            "author": "<bob>",
            "incidents": [{"incident": "<incident>"}],
            "title": "Disks",
            "status": "Pending",
            "postmortem_data": "Full",
            "download_status": "0",
        },
        {"author": "<bob>", "status": "Pending", "download_status": 0},
    ),
    create(
        "a rule of a router with the key of an integration",
        RULES_OF_ROUTER,
        {
            "name": "Grafana",
            "actions": [{"action_type": 0, "integration": "<key>"}],
            "rule_json": '{"type":"group","id":"a","children1":{"b":{"type":"rule","id":"b","properties":'
            '{"field":"alert.payload","operator":"payloadsearch","value":["$.commonLabels.alertname","x"],'
            '"valueSrc":["value","value"],"operatorOptions":{"ploperator":"equal"},'
            '"valueType":["text","text"]}}},"properties":{"conjunction":"AND","not":false}}',
        },
        {"rule_json": str, "actions": [{"integration_obj": {"unique_id": "<integration>"}}]},
    ),
    Sample(
        "a new key",
        "POST",
        "/api/account/regenerate_integration_key/",
        {"integration_unique_id": "<other_integration>"},
        answer={"integration_key": str},
    ),
)

# Tools that send alerts. They have no token.
TOOLS = (
    send(
        "a workflow engine: a failed execution",
        EVENTS,
        {
            "message": "Execution failed",
            "alert_type": "error",
            "entity_id": "run-1",
            "urls": [
                {"link_url": "https://flows.example.org/run-1", "link_text": "Execution"},
                {"link_url": "https://flows.example.org/logs"},
            ],
            "payload": {"Namespace": "prod", "Flow ID": "nightly", "Duration": "PT3S"},
            "summary": "run-1 of nightly failed",
        },
        message="Execution failed",
        alert_type="2",
        entity_id="run-1",
    ),
    send(
        "a workflow engine: an alert with a number",
        EVENTS,
        {
            "alert_type": "info",
            "message": "Nightly done",
            "summary": "",
            "suppressed": False,
            "entity_id": 12_345,
            "payload": {"status": "ok", "severity": "1"},
            "urls": [{"link_url": "https://flows.example.org/2", "link_text": "Execution"}],
        },
        message="Nightly done",
        alert_type="0",
        entity_id="12345",
    ),
    send(
        "a build server",
        WEBHOOK,
        {
            "alert_type": "critical",
            "message": "Build 7 failed",
            "summary": "In main",
            "entity_id": "build-main",
            "urls": [{"link_url": "https://builds.example.org/7", "link_text": "Build"}],
        },
        message="Build 7 failed",
        alert_type="3",
    ),
    send(
        "a network monitor, with an SLA and a policy",
        WEBHOOK,
        {
            "message": "Alert for switch1",
            "alert_type": "warning",
            "entity_id": 81,
            "payload": {"hostname": "switch1", "uptime": 120, "msg": {"port": "3"}, "state": 1, "os": None},
            "urls": [{"link_url": "https://net.example.org/device/1", "link_text": "switch1"}],
            "sla": "<sla>",
            "escalation_policy": "<policy>",
            "summary": "Port 3 is down",
        },
        message="Alert for switch1",
        alert_type="1",
        entity_id="81",
    ),
    send(
        "a network monitor, with an unknown SLA",
        WEBHOOK,
        {"message": "Alert for switch2", "alert_type": "resolved", "entity_id": 82, "sla": "gold"},
        message="Alert for switch2",
        alert_type="5",
        entity_id="82",
    ),
    send(
        "a script of a cluster",
        EVENTS,
        {
            "alert_type": "resolved",
            "entity_id": "swarm_web_80",
            "message": "Web not available",
            "summary": "On port 80",
        },
        message="Web not available",
        alert_type="5",
        entity_id="swarm_web_80",
    ),
    send(
        "the template for Datadog",
        "/api/integration/datadog/<key>/",
        {
            "alert_id": "41",
            "hostname": "db3",
            "date_posix": "1772625600",
            "aggreg_key": "a-41",
            "title": "Memory of db3",
            "alert_status": "",
            "alert_transition": "Triggered",
            "link": "https://metrics.example.org/41",
            "event_msg": "More than 97 %",
        },
        message="Memory of db3",
    ),
    send(
        "the script for Zabbix",
        "/api/integration/zabbix/<key>/",
        {
            "problem": " Load of db4",
            "problem_started_at": "12:00 on 2026.03.04",
            "problem_name": "Load of db4",
            "host": "db4",
            "severity": "High",
            "original_problem_id": "4711",
            "event_status": "PROBLEM",
            "trigger_value": "1",
        },
    ),
    send(
        "the handler for Sensu",
        "/integration/<account>/sensu_go/<key>/",
        {"properties": {"subject": "web1 / http", "message": "Refused", "status": "2", "id": "web1/http"}},
    ),
    Sample(
        "a health check without a body",
        "POST",
        "/api/integration/httphealthcheck/<key>/critical/",
        answer={"trace_id": str},
        alert={"message": "HTTP healthcheck: critical", "alert_type": "3"},
    ),
)
