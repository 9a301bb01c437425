"""All served operations, with the body of a valid request and the keys of the answer.

The keys are exactly those of contract section 3: the published Python client refuses additional and missing
keys. A row whose keys depend on the profile has both.
"""

from dataclasses import dataclass

from models.domain.values import replace


def keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


USER = keys("username first_name last_name email")
ACCOUNT_MEMBER = keys("unique_id time_zone user joining_date role is_verified")
TEAM = keys("unique_id name account creation_date members owner roles private account_permissions")
MEMBER = keys("unique_id team user joining_date role")
CUSTOM_ROLE = keys("unique_id name description")
USER_CUSTOM_ROLE = keys("user custom_role custom_role_details")
FORWARDING_RULE = keys("unique_id creation_date time_zone from_date to_date to_user created_by user")
PROFILE = keys(
    "username email first_name last_name role contacts notification_rules forwarding_rules permissions teams"
)
TOKEN = keys("unique_id name user created_at expires_at last_used_at")
CONTACT = keys("unique_id name creation_date contact_type value")
RULE = keys("unique_id creation_date start_delay type contact urgency")
SCHEDULE = keys(
    "name summary description time_zone team layers overrides unique_id connections shift_time_in_dst"
)
OVERRIDE = keys("name user start_time end_time unique_id")
POLICY = keys(
    "name summary description rules unique_id team repeat_policy move_to_next global_ep connections"
    " assignment_settings"
)
ASSIGNMENT = keys("unique_id assignee_strategy assignment_index call_rr_assignee")
SERVICE = keys(
    "name creation_date summary description unique_id auto_resolve_timeout created_by team_priority"
    " task_template acknowledgement_timeout status escalation_policy team sla under_maintenance collation"
    " collation_time acknowledgement_timeout_enabled"
)
INTEGRATION = keys(
    "name creation_date summary unique_id service application application_reference integration_key"
    " created_by is_enabled create_incidents_for integration_type default_urgency webhook_url description"
)
APPLICATION = keys(
    "name icon_url summary description unique_id availability_plan_id setup_instructions extension"
    " application_type categories documentation_link is_active"
)
ADDED = keys("unique_id kind creation_date")
SOURCE_SETUP = keys(
    "kind is_signed has_secret mapping default_alert_type topics accepts_get has_alert_access updated_at"
)
HEALTH = keys("last_request_at last_alert rates dead_letters unread refused unheard silence")
OUTBOUND = keys("url secret failures retry_at")
OUTBOUND_DELIVERY = keys("unique_id incident event_type state reason attempts creation_date last_attempt_at")
CHANGE = keys(
    "unique_id at action kind object name number team person actor author token way batch what fields undoes"
    " undone_by can_undo why_not"
)
TAG = keys("unique_id team name creation_date color")
PRIORITY = keys("unique_id name description creation_date color team")
TEAM_PERMISSION = keys("unique_id account_permissions")
ROLE = keys("unique_id title description creation_date rank")
OUTGOING_RULE = keys("unique_id is_enabled rule_json")
POST_INCIDENT_TASK_KEYS = keys(
    "unique_id title description team status due_in_time creation_date assigned_to assigned_to_obj"
)
GROUPING_POLICY = keys(
    "unique_id service match_mode match_fields time_window is_active created_at updated_at"
)
TASK_TEMPLATE = keys("unique_id name creation_date summary due_immediately")
TEMPLATE_TASK = keys("unique_id task_template title description due_in creation_date role position")
POSTMORTEM = keys("unique_id author status incidents author_name title postmortem_data download_status")
SLA = keys(
    "unique_id name is_active acknowledge_time resolve_time creation_date escalations description conditions"
    " team"
)
MAINTENANCE = keys(
    "unique_id start_time end_time repeat_interval services creation_date name time_zone repeat_until"
    " maintenance_template"
)
ON_CALL = keys("escalation_policy team users")
ON_CALL_BY_STEP = keys("unique_id name oncalls")
INCIDENT = keys(
    "summary incident_number creation_date status unique_id service_object title incident_key service urgency"
    " merged_with assigned_to escalation_policy escalation_policy_object assigned_to_name resolved_date"
    " acknowledged_date context_window_start context_window_end tags sla sla_object team_priority"
    " team_priority_object parent_incident is_parent_incident snooze_time snoozed_till postmortems"
    " postmortem_assignee"
)
NOTE = keys("unique_id incident user note user_name creation_date")
INCIDENT_TAG = keys("unique_id incident team_tag name color tag_id creation_date")
RESPONDER = keys(
    "unique_id incident user user_name subject message escalation_policy escalation_policy_name"
    " response_status creation_date"
)
ASSIGNED_ROLE = keys("unique_id role role_title user user_name creation_date")
INCIDENT_TASK = keys("unique_id title description status due_at assigned_to role creation_date")
ENTRY = keys("at kind what reason actor alert trace_id notification")
SCHEDULE_TIMELINE = keys(
    "schedule name time_zone warnings from to shifts gaps conflicts conflicts_count conflicts_until"
    " moved_handoffs"
)
SCHEDULE_ON_CALL = keys(
    "schedule name time_zone warnings at until oncalls handoff gaps conflicts conflicts_count conflicts_until"
)
SHIFT = keys("user start_time end_time layer override name")
SCHEDULE_CHECK = keys("kind start_time end_time user schedules what minor")
SIMULATION = keys(
    "at until service integration source alerts simulated_events incidents notified warnings continues_at"
    " is_truncated"
)
STAKEHOLDER = keys("unique_id email name")
ROUTER = keys("unique_id name description account is_enabled integration_key created_at account_identifier")
ROUTER_RULE = keys("unique_id name position rule_json actions router")
ALERT_RULE = keys("unique_id rule_type description stop position conditions actions rule_json is_enabled")
METRICS = keys("total_incidents total_acknowledged total_resolved mtta_seconds mttr_seconds")
INCIDENT_STATS = keys(
    "total_incidents total_triggered_incidents total_acknowledged_incidents total_resolved_incidents"
    " user_total_incidents user_triggered_incidents user_acknowledged_incidents user_resolved_incidents"
)
PAGE = keys("count next previous results")
ALERT = keys(
    "integration_object summary incident creation_date message integration suppressed entity_id alert_type"
    " unique_id urls images notes"
)
INTEGRATION_OBJECT = keys(
    "name creation_date summary unique_id service team integration_key is_enabled integration_type"
)
HEARTBEAT = keys("every grace last_ping expected_at is_missing")
METADATA = keys("team service integration")
EVENT = ALERT | keys("payload incident_created")

