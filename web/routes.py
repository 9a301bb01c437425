"""All operations of the interface, one line each, in the order of contract section 2.

- `route(method, path, view, ...)` declares one operation. The view gets the ids of the path as keywords.
- The view returns a value or a finished Response. `response` is the schema that dumps the value;
  `many=True`: the value is a list.
- `body` is the schema with which `serialization.read_body()` reads the request; `query` that of the query.
- `permission` is the permission that the viewer needs (permissions.py).
- `auth=None` serves without a token; with `auth="view"` the view checks the token itself.
- `needs_store=False` serves without a connection to the store.
- `*crud(path, RESOURCE)` declares the verbs of a resource; `exclude=` omits some of them.

The documentation at /api/openapi.json is generated from this list.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from web.account import contact_test, custom_roles, invitations, members, notification_preferences, profile
from web.http import openapi
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.fields import Schema
from web.http.permissions import ADMIN, MANAGER, MEMBER, OWN
from web.http.rate_limit import Limits
from web.http.resource import Resource
from web.incidents import (
    actions,
    alerts,
    alerts_of_integration,
    filters,
    incidents,
    notes,
    responders,
    role_assignments,
    tags,
    tasks,
    timeline,
)
from web.ingest import events
from web.oncall import calendars, escalation_policies, oncall, overrides, schedule_overview, schedules
from web.operations import dead_letters, metrics, simulate
from web.pages import incident, join
from web.rules import alert_rules, dry_run, routers
from web.services import grouping_policies, heartbeats, integrations, outgoing_rules, services
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
    method: str
    path: str
    view: Callable[..., Any]
    name: str
    summary: str
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
    # Whether the list has pages for the client profile (contract 1.6).
    paged: bool = False
    # How many requests one account may send.
    rate_limits: Limits = ()
    # How many of these requests a web process serves at the same time.
    concurrency_limit: ConcurrencyLimit | None = None
    # The permission that the viewer needs (web/http/permissions.py). Empty if no token is required.
    permission: str = ""
    auth: str | None = "token"
    needs_store: bool = True
    deprecated: bool = False
    documented: bool = True


def route(method: str, path: str, view: Callable[..., Any], **options: Any) -> Route:
    """Declare one operation. By default, the view's name and docstring are its name and summary."""
    options.setdefault("name", f"{view.__module__.rpartition('.')[2]}_{view.__name__}")
    options.setdefault("summary", (view.__doc__ or view.__name__).strip().partition("\n")[0])
    return Route(method, path, view, **options)


# verb -> method, success status, whether the path names one row, start of the summary
VERBS = {
    "create": ("POST", 201, False, "Create one"),
    "index": ("GET", 200, False, "List each"),
    "retrieve": ("GET", 200, True, "Retrieve one"),
    "update": ("PUT", 200, True, "Update one"),
    "change": ("PATCH", 200, True, "Change parts of one"),
    "destroy": ("DELETE", 204, True, "Delete one"),
}


def crud(path: str, resource: Resource, *, exclude: Collection[str] = (), alias: str = "") -> list[Route]:
    """Declare the verbs of a resource; both PUT and PATCH update a row (contract 1.8).

    `alias` replaces the noun of a resource that is served at a second path.
    """
    noun = alias or resource.noun
    return [_verb(path, resource, verb, noun) for verb in VERBS if verb not in exclude]


