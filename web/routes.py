"""Every operation of the interface, one line each, in the order of contract section 2.

`one(method, path, view, ...)` is one operation. The view gets the path's ids by keyword and returns a
value, which is dumped by `gives` (a list of it with `many=True`), or a finished Response. `takes` is the
schema by which `wire.body()` reads the request, `asks` that of its query. `needs` is what it takes to be
allowed (permissions.py). `auth=None` serves without a token, `auth="view"` leaves it to the view to ask for
one, `stored=False` serves without a connection to the store. `*crud(path, RESOURCE)` are the verbs of a
table; `without=` leaves some out. The documentation at /api/openapi.json is made from this list.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from web import (
    accounts,
    alert_rules,
    aside,
    assignments,
    calendars,
    contact_test,
    custom_roles,
    elements,
    events,
    grouping_policies,
    heartbeats,
    incident_alerts,
    incident_lists,
    incident_moves,
    incident_notes,
    incident_roles,
    incident_tags,
    incident_tasks,
    incidents,
    integration_alerts,
    integrations,
    invitations,
    join,
    maintenance,
    metrics,
    oncall,
    openapi,
    outgoing_rules,
    overrides,
    page,
    policies,
    post_incident_tasks,
    postmortems,
    responders,
    rotas,
    routers,
    rules_try,
    schedules,
    services,
    simulate,
    task_templates,
    team_permissions,
    teams,
    timeline,
    user_profile,
    users,
)
from web.at_once import AtOnce
from web.permissions import ADMIN, MANAGER, MEMBER, OWN
from web.rate_limit import Limits
from web.resource import Resource
from web.shapes import Shape


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    view: Callable[..., Any]
    name: str
    says: str
    status: int = 200
    takes: Shape | None = None
    gives: Shape | None = None
    many: bool = False
    # What the documentation says that a view gives which answers by itself.
    shows: Shape | None = None
    # And what such a view takes that reads the body by itself, in JSON.
    reads: Shape | None = None
    # What it reads of the query, beside the page.
    asks: Shape | None = None
    # Whether a list comes page by page to who asks as published clients do (contract 1.6).
    pages: bool = False
    # How often an account may ask for it.
    limits: Limits = ()
    # How much of it a web process does at a time.
    at_once: AtOnce | None = None
    # What it takes to be allowed: web/permissions.py. Nothing where nobody is asked for a token.
    needs: str = ""
    auth: str | None = "token"
    stored: bool = True
    deprecated: bool = False
    documented: bool = True


def one(method: str, path: str, view: Callable[..., Any], **options: Any) -> Route:
    """One operation; its name and its sentence in the documentation are those of the view."""
    options.setdefault("name", f"{view.__module__.rpartition('.')[2]}_{view.__name__}")
    options.setdefault("says", (view.__doc__ or view.__name__).strip().partition("\n")[0])
    return Route(method, path, view, **options)


# verb -> method, success status, whether it is on one row, what it says
VERBS = {
    "create": ("POST", 201, False, "Create one"),
    "index": ("GET", 200, False, "List each"),
    "retrieve": ("GET", 200, True, "Retrieve one"),
    "update": ("PUT", 200, True, "Update one"),
    "change": ("PATCH", 200, True, "Change parts of one"),
    "destroy": ("DELETE", 204, True, "Delete one"),
}


def crud(path: str, resource: Resource, *, without: Collection[str] = (), called: str = "") -> list[Route]:
    """The verbs of a resource; PUT and PATCH are both the update (contract 1.8).

    `called` is its noun where it is served at a second path.
    """
    noun = called or resource.noun
    return [_verb(path, resource, verb, noun) for verb in VERBS if verb not in without]


def _verb(path: str, resource: Resource, verb: str, noun: str) -> Route:
    method, status, on_row, says = VERBS[verb]
    writes = method in ("POST", "PUT", "PATCH")
    page = resource.page if verb == "index" else None
    shown = resource.answered if writes else page or resource.shown
    return Route(
        method,
        f"{path}<{resource.id_arg}>/" if on_row else path,
        resource.update if verb == "change" else getattr(resource, verb),
        name=f"{verb}_{noun.replace(' ', '_')}",
        says=f"{says} {noun}",
        status=status,
        takes=resource.schema if writes else None,
        gives=None if verb == "destroy" else shown or resource.schema,
        many=verb == "index" and page is None,
        pages=verb == "index" and resource.pages,
        limits=resource.limits,
        needs=resource.needs_of(verb),
    )


T = "/api/account/teams/<team_id>"
T2 = "/api/v2/account/teams/<team_id>"
U = "/api/account/users/<username>"
I = "/api/incidents/<incident>"  # noqa: E741 - the contract's own letter
I2 = "/api/v2/incidents/<incident>"
OURS = "/api/tocsin/incidents/<incident>"
ROTA = "/api/tocsin/schedules/<schedule_id>"

ROUTES: tuple[Route, ...] = (
    # --- account (contract 2.1) ----------------------------------------------------------------------
    one("POST", "/api/account/api_invite/", invitations.invite, needs="member_write", status=201, takes=invitations.INVITATION, gives=teams.MEMBER),
    *crud("/api/account/members/", accounts.MEMBERS, without=("create", "destroy")),
    one("POST", "/api/account/deleteuser/", accounts.dismiss, needs="member_write", status=204, takes=accounts.DISMISSAL),
    *crud("/api/account/customroles/", custom_roles.CUSTOM_ROLES),
    one("POST", f"{U}/customroles/", custom_roles.assign, needs=ADMIN, status=201, takes=custom_roles.USER_ROLE, gives=custom_roles.USER_ROLE),
    one("GET", f"{U}/customroles/", custom_roles.of_user, needs=OWN, gives=custom_roles.USER_ROLE),
    # --- things of a user (contract 2.2) -------------------------------------------------------------
    *crud(f"{U}/notification_rules/", users.NOTIFICATION_RULES),
    *crud(f"{U}/forwarding_rules/", users.FORWARDING_RULES),
    *crud(f"{U}/contacts/", users.CONTACTS),
    # --- teams (contract 2.3) ------------------------------------------------------------------------
    *crud("/api/account/teams/", teams.TEAMS),
    *crud(f"{T}/members/", teams.MEMBERS),
    one("GET", f"{T}/permissions/", team_permissions.retrieve, needs="team_read", gives=team_permissions.PERMISSION),
    one("PUT", f"{T}/permissions/", team_permissions.update, needs=MANAGER, takes=team_permissions.PERMISSION, gives=team_permissions.PERMISSION),
    one("PATCH", f"{T}/permissions/", team_permissions.update, needs=MANAGER, takes=team_permissions.PERMISSION, gives=team_permissions.PERMISSION, name="team_permissions_change"),
    # --- schedules, policies, services, integrations (contract 2.4) -----------------------------------
    *crud(f"{T}/schedules/", schedules.SCHEDULES),
    *crud(f"{T}/schedule/", schedules.SCHEDULES, called="schedule by its other path"),
    *crud(f"{T2}/schedules/<schedule_id>/overrides/", overrides.OVERRIDES, without=("retrieve", "update", "change", "destroy")),
    *crud(f"{T}/escalation_policies/", policies.POLICIES),
    *crud(f"{T}/services/", services.SERVICES),
    *crud(f"{T}/services/<service_id>/integrations/", integrations.INTEGRATIONS),
    one("POST", "/api/account/regenerate_integration_key/", integrations.regenerate_key, needs="regenerate_integration_key", takes=integrations.KEY_OWNER, gives=integrations.INTEGRATIONS.schema),
    # --- incidents (contract 2.5) --------------------------------------------------------------------
    one("POST", "/api/incidents/filter/", incident_lists.filtered, needs="incident_read", takes=incident_lists.FILTER, gives=incident_lists.PAGE),
    one("POST", "/api/incidents/", incidents.create, needs="incident_write", status=201, takes=incidents.NEW, gives=incidents.INCIDENT),
    one("GET", f"{I}/", incidents.retrieve, needs="incident_read", gives=incidents.INCIDENT),
    one("PUT", f"{I}/", incidents.update, needs="incident_write", takes=incidents.CHANGE, gives=incidents.INCIDENT),
    one("PATCH", f"{I}/", incidents.update, needs="incident_write", takes=incidents.CHANGE, gives=incidents.INCIDENT, name="incidents_change"),
    *crud(f"{I}/note/", incident_notes.INCIDENT_NOTES),
    *crud(f"{I}/tags/", incident_tags.INCIDENT_TAGS),
    *crud(f"{I2}/responders/", responders.RESPONDERS),
    *crud(f"{I}/responders/", responders.RESPONDERS, called="responder"),
    one("GET", f"{I}/alerts/", incident_alerts.index, needs="incident_read", shows=incident_alerts.ALERT, many=True, pages=True),
    # --- elements of a team (contract 2.6) -----------------------------------------------------------
    *crud(f"{T}/roles/", incident_roles.INCIDENT_ROLES),
    *crud(f"{T}/tags/", elements.TAGS),
    *crud(f"{T}/priority/", elements.PRIORITIES),
    *crud(f"{T}/task_templates/", task_templates.TASK_TEMPLATES),
    *crud(f"{T}/sla/", elements.SLAS),
    *crud(f"{T}/maintenance/", maintenance.MAINTENANCES),
    *crud(f"{T}/postmortem/", postmortems.POSTMORTEMS),
    # --- who is on call (contract 2.7) ---------------------------------------------------------------
    one("GET", f"{T}/oncall/", oncall.of_team, needs="escalation_policy_read", gives=oncall.FIRST, many=True),
    one("GET", f"{T2}/oncall/", oncall.of_team_by_step, needs="escalation_policy_read", gives=oncall.SECOND, many=True),
    one("GET", f"{T2}/escalation_policies/<escalation_policy_id>/oncall/", oncall.of_policy, needs="escalation_policy_read", gives=oncall.SECOND, many=True),
    one("GET", f"{T2}/services/<service_id>/oncall/", oncall.of_service, needs="service_read", gives=oncall.SECOND, many=True),
    # --- routing (contract 2.7) ----------------------------------------------------------------------
    *crud(f"{T}/services/<service_id>/integrations/<integration_id>/transformers/", alert_rules.ALERT_RULES),
    *crud("/api/v2/account/events/router/", routers.ROUTERS),
    *crud("/api/v2/account/events/router/<router_id>/rulesets/", routers.RULES),
    one("PUT", "/api/v2/account/events/router/<router_id>/rulesets/", routers.move, needs=ADMIN, takes=routers.MOVE, gives=routers.RULES.schema, many=True),
    # --- extras (contract 2.8) -----------------------------------------------------------------------
    one("GET", "/api/user/profile/", user_profile.show, needs=OWN, gives=user_profile.PROFILE),
    *crud("/api/account/users/", accounts.USERS, without=("create", "destroy")),
    one("POST", "/api/account/invite/", invitations.invite_many, needs="member_write", status=201, takes=invitations.INVITATIONS, gives=teams.MEMBER, many=True),
    one("GET", "/api/account/integration-metadata/<integration_key>/", integration_alerts.metadata, needs="integration_read", gives=integration_alerts.METADATA),
    one("GET", f"{T}/services/<service_id>/integrations/<integration_id>/alerts/", integration_alerts.index, needs="incident_read", shows=incident_alerts.ALERT, many=True, pages=True),
    one("GET", "/api/incidents/", incident_lists.index, needs="incident_read", gives=incident_lists.PLAIN_PAGE),
    one("GET", "/api/account/applications/", integrations.applications, needs=MEMBER, gives=integrations.APPLICATION, many=True),
    *crud(f"{T2}/services/<service_id>/integrations/<integration_id>/outgoingrules/", outgoing_rules.OUTGOING_RULES),
    *crud(f"{T}/post_incident_tasks/", post_incident_tasks.POST_INCIDENT_TASKS),
    *crud(f"{T}/task_templates/<task_template_id>/tasks/", task_templates.TEMPLATE_TASKS),
    *crud(f"{T}/services/<service_id>/alert-grouping-policies/", grouping_policies.GROUPING_POLICIES),
    one("GET", f"{T}/schedules/<schedule_id>/get_schedule_ics/", calendars.of_schedule, needs="schedule_read", asks=calendars.ASKED, gives=calendars.ADDRESS),
    # --- taking alerts, and their story (contract 2.7, X36) -------------------------------------------
    one("POST", "/api/events/<integration_key>/", events.create_by_key, status=201, reads=events.ALERT_BODY, shows=events.EVENT, auth=None, stored=False, deprecated=True),
    one("POST", "/integration/<account_id>/<extension>/<integration_key>/", events.create, reads=events.ALERT_BODY, shows=events.ACCEPTED, auth=None, stored=False),
    one("POST", "/api/integration/<extension>/<integration_key>/", events.create_by_application, reads=events.ALERT_BODY, shows=events.ACCEPTED, auth=None, stored=False),
    one("POST", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, shows=events.ACCEPTED, auth=None, stored=False, name="ping"),
    one("GET", "/integration/<account_id>/heartbeat/<integration_key>/", events.ping, shows=events.ACCEPTED, auth=None, stored=False, name="ping_by_get"),
    one("POST", "/api/integration/heartbeat/<integration_key>/", events.ping, shows=events.ACCEPTED, auth=None, stored=False, name="ping_by_application"),
    one("GET", "/api/integration/heartbeat/<integration_key>/", events.ping, shows=events.ACCEPTED, auth=None, stored=False, name="ping_by_application_by_get"),
    one("GET", "/api/alert/status/<trace_id>/", events.status_as_allowed, needs="incident_read", shows=events.STATUS, auth="view"),
    one("GET", "/api/tocsin/alerts/<trace_id>/", events.story, needs="incident_read"),
    # --- our own operations, under /api/tocsin/ ------------------------------------------------------
    one("POST", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.start, needs=OWN, gives=contact_test.STARTED),
    one("GET", "/api/tocsin/users/<username>/contacts/<contact_id>/test/", contact_test.index, needs=OWN, gives=contact_test.TRIAL, many=True),
    one("POST", "/api/tocsin/users/<username>/invitation/", invitations.again, needs="member_write", gives=contact_test.STARTED),
    one("POST", "/api/tocsin/rules/try/", rules_try.attempt, needs="integration_read", takes=rules_try.TRY, gives=rules_try.TRIED),
    one("POST", "/api/tocsin/simulate/", simulate.run, needs="incident_read", takes=simulate.SIMULATE, gives=simulate.SIMULATION, at_once=simulate.AT_ONCE),
    *crud(f"{OURS}/roles/", assignments.ASSIGNMENTS, without=("retrieve", "update", "change")),
    *crud(f"{OURS}/tasks/", incident_tasks.INCIDENT_TASKS),
    one("POST", f"{OURS}/reassign/", incident_moves.reassign, needs="incident_write", takes=incident_moves.REASSIGN, gives=incidents.INCIDENT),
    one("POST", f"{OURS}/snooze/", incident_moves.snooze, needs="incident_write", takes=incident_moves.SNOOZE, gives=incidents.INCIDENT),
    one("DELETE", f"{OURS}/snooze/", incident_moves.wake, needs="incident_write", status=204),
    one("POST", f"{OURS}/merge/", incident_moves.merge, needs="incident_write", takes=incident_moves.NAMED, gives=incidents.INCIDENT),
    one("POST", f"{OURS}/unmerge/", incident_moves.unmerge, needs="incident_write", takes=incident_moves.NAMED, gives=incidents.INCIDENT),
    one("GET", f"{OURS}/timeline/", timeline.index, needs="incident_read", gives=timeline.TIMELINE),
    one("GET", "/api/tocsin/calendar/", calendars.of_person, needs=MEMBER, asks=calendars.AHEAD, gives=calendars.ADDRESS),
    one("DELETE", "/api/tocsin/calendar/", calendars.renew, needs=MEMBER, status=204),
    one("DELETE", "/api/tocsin/users/<username>/calendar/", calendars.renew_of, needs=OWN, status=204),
    one("GET", f"{ROTA}/timeline/", rotas.timeline, needs="schedule_read", asks=rotas.TIME, gives=rotas.TIMELINE),
    one("GET", f"{ROTA}/oncall/", rotas.on_call, needs="schedule_read", asks=rotas.AT, gives=rotas.ON_CALL),
    one("GET", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.retrieve, needs="integration_read", gives=heartbeats.HEARTBEAT),
    one("PUT", "/api/tocsin/integrations/<heartbeat_id>/heartbeat/", heartbeats.update, needs="integration_write", takes=heartbeats.HEARTBEAT, gives=heartbeats.HEARTBEAT),
    one("GET", "/api/tocsin/aside/", aside.index, needs="incident_read", gives=aside.PAGE),
    one("GET", "/api/tocsin/aside/<aside_id>/", aside.retrieve, needs="incident_read", gives=aside.SET_ASIDE),
    one("POST", "/api/tocsin/aside/<aside_id>/replay/", aside.replay, needs="incident_write", gives=aside.TAKEN_UP),
    one("DELETE", "/api/tocsin/aside/<aside_id>/", aside.destroy, needs="incident_write", status=204),
    # --- the interface about itself ------------------------------------------------------------------
    one("GET", openapi.PATH, openapi.view, auth=None, stored=False, documented=False),
    # --- for whoever runs the installation ------------------------------------------------------------
    one("GET", "/metrics", metrics.show, auth=None, documented=False),
    # --- pages, outside the interface ----------------------------------------------------------------
    one("GET", "/i/<token>", page.show, auth=None, documented=False),
    one("POST", "/i/<token>", page.act, auth=None, documented=False),
    one("GET", "/join/<token>", join.show, auth=None, documented=False),
    one("POST", "/join/<token>", join.join, auth=None, documented=False),
    one("GET", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
    one("HEAD", "/calendars/<token>.ics", calendars.show, auth=None, documented=False),
)  # fmt: skip
