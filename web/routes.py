"""All operations of the interface, one line each, in the order of contract section 2.

- `route(tag, method, path, view, ...)` declares one operation. `tag` is its heading in the documentation, the
  first sentence of the view's docstring its summary. The view gets the ids of the path as keywords.
- The view returns a value or a finished Response. `response` is the schema that dumps the value;
  `many=True`: the value is a list.
- `body` is the schema with which `serialization.read_body()` reads the request; `query` that of the query.
- `permission` is the permission that the viewer needs (permissions.py).
- `auth=None` serves without a token; with `auth="view"` the view checks the token itself.
- `needs_store=False` serves without a connection to the store.
- `*crud(tag, path, RESOURCE)` declares the verbs of a resource; `exclude=` omits some of them.

The documentation at /api/openapi.json is generated from this list.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from web.account import (
    contact_codes,
    contact_test,
    custom_roles,
    invitations,
    members,
    message_settings,
    notification_preferences,
    profile,
    stakeholders,
    tokens,
)
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.fields import Schema
from web.http.openapi import document, summaries
from web.http.permissions import ADMIN, MANAGER, MEMBER, OWN
from web.http.rate_limit import Limits
from web.http.resource import Resource
from web.incidents import (
    actions,
    alerts,
    alerts_of_integration,
    analytics,
    filters,
    incidents,
    notes,
    responders,
    role_assignments,
    tags,
    tasks,
    timeline,
    traced,
)
from web.ingest import events
from web.oncall import (
    calendars,
    escalation_policies,
    oncall,
    overrides,
    schedule_checks,
    schedule_overview,
    schedule_problems,
    schedules,
)
from web.operations import dead_letters, metrics, simulate
from web.pages import api_docs, incident, join, start
from web.rules import alert_rules, dry_run, routers
from web.services import applications, grouping_policies, heartbeats, integrations, outgoing_rules, services
from web.teams import (
    incident_roles,
    labels,
    maintenance,
    permissions,
    post_incident_tasks,
    postmortems,
    task_templates,
    teams,
)


@dataclass(frozen=True, slots=True)
class Route:
    tag: str
    method: str
    path: str
    view: Callable[..., Any]
    name: str
    summary: str
    # The other sentences about the operation in the documentation.
    details: str = ""
    status: int = 200
    body: Schema | None = None
    response: Schema | None = None
    many: bool = False
    # The response in the documentation, for a view that returns a finished Response.
    doc_response: Schema | None = None
    # The JSON body in the documentation, for a view that reads the body itself.
    doc_body: Schema | None = None
    # The query parameters, without page and page_size.
    query: Schema | None = None
    # Whether the request can wait for its result, by the header Prefer.
    can_await: bool = False
    # Whether the list has pages for the client profile (contract 1.6).
    paged: bool = False
    # How many requests one account may send.
    rate_limits: Limits = ()
    # The time between two requests for the same object.
    min_interval: timedelta | None = None
    # How many of these requests a web process serves at the same time.
    concurrency_limit: ConcurrencyLimit | None = None
    # The permission that the viewer needs (web/http/permissions.py). Empty if no token is required.
    permission: str = ""
    auth: str | None = "token"
    needs_store: bool = True
    deprecated: bool = False
    documented: bool = True


def route(
    tag: str, method: str, path: str, view: Callable[..., Any], *, variant: str = "", **options: Any
) -> Route:
    """Declare one operation. By default, the view's name is its name, and the docstring its documentation.

    The first sentence of the docstring is the summary. `variant` distinguishes two operations of one view.
    """
    summary, details = summaries.split(view.__doc__ or view.__name__)
    options.setdefault("name", f"{view.__module__.rpartition('.')[2]}_{view.__name__}")
    options.setdefault("summary", f"{summary} ({variant})" if variant else summary)
    return Route(tag, method, path, view, **{"details": details, **options})


# verb -> method, success status, whether the path names one row
VERBS = {
    "create": ("POST", 201, False),
    "index": ("GET", 200, False),
    "retrieve": ("GET", 200, True),
    "update": ("PUT", 200, True),
    "change": ("PATCH", 200, True),
    "destroy": ("DELETE", 204, True),
}


def crud(
    tag: str, path: str, resource: Resource, *, exclude: Collection[str] = (), alias: str = ""
) -> list[Route]:
    """Declare the verbs of a resource; both PUT and PATCH update a row (contract 1.8).

    `alias` replaces the noun in the names of the operations, for a resource that is served at a second path.
    """
    return [_verb(tag, path, resource, verb, alias) for verb in VERBS if verb not in exclude]


def _verb(tag: str, path: str, resource: Resource, verb: str, alias: str) -> Route:
    method, status, on_row = VERBS[verb]
    summary = summaries.summarize(verb, resource.title or resource.noun)
    writes = method in ("POST", "PUT", "PATCH")
    page = resource.page if verb == "index" else None
    response = resource.write_response if writes else page or resource.response
    return Route(
        tag,
        method,
        f"{path}<{resource.id_arg}>/" if on_row else path,
        resource.update if verb == "change" else getattr(resource, verb),
        name=f"{verb}_{(alias or resource.noun).replace(' ', '_')}",
        summary=f"{summary} (other path)" if alias else summary,
        status=status,
        body=resource.schema if writes else None,
        response=None if verb == "destroy" else response or resource.schema,
        many=verb == "index" and page is None,
        paged=verb == "index" and resource.paged,
        rate_limits=resource.rate_limits,
        permission=resource.get_permission(verb),
    )


TEAM = "/api/account/teams/<team_id>"
TEAM_V2 = "/api/v2/account/teams/<team_id>"
USER = "/api/account/users/<username>"
ANALYTICS = "/api/v2/account/analytics"
INCIDENT = "/api/incidents/<incident>"
INCIDENT_V2 = "/api/v2/incidents/<incident>"
OWN_INCIDENT = "/api/tocsin/incidents/<incident>"
OWN_SCHEDULE = "/api/tocsin/schedules/<schedule_id>"

ROUTES: tuple[Route, ...] = (
    # --- account (contract 2.1) ----------------------------------------------------------------------
    route("Members", "POST", "/api/account/api_invite/", invitations.invite, permission="member_write", status=201, body=invitations.INVITATION, response=teams.MEMBER),
    *crud("Members", "/api/account/members/", members.MEMBERS, exclude=("create", "destroy")),
    route("Members", "POST", "/api/account/deleteuser/", members.remove_member, permission="member_write", status=204, body=members.REMOVE_MEMBER),
    *crud("Custom roles", "/api/account/customroles/", custom_roles.CUSTOM_ROLES),
    route("Custom roles", "POST", f"{USER}/customroles/", custom_roles.assign, permission=ADMIN, status=201, body=custom_roles.USER_ROLE, response=custom_roles.USER_ROLE),
    route("Custom roles", "GET", f"{USER}/customroles/", custom_roles.get_user_role, permission=OWN, response=custom_roles.USER_ROLE),
    # --- contacts and rules of a user (contract 2.2) -------------------------------------------------
    *crud("Notification rules", f"{USER}/notification_rules/", notification_preferences.NOTIFICATION_RULES),
    *crud("Forwarding rules", f"{USER}/forwarding_rules/", notification_preferences.FORWARDING_RULES),
    *crud("Contact methods", f"{USER}/contacts/", notification_preferences.CONTACTS),
    # --- teams (contract 2.3) ------------------------------------------------------------------------
    *crud("Teams", "/api/account/teams/", teams.TEAMS),
    *crud("Team members", f"{TEAM}/members/", teams.MEMBERS),
    route("Teams", "GET", f"{TEAM}/permissions/", permissions.retrieve, permission="team_read", response=permissions.PERMISSION),
    route("Teams", "PUT", f"{TEAM}/permissions/", permissions.update, permission=MANAGER, body=permissions.PERMISSION, response=permissions.PERMISSION),
    route("Teams", "PATCH", f"{TEAM}/permissions/", permissions.update, permission=MANAGER, body=permissions.PERMISSION, response=permissions.PERMISSION, name="team_permissions_change", summary="Update some permissions that a team gives to all members of the account"),
    # --- schedules, policies, services, integrations (contract 2.4) -----------------------------------
    *crud("Schedules", f"{TEAM}/schedules/", schedules.SCHEDULES),
    *crud("Schedules", f"{TEAM}/schedule/", schedules.SCHEDULES, alias="schedule by its other path"),
    *crud("Schedules", f"{TEAM_V2}/schedules/<schedule_id>/overrides/", overrides.OVERRIDES, exclude=("retrieve", "update", "change", "destroy")),
    *crud("Escalation policies", f"{TEAM}/escalation_policies/", escalation_policies.POLICIES),
    *crud("Services", f"{TEAM}/services/", services.SERVICES),
    *crud("Integrations", f"{TEAM}/services/<service_id>/integrations/", integrations.INTEGRATIONS),
    route("Integrations", "POST", "/api/account/regenerate_integration_key/", integrations.regenerate_key, permission="regenerate_integration_key", body=integrations.KEY_OWNER, response=integrations.INTEGRATIONS.schema),
    # --- incidents (contract 2.5) --------------------------------------------------------------------
    route("Incidents", "POST", "/api/incidents/filter/", filters.filter_incidents, permission="incident_read", body=filters.FILTER, response=filters.PAGE),
    route("Incidents", "POST", "/api/incidents/", incidents.create, permission="incident_write", status=201, body=incidents.NEW, response=incidents.INCIDENT),
    route("Incidents", "GET", f"{INCIDENT}/", incidents.retrieve, permission="incident_read", response=incidents.INCIDENT),
    route("Incidents", "PUT", f"{INCIDENT}/", incidents.update, permission="incident_write", body=incidents.CHANGE, response=incidents.INCIDENT),
    route("Incidents", "PATCH", f"{INCIDENT}/", incidents.update, permission="incident_write", body=incidents.CHANGE, response=incidents.INCIDENT, name="incidents_change", summary="Update some fields of an incident"),
    *crud("Incident notes", f"{INCIDENT}/note/", notes.INCIDENT_NOTES),
    *crud("Incident tags", f"{INCIDENT}/tags/", tags.INCIDENT_TAGS),
    *crud("Incident responders", f"{INCIDENT_V2}/responders/", responders.RESPONDERS),
    *crud("Incident responders", f"{INCIDENT}/responders/", responders.RESPONDERS, alias="responder"),
    route("Incidents", "GET", f"{INCIDENT}/alerts/", alerts.index, permission="incident_read", doc_response=alerts.ALERT, many=True, paged=True),
    # --- team elements (contract 2.6) ----------------------------------------------------------------
    *crud("Incident roles", f"{TEAM}/roles/", incident_roles.INCIDENT_ROLES),
    *crud("Tags", f"{TEAM}/tags/", labels.TAGS),
    *crud("Priorities", f"{TEAM}/priority/", labels.PRIORITIES),
    *crud("Task templates", f"{TEAM}/task_templates/", task_templates.TASK_TEMPLATES),
    *crud("SLAs", f"{TEAM}/sla/", labels.SLAS),
    *crud("Maintenance", f"{TEAM}/maintenance/", maintenance.MAINTENANCES),
    *crud("Postmortems", f"{TEAM}/postmortem/", postmortems.POSTMORTEMS),
    # --- who is on call (contract 2.7) ---------------------------------------------------------------
    route("On call", "GET", f"{TEAM}/oncall/", oncall.list_by_policy, permission="escalation_policy_read", response=oncall.BY_POLICY, many=True),
    route("On call", "GET", f"{TEAM_V2}/oncall/", oncall.list_by_step, permission="escalation_policy_read", response=oncall.BY_STEP, many=True),
    route("On call", "GET", f"{TEAM_V2}/escalation_policies/<escalation_policy_id>/oncall/", oncall.get_policy_on_call, permission="escalation_policy_read", response=oncall.BY_STEP, many=True),
    route("On call", "GET", f"{TEAM_V2}/services/<service_id>/oncall/", oncall.get_service_on_call, permission="service_read", response=oncall.BY_STEP, many=True),
    # --- routing (contract 2.7) ----------------------------------------------------------------------
    *crud("Alert rules", f"{TEAM}/services/<service_id>/integrations/<integration_id>/transformers/", alert_rules.ALERT_RULES),
    *crud("Global routers", "/api/v2/account/events/router/", routers.ROUTERS),
    *crud("Global routers", "/api/v2/account/events/router/<router_id>/rulesets/", routers.RULES),
    route("Global routers", "PUT", "/api/v2/account/events/router/<router_id>/rulesets/", routers.move, permission=ADMIN, body=routers.MOVE, response=routers.RULES.schema, many=True),
    # --- extras (contract 2.8) -----------------------------------------------------------------------
    route("Members", "GET", "/api/user/profile/", profile.show, permission=OWN, response=profile.PROFILE),
    *crud("Members", "/api/account/users/", members.USERS, exclude=("create", "destroy")),
    route("Members", "POST", "/api/account/invite/", invitations.invite_many, permission="member_write", status=201, body=invitations.INVITATIONS, response=teams.MEMBER, many=True),
    route("Integrations", "GET", "/api/account/integration-metadata/<integration_key>/", alerts_of_integration.get_metadata, permission="integration_read", response=alerts_of_integration.METADATA),
    route("Integrations", "GET", f"{TEAM}/services/<service_id>/integrations/<integration_id>/alerts/", alerts_of_integration.index, permission="incident_read", doc_response=alerts.ALERT, many=True, paged=True),
    route("Incidents", "GET", "/api/incidents/", filters.index, permission="incident_read", response=filters.PLAIN_PAGE),
    route("Integrations", "GET", "/api/account/applications/", applications.list_applications, permission=MEMBER, response=applications.APPLICATION, many=True),
    *crud("Outgoing rules", f"{TEAM_V2}/services/<service_id>/integrations/<integration_id>/outgoingrules/", outgoing_rules.OUTGOING_RULES),
    *crud("Post-incident tasks", f"{TEAM}/post_incident_tasks/", post_incident_tasks.POST_INCIDENT_TASKS),
    *crud("Task templates", f"{TEAM}/task_templates/<task_template_id>/tasks/", task_templates.TEMPLATE_TASKS),
    *crud("Grouping policies", f"{TEAM}/services/<service_id>/alert-grouping-policies/", grouping_policies.GROUPING_POLICIES),
    route("Analytics", "POST", f"{ANALYTICS}/incident_stats/", analytics.get_incident_stats, permission="analytics_read", body=analytics.FILTER, response=analytics.INCIDENT_STATS, concurrency_limit=analytics.STATS_CONCURRENCY),
    route("Analytics", "POST", f"{ANALYTICS}/team_analytics/", analytics.get_team_analytics, permission="analytics_read", body=analytics.FILTER, response=analytics.TEAM_ANALYTICS, concurrency_limit=analytics.TEAM_CONCURRENCY),
    route("Analytics", "POST", f"{ANALYTICS}/service_analytics/", analytics.get_service_analytics, permission="analytics_read", body=analytics.FILTER, response=analytics.SERVICE_ANALYTICS, concurrency_limit=analytics.SERVICE_CONCURRENCY),
    route("Analytics", "POST", f"{ANALYTICS}/user_analytics/", analytics.get_user_analytics, permission="analytics_read", body=analytics.FILTER, response=analytics.USER_ANALYTICS, concurrency_limit=analytics.USER_CONCURRENCY),
    route("Schedules", "GET", f"{TEAM}/schedules/<schedule_id>/get_schedule_ics/", calendars.get_schedule_address, permission="schedule_read", query=calendars.CALENDAR_QUERY, response=calendars.ADDRESS),
    route("Services", "GET", "/api/account/available_incident_services/", services.list_available, permission="service_read", response=services.SERVICES.schema, many=True),
    route("Escalation policies", "GET", "/api/account/available_account_eps/", escalation_policies.list_available, permission="escalation_policy_read", response=escalation_policies.AVAILABLE),
    # --- accept alerts, and the alert trace (contract 2.7, X36) --------------------------------------
    route("Alerts", "POST", "/api/events/<integration_key>/", events.create_by_key, status=201, doc_body=events.ALERT_BODY, can_await=True, doc_response=events.EVENT, auth=None, needs_store=False, deprecated=True),
    route("Alerts", "POST", "/integration/<account_id>/<extension>/<integration_key>/", events.create, variant="address with the account", doc_body=events.ALERT_BODY, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False),
    route("Alerts", "POST", "/api/integration/<extension>/<integration_key>/", events.create_by_application, doc_body=events.ALERT_BODY, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False),
    route("Alerts", "POST", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping", variant="POST, address with the account"),
    route("Alerts", "GET", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_get", variant="GET, address with the account"),
    route("Alerts", "POST", "/api/integration/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_application", variant="POST"),
    route("Alerts", "GET", "/api/integration/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_application_by_get", variant="GET"),
    route("Alerts", "POST", "/integration/<account_id>/httphealthcheck/<integration_key>/<alert_type>/", events.create_with_level, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="create_with_level", variant="address with the account"),
    route("Alerts", "POST", "/api/integration/httphealthcheck/<integration_key>/<alert_type>/", events.create_with_level, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="create_with_level_by_application"),
    route("Alerts", "GET", "/api/alert/status/<trace_id>/", events.get_status, permission="incident_read", doc_response=events.ALERT_STATUS, auth="view"),
    route("Alerts", "GET", "/api/tocsin/alerts/<trace_id>/", events.get_trace, permission="incident_read", query=events.TRACE_QUERY),
    # --- our own operations, under /api/tocsin/ ------------------------------------------------------
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.start, permission=OWN, response=contact_test.SEND_STARTED, min_interval=contact_test.MIN_INTERVAL),
    route("Contact methods", "GET", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.index, permission=OWN, response=contact_test.TEST_MESSAGE, many=True),
    route("Members", "POST", "/api/tocsin/users/<username>/invitation/", invitations.resend, permission="member_write", response=contact_test.SEND_STARTED, min_interval=contact_test.MIN_INTERVAL),
    route("Tokens", "GET", "/api/tocsin/tokens/", tokens.index, permission=MEMBER, response=tokens.PAGE),
    route("Tokens", "POST", "/api/tocsin/tokens/", tokens.create, permission=MEMBER, status=201, body=tokens.NEW_TOKEN, response=tokens.NEW_TOKEN),
    *crud("Stakeholders", "/api/tocsin/stakeholders/", stakeholders.STAKEHOLDERS),
    *crud("Tokens", "/api/tocsin/users/<username>/tokens/", tokens.TOKENS, exclude=("create",)),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/code/", contact_codes.send, permission=OWN, response=contact_test.SEND_STARTED, min_interval=contact_test.MIN_INTERVAL),
    route("Contact methods", "GET", "/api/tocsin/users/<username>/contacts/<contact_id>/code/", contact_codes.show, permission=OWN, response=contact_codes.VERIFICATION),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/verify/", contact_codes.verify, permission=OWN, body=contact_codes.CODE, response=contact_codes.VERIFICATION),
    route("Notification rules", "GET", "/api/tocsin/users/<username>/messages/", message_settings.show, permission=OWN, response=message_settings.MESSAGE_SETTINGS),
    route("Notification rules", "PATCH", "/api/tocsin/users/<username>/messages/", message_settings.change, permission=OWN, body=message_settings.MESSAGE_SETTINGS, response=message_settings.MESSAGE_SETTINGS),
    route("Alert rules", "POST", "/api/tocsin/rules/try/", dry_run.run, permission="integration_read", body=dry_run.DRY_RUN, response=dry_run.DRY_RUN_RESULT, concurrency_limit=dry_run.CONCURRENCY),
    route("Alerts", "POST", "/api/tocsin/simulate/", simulate.run, permission="incident_read", body=simulate.SIMULATE, response=simulate.SIMULATION, concurrency_limit=simulate.CONCURRENCY),
    *crud("Incidents", f"{OWN_INCIDENT}/roles/", role_assignments.ASSIGNMENTS, exclude=("retrieve", "update", "change")),
    *crud("Incidents", f"{OWN_INCIDENT}/tasks/", tasks.INCIDENT_TASKS),
    route("Incidents", "GET", "/api/tocsin/incidents/", traced.index, permission="incident_read", response=traced.INCIDENTS),
    route("Incidents", "GET", f"{OWN_INCIDENT}/", traced.retrieve, permission="incident_read", response=traced.INCIDENT),
    route("Incidents", "GET", f"{OWN_INCIDENT}/alerts/", traced.list_alerts, permission="incident_read", doc_response=traced.ALERTS),
    route("Integrations", "GET", "/api/tocsin/integrations/<integration_id>/alerts/", traced.list_alerts_of_integration, permission="incident_read", doc_response=traced.ALERTS),
    route("Incidents", "POST", f"{OWN_INCIDENT}/reassign/", actions.reassign, permission="incident_write", body=actions.REASSIGN, response=incidents.INCIDENT),
    route("Incidents", "POST", f"{OWN_INCIDENT}/snooze/", actions.snooze, permission="incident_write", body=actions.SNOOZE, response=incidents.INCIDENT),
    route("Incidents", "DELETE", f"{OWN_INCIDENT}/snooze/", actions.unsnooze, permission="incident_write", status=204),
    route("Incidents", "POST", f"{OWN_INCIDENT}/merge/", actions.merge, permission="incident_write", body=actions.INCIDENT_REFS, response=incidents.INCIDENT),
    route("Incidents", "POST", f"{OWN_INCIDENT}/unmerge/", actions.unmerge, permission="incident_write", body=actions.INCIDENT_REFS, response=incidents.INCIDENT),
    route("Incidents", "GET", f"{OWN_INCIDENT}/timeline/", timeline.index, permission="incident_read", response=timeline.TIMELINE),
    route("Schedules", "GET", "/api/tocsin/calendar/", calendars.get_own_address, permission=MEMBER, query=calendars.MONTHS_QUERY, response=calendars.ADDRESS),
    route("Schedules", "DELETE", "/api/tocsin/calendar/", calendars.renew, permission=MEMBER, status=204),
    route("Schedules", "DELETE", "/api/tocsin/users/<username>/calendar/", calendars.renew_for_user, permission=OWN, status=204),
    route("Schedules", "GET", f"{OWN_SCHEDULE}/timeline/", schedule_overview.get_timeline, permission="schedule_read", query=schedule_overview.PERIOD_QUERY, response=schedule_overview.TIMELINE, concurrency_limit=schedule_problems.CONCURRENCY),
    route("Schedules", "GET", f"{OWN_SCHEDULE}/checks/", schedule_checks.retrieve, permission="schedule_read", response=schedule_checks.CHECKS),
    route("Schedules", "PUT", f"{OWN_SCHEDULE}/checks/", schedule_checks.update, permission="schedule_write", body=schedule_checks.CHECKS, response=schedule_checks.CHECKS),
    route("On call", "GET", f"{OWN_SCHEDULE}/oncall/", schedule_overview.get_on_call, permission="schedule_read", query=schedule_overview.MOMENT_QUERY, response=schedule_overview.ON_CALL, concurrency_limit=schedule_problems.CONCURRENCY),
    route("Integrations", "GET", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.retrieve, permission="integration_read", response=heartbeats.HEARTBEAT),
    route("Integrations", "PUT", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.update, permission="integration_write", body=heartbeats.HEARTBEAT, response=heartbeats.HEARTBEAT),
    *crud("Integrations", "/api/tocsin/applications/", applications.ADDED_APPLICATIONS, exclude=("update", "change")),
    route("Alerts", "GET", "/api/tocsin/dead-letters/", dead_letters.index, permission="incident_read", response=dead_letters.PAGE),
    route("Alerts", "GET", "/api/tocsin/dead-letters/<dead_letter_id>/", dead_letters.retrieve, permission="incident_read", response=dead_letters.DEAD_LETTER),
    route("Alerts", "POST", "/api/tocsin/dead-letters/<dead_letter_id>/replay/", dead_letters.replay, permission="incident_write", response=dead_letters.REPLAYED),
    route("Alerts", "DELETE", "/api/tocsin/dead-letters/<dead_letter_id>/", dead_letters.destroy, permission="incident_write", status=204),
    # --- the description of the interface ------------------------------------------------------------
    route("Operation", "GET", document.PATH, document.show, auth=None, needs_store=False, documented=False),
    route("Operation", "GET", f"{document.DOCS}/", api_docs.show, auth=None, needs_store=False, documented=False),
    # --- for the operator of the installation --------------------------------------------------------
    route("Operation", "GET", "/metrics", metrics.show, auth=None, documented=False),
    # --- pages, outside the interface ----------------------------------------------------------------
    route("Pages", "GET", "/", start.show, auth=None, needs_store=False, documented=False),
    route("Pages", "GET", "/i/<token>", incident.show, auth=None, documented=False),
    route("Pages", "POST", "/i/<token>", incident.act, auth=None, documented=False),
    route("Pages", "GET", "/join/<token>", join.show, auth=None, documented=False),
    route("Pages", "POST", "/join/<token>", join.join, auth=None, documented=False),
    route("Pages", "GET", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
    route("Pages", "HEAD", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
)  # fmt: skip