def _verb(path: str, resource: Resource, verb: str, noun: str) -> Route:
    method, status, on_row, summary = VERBS[verb]
    writes = method in ("POST", "PUT", "PATCH")
    page = resource.page if verb == "index" else None
    response = resource.write_response if writes else page or resource.response
    return Route(
        method,
        f"{path}<{resource.id_arg}>/" if on_row else path,
        resource.update if verb == "change" else getattr(resource, verb),
        name=f"{verb}_{noun.replace(' ', '_')}",
        summary=f"{summary} {noun}",
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
INCIDENT = "/api/incidents/<incident>"
INCIDENT_V2 = "/api/v2/incidents/<incident>"
OWN_INCIDENT = "/api/tocsin/incidents/<incident>"
OWN_SCHEDULE = "/api/tocsin/schedules/<schedule_id>"

ROUTES: tuple[Route, ...] = (
    # --- account (contract 2.1) ----------------------------------------------------------------------
    route("POST", "/api/account/api_invite/", invitations.invite, permission="member_write", status=201, body=invitations.INVITATION, response=teams.MEMBER),
    *crud("/api/account/members/", members.MEMBERS, exclude=("create", "destroy")),
    route("POST", "/api/account/deleteuser/", members.remove_member, permission="member_write", status=204, body=members.REMOVE_MEMBER),
    *crud("/api/account/customroles/", custom_roles.CUSTOM_ROLES),
    route("POST", f"{USER}/customroles/", custom_roles.assign, permission=ADMIN, status=201, body=custom_roles.USER_ROLE, response=custom_roles.USER_ROLE),
    route("GET", f"{USER}/customroles/", custom_roles.get_user_role, permission=OWN, response=custom_roles.USER_ROLE),
    # --- contacts and rules of a user (contract 2.2) -------------------------------------------------
    *crud(f"{USER}/notification_rules/", notification_preferences.NOTIFICATION_RULES),
    *crud(f"{USER}/forwarding_rules/", notification_preferences.FORWARDING_RULES),
    *crud(f"{USER}/contacts/", notification_preferences.CONTACTS),
    # --- teams (contract 2.3) ------------------------------------------------------------------------
    *crud("/api/account/teams/", teams.TEAMS),
    *crud(f"{TEAM}/members/", teams.MEMBERS),
    route("GET", f"{TEAM}/permissions/", permissions.retrieve, permission="team_read", response=permissions.PERMISSION),
    route("PUT", f"{TEAM}/permissions/", permissions.update, permission=MANAGER, body=permissions.PERMISSION, response=permissions.PERMISSION),
    route("PATCH", f"{TEAM}/permissions/", permissions.update, permission=MANAGER, body=permissions.PERMISSION, response=permissions.PERMISSION, name="team_permissions_change"),
    # --- schedules, policies, services, integrations (contract 2.4) -----------------------------------
    *crud(f"{TEAM}/schedules/", schedules.SCHEDULES),
    *crud(f"{TEAM}/schedule/", schedules.SCHEDULES, alias="schedule by its other path"),
    *crud(f"{TEAM_V2}/schedules/<schedule_id>/overrides/", overrides.OVERRIDES, exclude=("retrieve", "update", "change", "destroy")),
    *crud(f"{TEAM}/escalation_policies/", escalation_policies.POLICIES),
    *crud(f"{TEAM}/services/", services.SERVICES),
    *crud(f"{TEAM}/services/<service_id>/integrations/", integrations.INTEGRATIONS),
    route("POST", "/api/account/regenerate_integration_key/", integrations.regenerate_key, permission="regenerate_integration_key", body=integrations.KEY_OWNER, response=integrations.INTEGRATIONS.schema),
    # --- incidents (contract 2.5) --------------------------------------------------------------------
    route("POST", "/api/incidents/filter/", filters.filter_incidents, permission="incident_read", body=filters.FILTER, response=filters.PAGE),
    route("POST", "/api/incidents/", incidents.create, permission="incident_write", status=201, body=incidents.NEW, response=incidents.INCIDENT),
    route("GET", f"{INCIDENT}/", incidents.retrieve, permission="incident_read", response=incidents.INCIDENT),
    route("PUT", f"{INCIDENT}/", incidents.update, permission="incident_write", body=incidents.CHANGE, response=incidents.INCIDENT),
    route("PATCH", f"{INCIDENT}/", incidents.update, permission="incident_write", body=incidents.CHANGE, response=incidents.INCIDENT, name="incidents_change"),
    *crud(f"{INCIDENT}/note/", notes.INCIDENT_NOTES),
    *crud(f"{INCIDENT}/tags/", tags.INCIDENT_TAGS),
    *crud(f"{INCIDENT_V2}/responders/", responders.RESPONDERS),
    *crud(f"{INCIDENT}/responders/", responders.RESPONDERS, alias="responder"),
    route("GET", f"{INCIDENT}/alerts/", alerts.index, permission="incident_read", doc_response=alerts.ALERT, many=True, paged=True),
    # --- team elements (contract 2.6) ----------------------------------------------------------------
    *crud(f"{TEAM}/roles/", incident_roles.INCIDENT_ROLES),
    *crud(f"{TEAM}/tags/", labels.TAGS),
    *crud(f"{TEAM}/priority/", labels.PRIORITIES),
    *crud(f"{TEAM}/task_templates/", task_templates.TASK_TEMPLATES),
    *crud(f"{TEAM}/sla/", labels.SLAS),
    *crud(f"{TEAM}/maintenance/", maintenance.MAINTENANCES),
    *crud(f"{TEAM}/postmortem/", postmortems.POSTMORTEMS),
    # --- who is on call (contract 2.7) ---------------------------------------------------------------
    route("GET", f"{TEAM}/oncall/", oncall.list_by_policy, permission="escalation_policy_read", response=oncall.BY_POLICY, many=True),
    route("GET", f"{TEAM_V2}/oncall/", oncall.list_by_step, permission="escalation_policy_read", response=oncall.BY_STEP, many=True),
    route("GET", f"{TEAM_V2}/escalation_policies/<escalation_policy_id>/oncall/", oncall.get_policy_on_call, permission="escalation_policy_read", response=oncall.BY_STEP, many=True),
    route("GET", f"{TEAM_V2}/services/<service_id>/oncall/", oncall.get_service_on_call, permission="service_read", response=oncall.BY_STEP, many=True),
    # --- routing (contract 2.7) ----------------------------------------------------------------------
    *crud(f"{TEAM}/services/<service_id>/integrations/<integration_id>/transformers/", alert_rules.ALERT_RULES),
    *crud("/api/v2/account/events/router/", routers.ROUTERS),
    *crud("/api/v2/account/events/router/<router_id>/rulesets/", routers.RULES),
    route("PUT", "/api/v2/account/events/router/<router_id>/rulesets/", routers.move, permission=ADMIN, body=routers.MOVE, response=routers.RULES.schema, many=True),
    # --- extras (contract 2.8) -----------------------------------------------------------------------
    route("GET", "/api/user/profile/", profile.show, permission=OWN, response=profile.PROFILE),
    *crud("/api/account/users/", members.USERS, exclude=("create", "destroy")),
    route("POST", "/api/account/invite/", invitations.invite_many, permission="member_write", status=201, body=invitations.INVITATIONS, response=teams.MEMBER, many=True),
    route("GET", "/api/account/integration-metadata/<integration_key>/", alerts_of_integration.get_metadata, permission="integration_read", response=alerts_of_integration.METADATA),
    route("GET", f"{TEAM}/services/<service_id>/integrations/<integration_id>/alerts/", alerts_of_integration.index, permission="incident_read", doc_response=alerts.ALERT, many=True, paged=True),
    route("GET", "/api/incidents/", filters.index, permission="incident_read", response=filters.PLAIN_PAGE),
    route("GET", "/api/account/applications/", integrations.list_applications, permission=MEMBER, response=integrations.APPLICATION, many=True),
    *crud(f"{TEAM_V2}/services/<service_id>/integrations/<integration_id>/outgoingrules/", outgoing_rules.OUTGOING_RULES),
    *crud(f"{TEAM}/post_incident_tasks/", post_incident_tasks.POST_INCIDENT_TASKS),
    *crud(f"{TEAM}/task_templates/<task_template_id>/tasks/", task_templates.TEMPLATE_TASKS),
    *crud(f"{TEAM}/services/<service_id>/alert-grouping-policies/", grouping_policies.GROUPING_POLICIES),
    route("GET", f"{TEAM}/schedules/<schedule_id>/get_schedule_ics/", calendars.get_schedule_address, permission="schedule_read", query=calendars.CALENDAR_QUERY, response=calendars.ADDRESS),
    # --- accept alerts, and the alert trace (contract 2.7, X36) --------------------------------------
    route("POST", "/api/events/<integration_key>/", events.create_by_key, status=201, doc_body=events.ALERT_BODY, doc_response=events.EVENT, auth=None, needs_store=False, deprecated=True),
    route("POST", "/integration/<account_id>/<extension>/<integration_key>/", events.create, doc_body=events.ALERT_BODY, doc_response=events.ACCEPTED, auth=None, needs_store=False),
    route("POST", "/api/integration/<extension>/<integration_key>/", events.create_by_application, doc_body=events.ALERT_BODY, doc_response=events.ACCEPTED, auth=None, needs_store=False),
    route("POST", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping"),
    route("GET", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_get"),
    route("POST", "/api/integration/heartbeat/<integration_key>/", events.ping, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_application"),
    route("GET", "/api/integration/heartbeat/<integration_key>/", events.ping, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_application_by_get"),
    route("GET", "/api/alert/status/<trace_id>/", events.get_status, permission="incident_read", doc_response=events.ALERT_STATUS, auth="view"),
    route("GET", "/api/tocsin/alerts/<trace_id>/", events.get_trace, permission="incident_read"),
    # --- our own operations, under /api/tocsin/ ------------------------------------------------------
    route("POST", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.start, permission=OWN, response=contact_test.SEND_STARTED),
    route("GET", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.index, permission=OWN, response=contact_test.TEST_MESSAGE, many=True),
    route("POST", "/api/tocsin/users/<username>/invitation/", invitations.resend, permission="member_write", response=contact_test.SEND_STARTED),
    route("POST", "/api/tocsin/rules/try/", dry_run.run, permission="integration_read", body=dry_run.DRY_RUN, response=dry_run.DRY_RUN_RESULT),
    route("POST", "/api/tocsin/simulate/", simulate.run, permission="incident_read", body=simulate.SIMULATE, response=simulate.SIMULATION, concurrency_limit=simulate.CONCURRENCY),
    *crud(f"{OWN_INCIDENT}/roles/", role_assignments.ASSIGNMENTS, exclude=("retrieve", "update", "change")),
    *crud(f"{OWN_INCIDENT}/tasks/", tasks.INCIDENT_TASKS),
    route("POST", f"{OWN_INCIDENT}/reassign/", actions.reassign, permission="incident_write", body=actions.REASSIGN, response=incidents.INCIDENT),
    route("POST", f"{OWN_INCIDENT}/snooze/", actions.snooze, permission="incident_write", body=actions.SNOOZE, response=incidents.INCIDENT),
    route("DELETE", f"{OWN_INCIDENT}/snooze/", actions.unsnooze, permission="incident_write", status=204),
    route("POST", f"{OWN_INCIDENT}/merge/", actions.merge, permission="incident_write", body=actions.INCIDENT_REFS, response=incidents.INCIDENT),
    route("POST", f"{OWN_INCIDENT}/unmerge/", actions.unmerge, permission="incident_write", body=actions.INCIDENT_REFS, response=incidents.INCIDENT),
    route("GET", f"{OWN_INCIDENT}/timeline/", timeline.index, permission="incident_read", response=timeline.TIMELINE),
    route("GET", "/api/tocsin/calendar/", calendars.get_own_address, permission=MEMBER, query=calendars.MONTHS_QUERY, response=calendars.ADDRESS),
    route("DELETE", "/api/tocsin/calendar/", calendars.renew, permission=MEMBER, status=204),
    route("DELETE", "/api/tocsin/users/<username>/calendar/", calendars.renew_for_user, permission=OWN, status=204),
    route("GET", f"{OWN_SCHEDULE}/timeline/", schedule_overview.get_timeline, permission="schedule_read", query=schedule_overview.PERIOD_QUERY, response=schedule_overview.TIMELINE),
    route("GET", f"{OWN_SCHEDULE}/oncall/", schedule_overview.get_on_call, permission="schedule_read", query=schedule_overview.MOMENT_QUERY, response=schedule_overview.ON_CALL),
    route("GET", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.retrieve, permission="integration_read", response=heartbeats.HEARTBEAT),
    route("PUT", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.update, permission="integration_write", body=heartbeats.HEARTBEAT, response=heartbeats.HEARTBEAT),
    route("GET", "/api/tocsin/dead-letters/", dead_letters.index, permission="incident_read", response=dead_letters.PAGE),
    route("GET", "/api/tocsin/dead-letters/<dead_letter_id>/", dead_letters.retrieve, permission="incident_read", response=dead_letters.DEAD_LETTER),
    route("POST", "/api/tocsin/dead-letters/<dead_letter_id>/replay/", dead_letters.replay, permission="incident_write", response=dead_letters.REPLAYED),
    route("DELETE", "/api/tocsin/dead-letters/<dead_letter_id>/", dead_letters.destroy, permission="incident_write", status=204),
    # --- the description of the interface ------------------------------------------------------------
    route("GET", openapi.PATH, openapi.show, auth=None, needs_store=False, documented=False),
    # --- for the operator of the installation --------------------------------------------------------
    route("GET", "/metrics", metrics.show, auth=None, documented=False),
    # --- pages, outside the interface ----------------------------------------------------------------
    route("GET", "/i/<token>", incident.show, auth=None, documented=False),
    route("POST", "/i/<token>", incident.act, auth=None, documented=False),
    route("GET", "/join/<token>", join.show, auth=None, documented=False),
    route("POST", "/join/<token>", join.join, auth=None, documented=False),
    route("GET", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
    route("HEAD", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
)  # fmt: skip
