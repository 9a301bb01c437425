"""All operations of the interface, one line each, in the order of contract section 2.

- `route(tag, method, path, view, ...)` declares one operation. `tag` is its heading in the documentation, the
  first sentence of the view's docstring its summary. The view gets the ids of the path as keywords.
- The view returns a value or a finished Response. `response` is the schema that dumps the value;
  `many=True`: the value is a list.
- `body` is the schema with which `serialization.read_body()` reads the request; `query` that of the query.
- `permission` is the permission that the viewer needs (permissions.py).
- `auth=None` serves without a token; with `auth="view"` the view checks the token itself.
- `page(method, path, view, permission=...)` declares a page for people who are signed in
  (web/pages/signed_in.py). `guest` is shown to others instead of the sign-in page. With `auth="form"` it is for
  everybody, and its forms have a CSRF token.
- A GET also answers HEAD, unless its view does something (web/app.py).
- `is_numbered=True`: the answer has the number of an object as its ETag. `has_condition=True`: the operation
  checks the number in If-Match.
- `needs_store=False` serves without a connection to the store.
- `is_dear=True`: the work is dear, so that accounts take turns. Acknowledge, resolve, and what providers and
  health checks send are never dear.
- `max_bytes` is the longest body; that of a page is short.
- `*crud(tag, path, RESOURCE)` declares the verbs of a resource; `exclude=` omits some of them.

The documentation at /api/openapi.json is generated from this list.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flask import Response

from web.account import (
    contact_codes,
    contact_secret,
    contact_test,
    contacts,
    custom_roles,
    invitations,
    members,
    message_settings,
    notification_figures,
    notification_preferences,
    profile,
    stakeholders,
    tokens,
)
from web.callbacks import ntfy, phone, slack, sms, telegram
from web.callbacks import web_push as web_push_callback
from web.changes import changes, deletion, history
from web.event_apis import alertmanager, opsgenie, opsgenie_alerts, pagerduty, victorops
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.fields import Schema
from web.http.limits.inputs import PAGE_BYTES
from web.http.limits.query_names import PAGE_NAMES
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
from web.ingest import alerts_by_get, events
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
from web.operations import dead_letters, drills, metrics, simulate
from web.pages import (
    api_docs,
    browser_push,
    bundle,
    join,
    linked_incident,
    signed_in,
    start,
    static_files,
)
from web.pages.console import (
    check,
    figures,
    incident_actions,
    incident_list,
    linked_swap,
    mine,
    new_incident,
    on_call,
    postmortem,
    simulation,
    swaps,
    why,
)
from web.pages.console import history as history_of_account
from web.pages.console import incident as console_incident
from web.pages.sign_in import (
    audit_list,
    by_link,
    by_mail,
    by_passkey,
    by_password,
    by_provider,
    own,
    own_tokens,
)
from web.pages.style import components
from web.rules import alert_rules, dry_run, routers
from web.services import (
    applications,
    grouping_policies,
    heartbeats,
    integration_health,
    integrations,
    outbound,
    outgoing_rules,
    services,
    source_setup,
)
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
    # Whether the answer has the number of an object as its ETag (web/http/writing.py).
    is_numbered: bool = False
    # Whether the request is refused if the object has not the number in its If-Match.
    has_condition: bool = False
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
    # Whether it needs a place while it computes (web/http/limits/places.py). All requests with bodies of more
    # than 64 KiB do. A view that finds the account itself takes the place itself.
    is_dear: bool = False
    # Whether the state of an object can forbid it (409).
    has_conflicts: bool = False
    # The longest body; None: that of all operations (web/app.py), or what the view sets.
    max_bytes: int | None = None
    # What a person without a session sees at a page; None: the sign-in page.
    guest: Callable[[], Response] | None = None
    deprecated: bool = False
    documented: bool = True

    @property
    def has_pages(self) -> bool:
        """Whether the request can name a page."""
        answer = self.response or self.doc_response
        return self.paged or (answer is not None and {"next", "results"} <= set(answer.fields))

    @property
    def query_names(self) -> list[str]:
        """The names of all query parameters."""
        fields = self.query.load_fields.items() if self.query else ()
        return [*(field.data_key or name for name, field in fields), *(PAGE_NAMES if self.has_pages else ())]


# The tag of pages.
PAGE_TAG = "Pages"
# The longest body of the page with a postmortem. It may have 100,000 characters; é takes 6 bytes in a form.
POSTMORTEM_BYTES = 300 * 1024


def route(
    tag: str, method: str, path: str, view: Callable[..., Any], *, variant: str = "", **options: Any
) -> Route:
    """Declare one operation. By default, the view's name is its name, and the docstring its documentation.

    The first sentence of the docstring is the summary. `variant` distinguishes two operations of one view.
    """
    summary, details = summaries.split(view.__doc__ or view.__name__)
    options.setdefault("name", f"{view.__module__.rpartition('.')[2]}_{view.__name__}")
    options.setdefault("summary", f"{summary} ({variant})" if variant else summary)
    options.setdefault("max_bytes", PAGE_BYTES if tag == PAGE_TAG else None)
    return Route(tag, method, path, view, **{"details": details, **options})


def page(
    method: str, path: str, view: Callable[..., object], *, auth: str | None = "session", **options: Any
) -> Route:
    """Declare a page with its permission, for people who are signed in; or a form for everybody."""
    return route(PAGE_TAG, method, path, view, auth=auth, documented=False, **options)


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
        is_numbered=resource.has_numbers and verb not in ("index", "destroy"),
        has_condition=resource.has_numbers and verb in ("update", "change", "destroy"),
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
    route("Members", "POST", "/api/account/api_invite/", invitations.invite, permission="member_write", status=201, body=invitations.INVITATION, response=teams.MEMBER, is_numbered=True),
    *crud("Members", "/api/account/members/", members.MEMBERS, exclude=("create", "destroy")),
    route("Members", "POST", "/api/account/deleteuser/", members.remove_member, permission="member_write", status=204, body=members.REMOVE_MEMBER, has_condition=True),
    *crud("Custom roles", "/api/account/customroles/", custom_roles.CUSTOM_ROLES),
    route("Custom roles", "POST", f"{USER}/customroles/", custom_roles.assign, permission=ADMIN, status=201, body=custom_roles.USER_ROLE, response=custom_roles.USER_ROLE, is_numbered=True, has_condition=True),
    route("Custom roles", "GET", f"{USER}/customroles/", custom_roles.get_user_role, permission=OWN, response=custom_roles.USER_ROLE, is_numbered=True),
    # --- contacts and rules of a user (contract 2.2) -------------------------------------------------
    *crud("Notification rules", f"{USER}/notification_rules/", notification_preferences.NOTIFICATION_RULES),
    *crud("Forwarding rules", f"{USER}/forwarding_rules/", notification_preferences.FORWARDING_RULES),
    *crud("Contact methods", f"{USER}/contacts/", notification_preferences.CONTACTS),
    # --- teams (contract 2.3) ------------------------------------------------------------------------
    *crud("Teams", "/api/account/teams/", teams.TEAMS),
    *crud("Team members", f"{TEAM}/members/", teams.MEMBERS),
    route("Teams", "GET", f"{TEAM}/permissions/", permissions.retrieve, permission="team_read", response=permissions.PERMISSION, is_numbered=True),
    route("Teams", "PUT", f"{TEAM}/permissions/", permissions.update, permission=MANAGER, body=permissions.PERMISSION, response=permissions.PERMISSION, is_numbered=True, has_condition=True),
    route("Teams", "PATCH", f"{TEAM}/permissions/", permissions.update, permission=MANAGER, body=permissions.PERMISSION, response=permissions.PERMISSION, name="team_permissions_change", summary="Update some permissions that a team gives to all members of the account", is_numbered=True, has_condition=True),
    # --- schedules, policies, services, integrations (contract 2.4) -----------------------------------
    *crud("Schedules", f"{TEAM}/schedules/", schedules.SCHEDULES),
    *crud("Schedules", f"{TEAM}/schedule/", schedules.SCHEDULES, alias="schedule by its other path"),
    *crud("Schedules", f"{TEAM_V2}/schedules/<schedule_id>/overrides/", overrides.OVERRIDES, exclude=("retrieve", "update", "change", "destroy")),
    *crud("Escalation policies", f"{TEAM}/escalation_policies/", escalation_policies.POLICIES),
    *crud("Services", f"{TEAM}/services/", services.SERVICES),
    *crud("Integrations", f"{TEAM}/services/<service_id>/integrations/", integrations.INTEGRATIONS),
    route("Integrations", "POST", "/api/account/regenerate_integration_key/", integrations.regenerate_key, permission="regenerate_integration_key", body=integrations.KEY_OWNER, response=integrations.INTEGRATIONS.schema, is_numbered=True, has_condition=True),
    # --- incidents (contract 2.5) --------------------------------------------------------------------
    route("Incidents", "POST", "/api/incidents/filter/", filters.filter_incidents, permission="incident_read", body=filters.FILTER, response=filters.PAGE, is_dear=True),
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
    route("Global routers", "PUT", "/api/v2/account/events/router/<router_id>/rulesets/", routers.move, permission=ADMIN, body=routers.MOVE, response=routers.RULES.schema, many=True, has_condition=True),
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
    route("Analytics", "POST", f"{ANALYTICS}/incident_stats/", analytics.get_incident_stats, permission="analytics_read", body=analytics.FILTER, response=analytics.INCIDENT_STATS, concurrency_limit=analytics.STATS_CONCURRENCY, is_dear=True),
    route("Analytics", "POST", f"{ANALYTICS}/team_analytics/", analytics.get_team_analytics, permission="analytics_read", body=analytics.FILTER, response=analytics.TEAM_ANALYTICS, concurrency_limit=analytics.TEAM_CONCURRENCY, is_dear=True),
    route("Analytics", "POST", f"{ANALYTICS}/service_analytics/", analytics.get_service_analytics, permission="analytics_read", body=analytics.FILTER, response=analytics.SERVICE_ANALYTICS, concurrency_limit=analytics.SERVICE_CONCURRENCY, is_dear=True),
    route("Analytics", "POST", f"{ANALYTICS}/user_analytics/", analytics.get_user_analytics, permission="analytics_read", body=analytics.FILTER, response=analytics.USER_ANALYTICS, concurrency_limit=analytics.USER_CONCURRENCY, is_dear=True),
    route("Schedules", "GET", f"{TEAM}/schedules/<schedule_id>/get_schedule_ics/", calendars.get_schedule_address, permission="schedule_read", query=calendars.CALENDAR_QUERY, response=calendars.ADDRESS),
    route("Services", "GET", "/api/account/available_incident_services/", services.list_available, permission="service_read", response=services.SERVICES.schema, many=True),
    route("Escalation policies", "GET", "/api/account/available_account_eps/", escalation_policies.list_available, permission="escalation_policy_read", response=escalation_policies.AVAILABLE),
    # --- accept alerts, and the alert trace (contract 2.7, X36) --------------------------------------
    route("Alerts", "POST", "/api/events/<integration_key>/", events.create_by_key, status=201, doc_body=events.ALERT_BODY, can_await=True, doc_response=events.EVENT, auth=None, needs_store=False, deprecated=True),
    route("Alerts", "POST", "/integration/<account_id>/<extension>/<integration_key>/", events.create, variant="address with the account", doc_body=events.ALERT_BODY, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False),
    route("Alerts", "POST", "/api/integration/<extension>/<integration_key>/", events.create_by_application, doc_body=events.ALERT_BODY, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False),
    # Beside the two above, for tools that have nothing else. Most integrations answer 405.
    route("Alerts", "GET", "/integration/<account_id>/<extension>/<integration_key>/", alerts_by_get.create, auth=None, needs_store=False, documented=False, name="by_get"),
    route("Alerts", "GET", "/api/integration/<extension>/<integration_key>/", alerts_by_get.create, auth=None, needs_store=False, documented=False, name="by_get_by_application"),
    route("Alerts", "POST", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping", variant="POST, address with the account"),
    route("Alerts", "GET", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_get", variant="GET, address with the account"),
    route("Alerts", "POST", "/api/integration/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_application", variant="POST"),
    route("Alerts", "GET", "/api/integration/heartbeat/<integration_key>/", events.ping, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="ping_by_application_by_get", variant="GET"),
    route("Alerts", "POST", "/integration/<account_id>/httphealthcheck/<integration_key>/<alert_type>/", events.create_with_level, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="create_with_level", variant="address with the account"),
    route("Alerts", "POST", "/api/integration/httphealthcheck/<integration_key>/<alert_type>/", events.create_with_level, can_await=True, doc_response=events.ACCEPTED, auth=None, needs_store=False, name="create_with_level_by_application"),
    route("Alerts", "GET", "/api/alert/status/<trace_id>/", events.get_status, permission="incident_read", doc_response=events.ALERT_STATUS, auth="view"),
    route("Alerts", "GET", "/api/tocsin/alerts/<trace_id>/", events.get_trace, permission="incident_read", query=events.TRACE_QUERY),
    # --- the event APIs of other services: described there, so not in our documentation --------------
    route("Alerts", "POST", "/v2/enqueue/", pagerduty.enqueue, auth=None, needs_store=False, documented=False),
    route("Alerts", "POST", "/generic/2010-04-15/create_event.json/", pagerduty.create_event, auth=None, needs_store=False, documented=False),
    route("Alerts", "POST", "/v2/alerts/", opsgenie.create, auth=None, needs_store=False, documented=False),
    route("Alerts", "GET", "/v2/alerts/requests/<request_id>/", opsgenie.get_request, auth=None, documented=False),
    route("Alerts", "GET", "/v2/alerts/", opsgenie_alerts.list_alerts, auth=None, documented=False),
    route("Alerts", "GET", "/v2/alerts/<path:identifier>/", opsgenie_alerts.get_alert, auth=None, documented=False),
    route("Alerts", "DELETE", "/v2/alerts/<path:identifier>/", opsgenie_alerts.delete_alert, auth=None, documented=False),
    route("Alerts", "GET", "/v2/alerts/<path:identifier>/<action>/", opsgenie_alerts.get_alert, auth=None, documented=False),
    route("Alerts", "DELETE", "/v2/alerts/<path:identifier>/<action>/", opsgenie_alerts.delete_alert, auth=None, documented=False),
    route("Alerts", "POST", "/v2/alerts/<path:identifier>/tags/", opsgenie_alerts.add_tags, auth=None, documented=False),
    route("Alerts", "PUT", "/v2/alerts/<path:identifier>/priority/", opsgenie_alerts.set_priority, auth=None, documented=False),
    route("Alerts", "POST", "/v2/alerts/<path:identifier>/snooze/", opsgenie_alerts.snooze, auth=None, documented=False),
    route("Alerts", "POST", "/v2/alerts/<path:identifier>/<action>/", opsgenie.change, auth=None, needs_store=False, documented=False),
    route("Alerts", "PUT", "/v2/alerts/<path:identifier>/<action>/", opsgenie.change, auth=None, needs_store=False, documented=False),
    route("Alerts", "POST", "/integrations/generic/20131114/alert/<integration_key>/", victorops.alert, auth=None, needs_store=False, documented=False),
    route("Alerts", "POST", "/integrations/generic/20131114/alert/<integration_key>/<path:routing_key>/", victorops.alert, auth=None, needs_store=False, documented=False),
    route("Alerts", "POST", "/api/v2/alerts/", alertmanager.push, auth=None, needs_store=False, documented=False),
    route("Alerts", "POST", "/integration/alertmanager/<integration_key>/api/v2/alerts/", alertmanager.push, auth=None, needs_store=False, documented=False),
    # --- our own operations, under /api/tocsin/ ------------------------------------------------------
    route("Contact methods", "GET", "/api/tocsin/users/<username>/contacts/", contacts.index, permission=OWN, response=contacts.CONTACT, many=True),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/", contacts.create, permission=OWN, status=201, body=contacts.NEW_CONTACT, response=contacts.CONTACT, is_numbered=True),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/link/", contacts.link, permission=OWN, response=contacts.CONTACT, is_numbered=True),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.start, permission=OWN, response=contact_test.SEND_STARTED, min_interval=contact_test.MIN_INTERVAL),
    route("Contact methods", "GET", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.index, permission=OWN, response=contact_test.TEST_MESSAGE, many=True),
    route("Members", "POST", "/api/tocsin/users/<username>/invitation/", invitations.resend, permission="member_write", response=contact_test.SEND_STARTED, min_interval=contact_test.MIN_INTERVAL),
    route("Tokens", "GET", "/api/tocsin/tokens/", tokens.index, permission=MEMBER, response=tokens.PAGE),
    route("Tokens", "POST", "/api/tocsin/tokens/", tokens.create, permission=MEMBER, status=201, body=tokens.NEW_TOKEN, response=tokens.NEW_TOKEN, is_numbered=True),
    *crud("Stakeholders", "/api/tocsin/stakeholders/", stakeholders.STAKEHOLDERS),
    *crud("Tokens", "/api/tocsin/users/<username>/tokens/", tokens.TOKENS, exclude=("create",)),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/code/", contact_codes.send, permission=OWN, response=contact_test.SEND_STARTED, min_interval=contact_test.MIN_INTERVAL),
    route("Contact methods", "GET", "/api/tocsin/users/<username>/contacts/<contact_id>/code/", contact_codes.show, permission=OWN, response=contact_codes.VERIFICATION),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/verify/", contact_codes.verify, permission=OWN, body=contact_codes.CODE, response=contact_codes.VERIFICATION),
    route("Contact methods", "POST", "/api/tocsin/users/<username>/contacts/<contact_id>/secret/", contact_secret.renew, permission=OWN, response=contact_secret.WEBHOOK_SECRET, is_numbered=True, has_condition=True),
    route("Notification rules", "GET", "/api/tocsin/users/<username>/notifications/figures/", notification_figures.show, permission=OWN, query=notification_figures.QUERY, response=notification_figures.FIGURES, concurrency_limit=notification_figures.CONCURRENCY, is_dear=True),
    route("Notification rules", "GET", "/api/tocsin/users/<username>/messages/", message_settings.show, permission=OWN, response=message_settings.MESSAGE_SETTINGS, is_numbered=True),
    route("Notification rules", "PATCH", "/api/tocsin/users/<username>/messages/", message_settings.change, permission=OWN, body=message_settings.MESSAGE_SETTINGS, response=message_settings.MESSAGE_SETTINGS, is_numbered=True, has_condition=True),
    route("Alert rules", "POST", "/api/tocsin/rules/try/", dry_run.run, permission="integration_read", body=dry_run.DRY_RUN, response=dry_run.DRY_RUN_RESULT, concurrency_limit=dry_run.CONCURRENCY, is_dear=True),
    route("Alerts", "POST", "/api/tocsin/simulate/", simulate.run, permission="incident_read", body=simulate.SIMULATE, response=simulate.SIMULATION, concurrency_limit=simulate.CONCURRENCY, is_dear=True),
    *crud("Incidents", f"{OWN_INCIDENT}/roles/", role_assignments.ASSIGNMENTS, exclude=("retrieve", "update", "change")),
    *crud("Incidents", f"{OWN_INCIDENT}/tasks/", tasks.INCIDENT_TASKS),
    route("Incidents", "GET", "/api/tocsin/incidents/", traced.index, permission="incident_read", query=filters.FILTER, response=traced.INCIDENTS),
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
    route("Schedules", "GET", f"{OWN_SCHEDULE}/timeline/", schedule_overview.get_timeline, permission="schedule_read", query=schedule_overview.PERIOD_QUERY, response=schedule_overview.TIMELINE, concurrency_limit=schedule_problems.CONCURRENCY, is_dear=True),
    route("Schedules", "GET", f"{OWN_SCHEDULE}/checks/", schedule_checks.retrieve, permission="schedule_read", response=schedule_checks.CHECKS, is_numbered=True),
    route("Schedules", "PUT", f"{OWN_SCHEDULE}/checks/", schedule_checks.update, permission="schedule_write", body=schedule_checks.CHECKS, response=schedule_checks.CHECKS, is_numbered=True, has_condition=True),
    route("On call", "GET", f"{OWN_SCHEDULE}/oncall/", schedule_overview.get_on_call, permission="schedule_read", query=schedule_overview.MOMENT_QUERY, response=schedule_overview.ON_CALL, concurrency_limit=schedule_problems.CONCURRENCY, is_dear=True),
    route("Integrations", "GET", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.retrieve, permission="integration_read", response=heartbeats.HEARTBEAT, is_numbered=True),
    route("Integrations", "PUT", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.update, permission="integration_write", body=heartbeats.HEARTBEAT, response=heartbeats.HEARTBEAT, is_numbered=True, has_condition=True),
    route("Integrations", "GET", "/api/tocsin/integrations/silent/", integration_health.list_silent, permission="incident_read", response=integration_health.SILENT, concurrency_limit=integration_health.CONCURRENCY, is_dear=True),
    route("Integrations", "GET", "/api/tocsin/integrations/<source_id>/health/", integration_health.retrieve, permission="incident_read", response=integration_health.HEALTH),
    route("Integrations", "GET", "/api/tocsin/integrations/<source_id>/source/", source_setup.retrieve, permission="integration_read", response=source_setup.SETUP, is_numbered=True),
    route("Integrations", "PUT", "/api/tocsin/integrations/<source_id>/source/", source_setup.update, permission="integration_write", body=source_setup.SETUP, response=source_setup.SETUP, is_numbered=True, has_condition=True),
    route("Integrations", "POST", "/api/tocsin/integrations/<source_id>/source/secret/", source_setup.renew_secret, permission="integration_write", response=source_setup.SECRET, is_numbered=True, has_condition=True),
    route("Integrations", "DELETE", "/api/tocsin/integrations/<source_id>/source/secret/", source_setup.delete_secret, permission="integration_write", status=204, has_condition=True),
    route("Integrations", "POST", "/api/tocsin/integrations/<source_id>/source/try/", source_setup.try_body, permission="integration_write", body=source_setup.TRIAL, response=source_setup.RESULT, is_dear=True, max_bytes=source_setup.MAX_TRIAL_BYTES),
    route("Integrations", "GET", "/api/tocsin/integrations/<outbound_id>/outbound/", outbound.retrieve, permission="integration_read", response=outbound.TARGET, is_numbered=True),
    route("Integrations", "PUT", "/api/tocsin/integrations/<outbound_id>/outbound/", outbound.update, permission="integration_write", body=outbound.TARGET, response=outbound.TARGET, is_numbered=True, has_condition=True),
    route("Integrations", "DELETE", "/api/tocsin/integrations/<outbound_id>/outbound/", outbound.destroy, permission="integration_write", status=204, has_condition=True),
    route("Integrations", "POST", "/api/tocsin/integrations/<outbound_id>/outbound/secret/", outbound.renew_secret, permission="integration_write", response=outbound.SECRET, is_numbered=True, has_condition=True),
    route("Integrations", "GET", "/api/tocsin/integrations/<outbound_id>/outbound/deliveries/", outbound.list_deliveries, permission="integration_read", response=outbound.DELIVERIES),
    route("Integrations", "POST", "/api/tocsin/integrations/<outbound_id>/outbound/deliveries/<delivery_id>/resend/", outbound.resend, permission="integration_write", status=201, response=outbound.DELIVERY, rate_limits=outbound.RESEND_LIMITS),
    route("Changes", "GET", "/api/tocsin/objects/<object_id>/deletion/", deletion.show, permission=MEMBER, response=deletion.DELETION, is_dear=True),
    route("Changes", "GET", "/api/tocsin/changes/", history.index, permission=MEMBER, query=history.QUERY, response=history.PAGE, is_dear=True),
    route("Changes", "GET", "/api/tocsin/changes/<change_id>/", history.retrieve, permission=MEMBER, response=history.CHANGE),
    route("Changes", "POST", "/api/tocsin/changes/<change_id>/undo/", changes.undo, permission=MEMBER, response=changes.UNDO, has_conflicts=True, is_dear=True),
    *crud("Integrations", "/api/tocsin/applications/", applications.ADDED_APPLICATIONS, exclude=("update", "change")),
    route("Escalation policies", "POST", "/api/tocsin/drills/", drills.create, permission="incident_write", status=201, body=drills.NEW_DRILL, response=drills.DRILL, rate_limits=drills.LIMITS),
    route("Escalation policies", "GET", "/api/tocsin/drills/<drill_id>/", drills.retrieve, permission="incident_read", response=drills.DRILL),
    route("Alerts", "GET", "/api/tocsin/dead-letters/", dead_letters.index, permission="incident_read", response=dead_letters.PAGE),
    route("Alerts", "GET", "/api/tocsin/dead-letters/<dead_letter_id>/", dead_letters.retrieve, permission="incident_read", response=dead_letters.DEAD_LETTER),
    route("Alerts", "POST", "/api/tocsin/dead-letters/<dead_letter_id>/replay/", dead_letters.replay, permission="incident_write", response=dead_letters.REPLAYED),
    route("Alerts", "DELETE", "/api/tocsin/dead-letters/<dead_letter_id>/", dead_letters.destroy, permission="incident_write", status=204),
    # --- the description of the interface ------------------------------------------------------------
    route("Operation", "GET", document.PATH, document.show, auth=None, needs_store=False, documented=False),
    route("Operation", "GET", f"{document.DOCS}/", api_docs.show, auth=None, needs_store=False, documented=False),
    # --- for the operator of the installation --------------------------------------------------------
    route("Operation", "GET", "/metrics", metrics.show, auth=None, documented=False),
    # --- callbacks of providers ----------------------------------------------------------------------
    route("Callbacks", "POST", "/callbacks/twilio/sms/reply/", sms.reply, auth=None, documented=False),
    route("Callbacks", "POST", "/callbacks/twilio/sms/status/", sms.report, auth=None, documented=False),
    route("Callbacks", "POST", "/callbacks/twilio/phone/digits/", phone.press, auth=None, documented=False),
    route("Callbacks", "POST", "/callbacks/twilio/phone/status/", phone.report, auth=None, documented=False),
    route("Pages", "POST", "/callbacks/slack/", slack.receive, auth=None, documented=False),
    route("Pages", "POST", "/callbacks/telegram/", telegram.receive, auth=None, documented=False),
    # --- pages, outside the interface ----------------------------------------------------------------
    route("Pages", "GET", "/i/<token>", linked_incident.show, auth=None, documented=False),
    route("Pages", "POST", "/i/<token>", linked_incident.act, auth=None, documented=False),
    route("Pages", "GET", "/b/<token>", bundle.show, auth=None, documented=False),
    route("Pages", "GET", "/swap/<token>", linked_swap.show, auth=None, documented=False),
    route("Pages", "POST", "/swap/<token>", linked_swap.act, auth=None, documented=False),
    route("Pages", "GET", "/join/<token>", join.show, auth=None, documented=False),
    route("Pages", "POST", "/join/<token>", join.join, auth=None, documented=False),
    # --- buttons of messages -------------------------------------------------------------------------
    route("Pages", "POST", "/callbacks/ntfy/<token>/<action>/", ntfy.act, auth=None, documented=False),
    route("Pages", "POST", "/callbacks/web_push/<token>/<action>/", web_push_callback.act, auth=None, documented=False),
    # --- messages in browsers ------------------------------------------------------------------------
    route("Pages", "GET", "/push.js", browser_push.show_worker, auth=None, needs_store=False, documented=False),
    route("Pages", "POST", "/push/key/", browser_push.show_key, auth=None, documented=False),
    route("Pages", "POST", "/i/<token>/browser/", linked_incident.add_browser, auth=None, status=201, body=browser_push.SUBSCRIPTION, documented=False),
    route("Pages", "POST", "/join/<token>/browser/", join.add_browser, auth=None, status=201, body=browser_push.SUBSCRIPTION, documented=False),
    # --- calendars -----------------------------------------------------------------------------------
    route("Pages", "GET", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
)  # fmt: skip

# The pages, which are no part of the interface.
PAGES: tuple[Route, ...] = (
    # --- sign in -------------------------------------------------------------------------------------
    page("GET", "/sign-in/", by_password.show, auth="form"),
    page("POST", "/sign-in/", by_password.sign_in, auth="form"),
    page("GET", "/sign-in/link/<token>", by_link.show, auth="form"),
    page("POST", "/sign-in/link/<token>", by_link.sign_in, auth="form"),
    page("POST", "/sign-in/mail/", by_mail.send, auth="form"),
    page("POST", "/sign-in/passkey/options/", by_passkey.begin_sign_in, auth="form"),
    page("POST", "/sign-in/passkey/", by_passkey.sign_in, auth="form"),
    page("GET", "/sign-in/provider/", by_provider.begin, auth="form"),
    page("GET", "/sign-in/provider/callback/", by_provider.finish, auth="form"),
    page("POST", "/sign-in/provider/account/", by_provider.choose_account, auth="form"),
    page("POST", "/sign-out/", signed_in.sign_out, permission=MEMBER),
    page("GET", "/me/sign-in/", own.show, permission=MEMBER),
    page("POST", "/me/password/", own.set_password, permission=MEMBER),
    page("POST", "/me/sessions/<session_id>/end/", own.end_session, permission=MEMBER),
    page("POST", "/me/passkeys/options/", by_passkey.begin_registration, permission=MEMBER),
    page("POST", "/me/passkeys/", by_passkey.register, permission=MEMBER),
    page("POST", "/me/passkeys/<passkey_id>/remove/", by_passkey.remove, permission=MEMBER),
    page("GET", "/me/tokens/", own_tokens.show, permission=MEMBER),
    page("POST", "/me/tokens/", own_tokens.create, permission=MEMBER),
    page("POST", "/me/tokens/<token_id>/revoke/", own_tokens.revoke, permission=OWN),
    page("GET", "/audit/", audit_list.show, permission=ADMIN),
    # --- history -------------------------------------------------------------------------------------
    page("GET", "/changes/", history_of_account.show, permission=MEMBER, is_dear=True),
    page("POST", "/changes/<change_id>/undo/", history_of_account.undo, permission=MEMBER, is_dear=True),
    # --- files of the pages --------------------------------------------------------------------------
    page("GET", "/static/<name>", static_files.show, auth=None, needs_store=False),
    page("GET", "/manifest.webmanifest", static_files.show_manifest, auth=None, needs_store=False),
    page("GET", "/style/", components.show, permission=OWN),
    # --- incidents -----------------------------------------------------------------------------------
    page("GET", "/", incident_list.show, permission="incident_read", guest=start.show),
    page("POST", "/", incident_list.act, permission="incident_write"),
    page("GET", "/incidents/new/", new_incident.show, permission="incident_write"),
    page("POST", "/incidents/new/", new_incident.create, permission="incident_write"),
    page("GET", "/incidents/<incident>/", console_incident.show, permission="incident_read"),
    page("POST", "/incidents/<incident>/", incident_actions.act, permission="incident_write"),
    page("GET", "/incidents/<incident>/postmortem/", postmortem.show, permission="incident_read"),
    page("POST", "/incidents/<incident>/postmortem/", postmortem.save, permission="incident_read", max_bytes=POSTMORTEM_BYTES),
    page("GET", "/incidents/<incident>/postmortem.md", postmortem.export, permission="incident_read", is_dear=True),
    # --- why -----------------------------------------------------------------------------------------
    page("GET", "/why/", why.show, permission="incident_read"),
    page("GET", "/why/simulate/", simulation.show, permission="incident_read"),
    page("POST", "/why/simulate/", simulation.run, permission="incident_read", is_dear=True),
    page("GET", "/why/<trace_id>/", why.show_trace, permission="incident_read"),
    page("POST", "/why/dead-letters/<dead_letter_id>/replay/", why.replay, permission="incident_write"),
    page("GET", "/check/", check.show, permission=ADMIN, is_dear=True),
    # --- on call -------------------------------------------------------------------------------------
    page("GET", "/on-call/", on_call.show, permission="schedule_read"),
    page("GET", "/on-call/<schedule_id>/", on_call.show_schedule, permission="schedule_read", is_dear=True),
    page("POST", "/on-call/<schedule_id>/", on_call.add_override, permission="schedule_read"),
    page("POST", "/on-call/<schedule_id>/swaps/", swaps.ask, permission="schedule_read"),
    page("POST", "/on-call/<schedule_id>/swaps/<swap_id>/", swaps.act, permission="schedule_read"),
    # --- figures -------------------------------------------------------------------------------------
    page("GET", "/figures/", figures.show, permission="analytics_read", is_dear=True),
    # --- mine ----------------------------------------------------------------------------------------
    page("GET", "/mine/", mine.show, permission=OWN),
    page("POST", "/mine/", mine.act, permission=OWN),
)  # fmt: skip