# The keys of nested objects, by the path of keys to them; a number is a position in a list.
NESTED: dict[str, tuple[tuple[str, frozenset[str]], ...]] = {
    "Team": (
        ("members.0", MEMBER),
        ("members.0.user", USER),
        ("roles.0", keys("unique_id team title description creation_date rank")),
    ),
    "Incident": (
        ("service_object", SERVICE | {"team_name"}),
        ("escalation_policy_object", keys("unique_id name team")),
        ("sla_object", keys("unique_id name is_active acknowledge_time resolve_time creation_date")),
        ("team_priority_object", keys("unique_id name description color")),
    ),
    "Schedule": (
        (
            "layers.0",
            keys(
                "shift_length restrictions name users rotation_start_time rotation_end_time unique_id"
                " last_edited"
                " restriction_type is_active"
            ),
        ),
        ("layers.0.users.0", keys("user position unique_id")),
        ("layers.0.restrictions.0", keys("duration start_day_of_week start_time_of_day unique_id")),
        ("overrides.0", OVERRIDE),
    ),
    "AvailablePolicies": (("escalations.0", POLICY), ("escalations.0.assignment_settings", ASSIGNMENT)),
    "TeamAnalytics": (
        ("all_teams", METRICS),
        ("team_records.0", METRICS | {"team"}),
        ("team_records.0.team", keys("name unique_id")),
    ),
    "ServiceAnalytics": (
        ("all_services", METRICS),
        ("service_records.0", METRICS | {"team", "service"}),
        ("service_records.0.team", keys("name unique_id")),
        ("service_records.0.service", keys("name unique_id")),
    ),
    "UserAnalytics": (
        ("all_users", METRICS),
        ("user_records.0", METRICS | {"user"}),
        ("user_records.0.user", keys("full_name username")),
    ),
    "Maintenance": (("services.0", keys("unique_id service")),),
    "OnCall": (
        (
            "escalation_policy",
            keys("name summary description unique_id repeat_policy move_to_next global_ep"),
        ),
        ("team", keys("unique_id name")),
        ("users.0", USER),
    ),
    "OnCallByStep": (
        ("oncalls.0", keys("ep_rule position delay oncalls")),
        ("oncalls.0.oncalls.0", USER),
    ),
    "Policy": (
        ("rules.0", keys("delay targets position unique_id")),
        ("rules.0.targets.0", keys("target_type target_id position")),
        ("assignment_settings", ASSIGNMENT),
    ),
    "Simulation": (
        ("service", keys("unique_id name")),
        ("integration", keys("unique_id name")),
        (
            "alerts.0",
            keys("message alert_type entity_id suppressed stages rules incident incident_created"),
        ),
        ("alerts.0.stages.0", keys("stage reason")),
        (
            "simulated_events.0",
            keys("at after kind what reason incident person username channel contact"),
        ),
        (
            "incidents.0",
            keys("incident_number title status urgency assigned_to creation_date resolved_date"),
        ),
        ("notified.0", keys("username person email at after")),
    ),
    "Sla": (
        ("escalations.0", keys("unique_id time type responders responder")),
        ("escalations.0.responders.0", keys("user unique_id")),
    ),
    "Profile": (
        ("contacts.0", CONTACT),
        ("notification_rules.0", RULE | {"user"}),
        ("teams.0", keys("unique_id name private members")),
    ),
    "TracedIncidents": (("results.0", INCIDENT | {"is_child_incident", "trace_id"}),),
    "TracedAlerts": (("results.0", ALERT | {"trace_id"}),),
    "Changes": (("results.0", CHANGE),),
    "Timeline": (
        ("results.0", ENTRY),
        ("results.0.actor", keys("kind name username")),
    ),
    "ScheduleTimeline": (
        ("shifts.0", SHIFT),
        ("shifts.0.user", USER),
        ("gaps.0", SCHEDULE_CHECK),
        ("gaps.0.schedules.0", keys("unique_id name")),
    ),
    "ScheduleOnCall": (
        ("oncalls.0", SHIFT | {"forwarded_to"}),
        ("oncalls.0.user", USER),
        ("handoff", keys("at oncalls")),
    ),
    "PostIncidentTask": (("assigned_to_obj", keys("first_name last_name username")),),
    "GroupingPolicy": (("match_fields", keys("static_fields custom_fields")),),
    "Postmortem": (("incidents.0", keys("unique_id incident")),),
    "Integration": (("application_reference", APPLICATION),),
    "Metadata": (
        ("team", keys("name unique_id")),
        ("service", keys("name unique_id")),
        ("integration", keys("name unique_id extension")),
    ),
    "AlertRule": (
        (
            "actions.0",
            keys(
                "unique_id action_type key value value_reference_name escalation_policy"
                " escalation_policy_name assign_to assign_to_name schedule sla team_priority task_template"
            ),
        ),
        ("conditions.0", keys("unique_id alert_condition_type alert_field pattern position")),
    ),
    "RouterRule": (
        ("actions.0", keys("unique_id action_type service team integration_obj")),
        ("actions.0.service", keys("name unique_id")),
        ("actions.0.team", keys("name unique_id")),
        ("actions.0.integration_obj", keys("name unique_id")),
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """An operation. `keys` is None for an empty answer; `is_list`: the answer is an array of objects with
    these keys. `client` are the keys in the client profile."""

    method: str
    path: str
    status: int
    keys: frozenset[str] | None
    body: str | None = None
    is_list: bool = False
    client: frozenset[str] | None = None
    noun: str = ""


def crud_rows(
    path: str,
    id_arg: str,
    noun: str,
    keys_of_noun: frozenset[str],
    nested: str = "",
    *,
    shown: frozenset[str] = frozenset(),
    paged: bool = False,
) -> list[Row]:
    """Return the rows of a resource's verbs. Answers to GET also have the keys in `shown`."""
    one = f"{path}<{id_arg}>/"
    return [
        Row("POST", path, 201, keys_of_noun, noun, noun=nested),
        Row("GET", path, 200, PAGE)
        if paged
        else Row("GET", path, 200, keys_of_noun | shown, is_list=True, noun=nested),
        Row("GET", one, 200, keys_of_noun | shown, noun=nested),
        Row("PUT", one, 200, keys_of_noun, noun, noun=nested),
        Row("PATCH", one, 200, keys_of_noun, noun, noun=nested),
        Row("DELETE", one, 204, None),
    ]


TEAM_PATH = "/api/account/teams/<team_id>"
TEAM_PATH_V2 = "/api/v2/account/teams/<team_id>"
U = "/api/account/users/<username>"
ROUTERS = "/api/v2/account/events/router/"
INCIDENT_PATH = "/api/incidents/<incident>"
INCIDENT_PATH_V2 = "/api/v2/incidents/<incident>"
ANALYTICS = "/api/v2/account/analytics"
OWN_PATH = "/api/tocsin/incidents/<incident>"
SCHEDULE_OVERVIEW = "/api/tocsin/schedules/<schedule_id>"

OPERATIONS = (
    Row("POST", "/api/account/api_invite/", 201, MEMBER, "invitation"),
    Row("GET", "/api/account/members/", 200, ACCOUNT_MEMBER, is_list=True),
    Row("GET", "/api/account/members/<username>/", 200, ACCOUNT_MEMBER),
    Row("PUT", "/api/account/members/<username>/", 200, ACCOUNT_MEMBER, "account_member"),
    Row("PATCH", "/api/account/members/<username>/", 200, ACCOUNT_MEMBER, "account_member"),
    Row("POST", "/api/account/deleteuser/", 204, None, "dismissal"),
    *crud_rows(
        "/api/account/customroles/", "custom_role_id", "custom_role", CUSTOM_ROLE, shown=keys("permissions")
    ),
    Row("POST", f"{U}/customroles/", 201, USER_CUSTOM_ROLE, "user_custom_role"),
    Row("GET", f"{U}/customroles/", 200, USER_CUSTOM_ROLE),
    *crud_rows(f"{U}/notification_rules/", "notification_rule_id", "rule", RULE),
    *crud_rows(f"{U}/forwarding_rules/", "forwarding_rule_id", "forwarding_rule", FORWARDING_RULE),
    *crud_rows(f"{U}/contacts/", "contact_id", "contact", CONTACT),
    *crud_rows("/api/account/teams/", "team_id", "team", TEAM, "Team"),
    *crud_rows(f"{TEAM_PATH}/members/", "member_id", "member", MEMBER),
    Row("GET", f"{TEAM_PATH}/permissions/", 200, TEAM_PERMISSION),
    Row("PUT", f"{TEAM_PATH}/permissions/", 200, TEAM_PERMISSION, "permission"),
    Row("PATCH", f"{TEAM_PATH}/permissions/", 200, TEAM_PERMISSION, "permission"),
    *crud_rows(f"{TEAM_PATH}/schedules/", "schedule_id", "schedule", SCHEDULE, "Schedule"),
    *crud_rows(f"{TEAM_PATH}/schedule/", "schedule_id", "schedule", SCHEDULE, "Schedule"),
    Row("POST", f"{TEAM_PATH_V2}/schedules/<schedule_id>/overrides/", 201, OVERRIDE, "override"),
    Row(
        "GET",
        f"{TEAM_PATH_V2}/schedules/<schedule_id>/overrides/",
        200,
        OVERRIDE | {"overridden_details"},
        is_list=True,
    ),
    *crud_rows(f"{TEAM_PATH}/escalation_policies/", "escalation_policy_id", "policy", POLICY, "Policy"),
    *crud_rows(f"{TEAM_PATH}/services/", "service_id", "service", SERVICE),
    *crud_rows(
        f"{TEAM_PATH}/services/<service_id>/integrations/",
        "integration_id",
        "integration",
        INTEGRATION,
        "Integration",
    ),
    Row("POST", "/api/account/regenerate_integration_key/", 200, INTEGRATION, "key_owner"),
    Row("POST", "/api/incidents/filter/", 200, PAGE, "filter"),
    Row("POST", "/api/incidents/", 201, INCIDENT, "incident", noun="Incident"),
    Row("GET", f"{INCIDENT_PATH}/", 200, INCIDENT, noun="Incident"),
    Row("PUT", f"{INCIDENT_PATH}/", 200, INCIDENT, "change", noun="Incident"),
    Row("PATCH", f"{INCIDENT_PATH}/", 200, INCIDENT, "change", noun="Incident"),
    *(
        replace(row, client=PAGE) if row.is_list else row
        for row in crud_rows(f"{INCIDENT_PATH}/note/", "note_id", "note", NOTE)
    ),
    *crud_rows(f"{INCIDENT_PATH}/tags/", "incident_tag_id", "incident_tag", INCIDENT_TAG),
    *crud_rows(f"{INCIDENT_PATH_V2}/responders/", "responder_id", "responder", RESPONDER),
    *crud_rows(f"{INCIDENT_PATH}/responders/", "responder_id", "responder", RESPONDER),
    Row("GET", f"{INCIDENT_PATH}/alerts/", 200, ALERT, is_list=True, client=PAGE),
    *crud_rows(f"{TEAM_PATH}/roles/", "incident_role_id", "role", ROLE, shown=keys("team")),
    *crud_rows(f"{TEAM_PATH}/tags/", "tag_id", "tag", TAG),
    *crud_rows(f"{TEAM_PATH}/priority/", "priority_id", "priority", PRIORITY),
    *crud_rows(
        f"{TEAM_PATH}/task_templates/", "task_template_id", "task_template", TASK_TEMPLATE, shown=keys("team")
    ),
    *crud_rows(
        f"{TEAM_PATH}/task_templates/<task_template_id>/tasks/",
        "task_id",
        "template_task",
        TEMPLATE_TASK,
    ),
    *crud_rows(f"{TEAM_PATH}/sla/", "sla_id", "sla", SLA, "Sla"),
    *crud_rows(f"{TEAM_PATH}/maintenance/", "maintenance_id", "maintenance", MAINTENANCE, "Maintenance"),
    Row("GET", f"{TEAM_PATH}/oncall/", 200, ON_CALL, is_list=True, noun="OnCall"),
    Row("GET", f"{TEAM_PATH_V2}/oncall/", 200, ON_CALL_BY_STEP, is_list=True, noun="OnCallByStep"),
    Row(
        "GET",
        f"{TEAM_PATH_V2}/escalation_policies/<escalation_policy_id>/oncall/",
        200,
        ON_CALL_BY_STEP,
        is_list=True,
        noun="OnCallByStep",
    ),
    Row(
        "GET",
        f"{TEAM_PATH_V2}/services/<service_id>/oncall/",
        200,
        ON_CALL_BY_STEP,
        is_list=True,
        noun="OnCallByStep",
    ),
    *crud_rows(
        f"{TEAM_PATH}/postmortem/",
        "postmortem_id",
        "postmortem",
        POSTMORTEM,
        "Postmortem",
        shown=keys("amazon_link creation_date updated_at"),
    ),
    *crud_rows(
        "/api/v2/account/teams/<team_id>/services/<service_id>/integrations/<integration_id>/outgoingrules/",
        "outgoing_rule_id",
        "outgoing_rule",
        OUTGOING_RULE,
    ),
    *crud_rows(
        f"{TEAM_PATH}/post_incident_tasks/",
        "post_incident_task_id",
        "post_incident_task",
        POST_INCIDENT_TASK_KEYS,
        "PostIncidentTask",
        paged=True,
    ),
    *crud_rows(
        f"{TEAM_PATH}/services/<service_id>/alert-grouping-policies/",
        "grouping_policy_id",
        "grouping_policy",
        GROUPING_POLICY,
        "GroupingPolicy",
    ),
    *crud_rows(
        f"{TEAM_PATH}/services/<service_id>/integrations/<integration_id>/transformers/",
        "transformers_id",
        "alert_rule",
        ALERT_RULE,
        "AlertRule",
    ),
    *crud_rows(ROUTERS, "router_id", "router", ROUTER),
    *crud_rows("/api/tocsin/stakeholders/", "stakeholder_id", "stakeholder", STAKEHOLDER),
    *crud_rows(f"{ROUTERS}<router_id>/rulesets/", "ruleset_id", "router_rule", ROUTER_RULE, "RouterRule"),
    Row("PUT", f"{ROUTERS}<router_id>/rulesets/", 200, ROUTER_RULE, "move", is_list=True, noun="RouterRule"),
    Row("GET", "/api/account/available_incident_services/", 200, SERVICE, is_list=True),
    Row("GET", "/api/account/available_account_eps/", 200, keys("escalations"), noun="AvailablePolicies"),
    Row("POST", f"{ANALYTICS}/incident_stats/", 200, INCIDENT_STATS, "analytics"),
    *(
        Row(
            "POST",
            f"{ANALYTICS}/{kind}_analytics/",
            200,
            keys(f"all_{kind}s {kind}_records"),
            "analytics",
            noun=f"{kind.title()}Analytics",
        )
        for kind in ("team", "service", "user")
    ),
    Row("GET", f"{TEAM_PATH}/schedules/<schedule_id>/get_schedule_ics/", 200, keys("url")),
    Row("GET", "/api/user/profile/", 200, PROFILE, noun="Profile"),
    Row("GET", "/api/account/users/", 200, ACCOUNT_MEMBER, is_list=True),
    Row("GET", "/api/account/users/<username>/", 200, ACCOUNT_MEMBER),
    Row("PUT", "/api/account/users/<username>/", 200, ACCOUNT_MEMBER, "user"),
    Row("PATCH", "/api/account/users/<username>/", 200, ACCOUNT_MEMBER, "user"),
    Row("POST", "/api/account/invite/", 201, MEMBER, "invitations", is_list=True),
    Row("GET", "/api/account/integration-metadata/<integration_key>/", 200, METADATA, noun="Metadata"),
    Row(
        "GET",
        f"{TEAM_PATH}/services/<service_id>/integrations/<integration_id>/alerts/",
        200,
        ALERT,
        is_list=True,
        client=PAGE,
    ),
    Row("GET", "/api/incidents/", 200, PAGE),
    Row("GET", "/api/account/applications/", 200, APPLICATION, is_list=True),
    Row("POST", "/api/events/<integration_key>/", 201, EVENT, "event", client=EVENT - {"payload"}),
    Row(
        "POST",
        "/integration/<account_id>/<extension>/<integration_key>/",
        200,
        keys("message trace_id"),
        "event",
    ),
    Row(
        "POST",
        "/api/integration/<extension>/<integration_key>/",
        200,
        keys("message trace_id"),
        "event",
    ),
    Row(
        "GET",
        "/api/alert/status/<trace_id>/",
        200,
        keys("status alert integration incident suppressed is_incident_created"),
    ),
    *(
        Row(method, f"{path}/heartbeat/<integration_key>/", 200, keys("message trace_id"))
        for path in ("/integration/<account_id>", "/api/integration")
        for method in ("POST", "GET")
    ),
    *(
        Row("POST", f"{path}/httphealthcheck/<integration_key>/<alert_type>/", 200, keys("message trace_id"))
        for path in ("/integration/<account_id>", "/api/integration")
    ),
    # Our own operations, beyond the contract.
    *(
        Row(method, "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", 200, HEARTBEAT, body)
        for method, body in (("GET", None), ("PUT", "heartbeat"))
    ),
    *(
        Row(method, "/api/tocsin/integrations/<source_id>/source/", 200, SOURCE_SETUP, body)
        for method, body in (("GET", None), ("PUT", "source_setup"))
    ),
    Row(
        "GET",
        "/api/tocsin/integrations/silent/",
        200,
        keys("results is_complete"),
        noun="Silent integrations",
    ),
    Row("GET", "/api/tocsin/integrations/<source_id>/health/", 200, HEALTH),
    Row(
        "GET",
        "/api/tocsin/objects/<object_id>/deletion/",
        200,
        keys("kind name removed emptied can_undo why_not"),
        noun="Deletion",
    ),
    Row("POST", "/api/tocsin/changes/<change_id>/undo/", 200, keys("batch written left")),
    Row("POST", "/api/tocsin/integrations/<source_id>/source/secret/", 200, keys("secret")),
    Row("POST", "/api/tocsin/integrations/<source_id>/source/try/", 200, keys("alerts"), "source_trial"),
    Row("DELETE", "/api/tocsin/integrations/<source_id>/source/secret/", 204, None),
    *(
        Row(method, "/api/tocsin/integrations/<outbound_id>/outbound/", 200, OUTBOUND, body)
        for method, body in (("GET", None), ("PUT", "outbound"))
    ),
    Row("GET", "/api/tocsin/integrations/<outbound_id>/outbound/deliveries/", 200, PAGE, noun="Deliveries"),
    Row(
        "POST",
        "/api/tocsin/integrations/<outbound_id>/outbound/deliveries/<delivery_id>/resend/",
        201,
        OUTBOUND_DELIVERY,
    ),
    *(
        Row(method, f"{SCHEDULE_OVERVIEW}/checks/", 200, keys("double_shifts"), body)
        for method, body in (("GET", None), ("PUT", "schedule_checks"))
    ),
    *(
        row
        for row in crud_rows(f"{OWN_PATH}/roles/", "assignment_id", "held_role", ASSIGNED_ROLE)
        if row.method in ("POST", "DELETE") or row.is_list
    ),
    *crud_rows(f"{OWN_PATH}/tasks/", "incident_task_id", "incident_task", INCIDENT_TASK),
    Row("POST", f"{OWN_PATH}/reassign/", 200, INCIDENT, "reassignment", noun="Incident"),
    Row("DELETE", f"{OWN_PATH}/snooze/", 204, None),
    Row("GET", "/api/tocsin/incidents/", 200, PAGE, noun="TracedIncidents"),
    Row("GET", f"{OWN_PATH}/", 200, INCIDENT | {"is_child_incident", "trace_id"}, noun="Incident"),
    Row("GET", f"{OWN_PATH}/alerts/", 200, PAGE, noun="TracedAlerts"),
    Row("GET", "/api/tocsin/integrations/<integration_id>/alerts/", 200, PAGE, noun="TracedAlerts"),
    Row("GET", f"{OWN_PATH}/timeline/", 200, PAGE, noun="Timeline"),
    Row("GET", "/api/tocsin/calendar/", 200, keys("url")),
    Row("DELETE", "/api/tocsin/calendar/", 204, None),
    *(
        row
        for row in crud_rows("/api/tocsin/applications/", "application_id", "added_application", ADDED)
        if row.method not in ("PUT", "PATCH")
    ),
    Row("GET", "/api/tocsin/changes/", 200, PAGE, noun="Changes"),
    Row("GET", "/api/tocsin/changes/<change_id>/", 200, CHANGE),
    Row("GET", "/api/tocsin/tokens/", 200, PAGE),
    Row("POST", "/api/tocsin/tokens/", 201, TOKEN | {"token"}, "token", noun="NewToken"),
    *(
        row
        for row in crud_rows("/api/tocsin/users/<username>/tokens/", "token_id", "token", TOKEN, "Token")
        if row.method != "POST"
    ),
    Row("POST", "/api/tocsin/simulate/", 200, SIMULATION, "simulation", noun="Simulation"),
    Row("DELETE", "/api/tocsin/users/<username>/calendar/", 204, None),
    Row("GET", "/api/tocsin/users/<username>/messages/", 200, keys("recovery_mails")),
    Row("PATCH", "/api/tocsin/users/<username>/messages/", 200, keys("recovery_mails"), "message_settings"),
    Row("GET", f"{SCHEDULE_OVERVIEW}/timeline/", 200, SCHEDULE_TIMELINE, noun="ScheduleTimeline"),
    Row("GET", f"{SCHEDULE_OVERVIEW}/oncall/", 200, SCHEDULE_ON_CALL, noun="ScheduleOnCall"),
)
