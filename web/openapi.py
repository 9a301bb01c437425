"""The interface's description of itself, made from the list of routes that serves it."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Blueprint, Response, current_app
from flask_swagger_ui import get_swaggerui_blueprint
from marshmallow import fields

from web import errors, examples, paging, permissions, shapes, wire, xml

# The version of the interface that is served, not of the program (interface, section Versioning).
VERSION = "1.1.0"

PATH = "/api/openapi.json"
DOCS = "/api/docs"

ABOUT = f"""\
Every operation that says so needs a token: `Authorization: Bearer KEY`. `Authorization: Token KEY` is served,
too, with the shapes that published clients read. The word makes these differences:

* notes and alerts of an incident, and alerts of an integration, come as an array with `Bearer`, and as a page
  with `Token`;
* tags and priorities name their team by a number with `Bearer`, by its id in answers to GET with `Token`;
* the answer to an event holds its payload with `Bearer` only;
* a refusal says in `errors` which fields it is about with `Token`, and after `Prefer: errors`; PUT may leave
  out required fields with `Token`, as PATCH may in any case.

Answers are JSON, or XML for who accepts that (`application/xml`, `text/xml`). So are bodies, but those of
alerts, which are JSON. Lists that come page by page take `page` and `page_size`, of which the largest is
`{paging.LARGEST_SIZE}`.
"""

# What is said of an operation's needs (web/permissions.py); any other is the name of a permission.
NEEDS: Mapping[str, str] = {
    "": "Needs no token: whoever knows the key in the path may send alerts by it.",
    permissions.MEMBER: "For all members of the account.",
    permissions.OWN: "For the person whom it is about, owners and admins.",
    permissions.MANAGER: "For managers of the team, owners and admins.",
    permissions.ADMIN: "For owners and admins.",
}

# Under which heading an operation stands: the first of these pieces that its path has decides.
TAGS: tuple[tuple[str, str], ...] = (
    ("/customroles/", "Custom roles"),
    ("/notification_rules/", "Notification rules"),
    ("/forwarding_rules/", "Forwarding rules"),
    ("/contacts/", "Contact methods"),
    ("<team_id>/members/", "Team members"),
    ("<team_id>/permissions/", "Teams"),
    ("/oncall/", "On call"),
    ("/overrides/", "Schedules"),
    ("/schedule", "Schedules"),
    ("/calendar/", "Schedules"),
    ("/escalation_policies/", "Escalation policies"),
    ("/transformers/", "Alert rules"),
    ("/outgoingrules/", "Outgoing rules"),
    ("/alert-grouping-policies/", "Grouping policies"),
    ("/analytics/", "Analytics"),
    ("/account/events/router/", "Global routers"),
    ("<integration_id>/alerts/", "Integrations"),
    ("/integrations/", "Integrations"),
    ("/regenerate_integration_key/", "Integrations"),
    ("/integration-metadata/", "Integrations"),
    ("/applications/", "Integrations"),
    ("/services/", "Services"),
    ("<incident>/note/", "Incident notes"),
    ("<incident>/tags/", "Incident tags"),
    ("<incident>/responders/", "Incident responders"),
    ("/post_incident_tasks/", "Post-incident tasks"),
    ("/task_templates/", "Task templates"),
    ("/incidents/", "Incidents"),
    ("<team_id>/roles/", "Incident roles"),
    ("<team_id>/tags/", "Tags"),
    ("/priority/", "Priorities"),
    ("/sla/", "SLAs"),
    ("/maintenance/", "Maintenance"),
    ("/postmortem/", "Postmortems"),
    ("/account/teams/", "Teams"),
    ("/api/events/", "Alerts"),
    ("/integration/", "Alerts"),
    ("/alert/status/", "Alerts"),
    ("/tocsin/alerts/", "Alerts"),
    ("/aside/", "Alerts"),
    ("/simulate/", "Alerts"),
    ("/rules/try/", "Alert rules"),
    ("/", "Members"),
)

# What names in paths stand for, where it is not the unique_id of what they are called after.
PLACES: Mapping[str, str] = {
    "account_id": "The account's identifier of five characters.",
    "extension": "What the application is called in addresses. The body is its own; this one is `generic`.",
    "incident": "The incident's number, or its unique_id.",
    "integration_key": "The key of an integration or of a global router.",
    "trace_id": "What the sender of the alert got in answer.",
    "username": "The person's username.",
}

PAGE = (
    ("page", "Which page, from 1.", {"type": "integer", "minimum": 1, "default": 1}),
    (
        "page_size",
        "How many on a page.",
        {"type": "integer", "minimum": 1, "maximum": paging.LARGEST_SIZE, "default": paging.DEFAULT_SIZE},
    ),
)

REFUSALS: tuple[type[errors.ApiError], ...] = (
    errors.BadRequest,
    errors.NotAuthenticated,
    errors.Forbidden,
    errors.NotFound,
    errors.TooLarge,
    errors.Throttled,
    errors.Unavailable,
)

_ARGUMENT = re.compile("<([a-z_]+)>")
_TYPES = {str: "string", bool: "boolean", int: "integer", dict: "object", list: "array", type(None): "null"}


def view() -> Response:
    """This description."""
    config = current_app.config
    return Response(
        orjson.dumps(document(config["ROUTES"], config["SETTINGS"].public_url)), mimetype=wire.JSON
    )


def docs() -> Blueprint:
    """The page that shows the description; everything it loads comes from here."""
    # Said here, since it would else be made from the Host header, which anybody can choose. Without a list of
    # operations and models unfolded, the page is there at once.
    config = {
        "app_name": "Tocsin",
        "oauth2RedirectUrl": f"{DOCS}/oauth2-redirect.html",
        "docExpansion": "none",
        "defaultModelsExpandDepth": -1,
        "validatorUrl": "none",
    }
    page: Blueprint = get_swaggerui_blueprint(DOCS, PATH, config=config)
    return page


@lru_cache
def document(routes: tuple[Any, ...], public_url: str) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    plugin = MarshmallowPlugin(schema_name_resolver=_name)
    served = [route for route in routes if route.documented]
    named = sorted({_tag(route) for route in served})
    spec = APISpec(
        "Tocsin",
        VERSION,
        "3.1.0",
        [plugin],
        info={"description": ABOUT, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        servers=[{"url": public_url}],
        tags=[{"name": tag} for tag in named],
    )
    for field, format_ in ((shapes.Moment, "date-time"), (shapes.Day, "date"), (shapes.Uuid, "uuid")):
        plugin.map_to_openapi_type(field, "string", format_)
    plugin.map_to_openapi_type(shapes.Reference, "string", None)
    assert plugin.converter is not None
    plugin.converter.add_attribute_function(_typed)
    spec.components.security_scheme("bearerAuth", {"type": "http", "scheme": "bearer"})
    spec.components.schema("Error", ERROR)
    for refusal in REFUSALS:
        spec.components.response(refusal.__name__, _refusal(refusal))
    describe = _Describer(spec)
    for path, operations in _by_path(served):
        described = {route.method.lower(): describe.operation(route) for route in operations}
        spec.path(_ARGUMENT.sub(r"{\1}", path), operations=described)
    whole: dict[str, Any] = spec.to_dict()
    return whole


ERROR = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {"type": "string"},
        "errors": {
            "type": "object",
            "description": "What is wrong, by field: see above for who is told.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}


def _name(schema: Any) -> str:
    """Schemas go by their class; those of which any field may be missing are changes."""
    name = (schema if isinstance(schema, type) else type(schema)).__name__.removesuffix("Shape")
    if getattr(schema, "exclude", None):
        name = f"{name}Plain"
    return f"{name}Changes" if getattr(schema, "partial", None) else name


def _typed(_: Any, field: fields.Field[Any], **__: Any) -> dict[str, Any]:
    """What the kind of a field does not say: of labels, and of what is computed."""
    if isinstance(field, shapes.TeamLabel):
        return {"oneOf": [{"type": "integer"}, {"type": "string", "format": "uuid"}]}
    known = examples.named(field) if isinstance(field, fields.Function) else None
    if known is None:
        return {}
    kind = _TYPES[type(known[0])]
    return {"type": ["string", "null"] if kind in ("string", "null") else kind}


def _refusal(refusal: type[errors.ApiError]) -> dict[str, Any]:
    told = {"detail": refusal.detail}
    shown = {wire.JSON: told, wire.XML: xml.render(told).decode()}
    answer: dict[str, Any] = {
        "description": refusal.detail,
        "content": {kind: {"schema": "Error", "example": example} for kind, example in shown.items()},
    }
    headers = {
        errors.NotAuthenticated: ("WWW-Authenticate", {"type": "string"}),
        errors.Throttled: ("Retry-After", {"type": "integer"}),
    }
    if refusal in headers:
        name, schema = headers[refusal]
        answer["headers"] = {name: {"schema": schema}}
    return answer


def _by_path(served: Iterable[Any]) -> Iterable[tuple[str, list[Any]]]:
    paths: dict[str, list[Any]] = {}
    for route in served:
        paths.setdefault(route.path, []).append(route)
    return paths.items()


def _tag(route: Any) -> str:
    return next(tag for piece, tag in TAGS if piece in route.path)


class _Describer:
    """Describes operations, and keeps what they refer to in the components of `spec`."""

    def __init__(self, spec: APISpec) -> None:
        self._components = spec.components

    def operation(self, route: Any) -> dict[str, Any]:
        described: dict[str, Any] = {
            "operationId": route.name,
            "summary": route.says.rstrip("."),
            "description": " ".join(_sentences(route)),
            "tags": [_tag(route)],
            "parameters": _parameters(route),
            "responses": {
                str(route.status): self._answer(route),
                **{str(refusal.status): refusal.__name__ for refusal in _refusals(route)},
            },
            "security": [{"bearerAuth": []}] if route.auth else [],
            "x-needs": route.needs,
        }
        if route.takes is not None:
            taken = type(route.takes)(partial=True) if route.method == "PATCH" else route.takes
            content = self._content(taken, ("Body", examples.of_shape(taken, asked=True)))
            described["requestBody"] = {"required": True, "content": content}
        if route.reads is not None:
            content = self._content(route.reads, ("Body", examples.of_shape(route.reads, asked=True)))
            described["requestBody"] = {"required": True, "content": {wire.JSON: content[wire.JSON]}}
        if route.deprecated:
            described["deprecated"] = True
        return described

    def _answer(self, route: Any) -> dict[str, Any]:
        given = route.gives or route.shows
        if given is None:
            return {"description": "Done."}
        one = examples.of_shape(given, asked=False)
        if not route.many:
            return {"description": "Done.", "content": self._content(given, ("", one))}
        array = {"type": "array", "items": given}
        if not route.pages:
            return {"description": "Done.", "content": self._content(array, ("List", [one]), of=given)}
        pages = ("Page", {"count": 1, "next": None, "previous": None, "results": [one]})
        content = self._content({"oneOf": [array, _page_of(array)]}, ("List", [one]), pages, of=given)
        return {"description": "With `Bearer` the array, with `Token` a page of it.", "content": content}

    def _content(self, schema: Any, *shown: tuple[str, Any], of: Any = None) -> dict[str, Any]:
        """The schema in both forms. Each example is kept once, by its shape and what it is."""
        content: dict[str, Any] = {kind: {"schema": schema, "examples": {}} for kind in (wire.JSON, wire.XML)}
        for what, example in shown:
            name = f"{_name(of or schema)}{what}"
            self._keep(name, example)
            self._keep(f"{name}.xml", xml.render(example).decode())
            content[wire.JSON]["examples"][what or "Answer"] = name
            content[wire.XML]["examples"][what or "Answer"] = f"{name}.xml"
        return content

    def _keep(self, name: str, example: Any) -> None:
        if name not in self._components.examples:
            self._components.example(name, {"value": example})


def _page_of(array: dict[str, Any]) -> dict[str, Any]:
    link = {"type": ["string", "null"]}
    parts = {"count": {"type": ["integer", "null"]}, "next": link, "previous": link, "results": array}
    return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}


def _sentences(route: Any) -> Iterable[str]:
    if route.needs not in NEEDS:
        yield f"Needs `{route.needs}` in the team that it is about; owners and admins have it everywhere."
    else:
        yield NEEDS[route.needs]
    if route.limits:
        often = " and ".join(f"{count} in {seconds:g} s" for count, seconds in route.limits)
        yield f"An account may ask for it {often}."
    if route.at_once:
        yield f"A web process does {route.at_once.most} of these at a time, and one of each account."


def _parameters(route: Any) -> list[dict[str, Any]]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PLACES.get(
                name, f"The unique_id of the {name.removesuffix('_id').replace('_', ' ')}."
            ),
            "schema": {"type": "string"},
        }
        for name in _ARGUMENT.findall(route.path)
    ]
    asked = PAGE if _is_paged(route) else ()
    in_query = [
        {"name": name, "in": "query", "description": says, "schema": kind} for name, says, kind in asked
    ]
    return in_path + in_query + list(_asked(route.asks))


def _asked(shape: shapes.Shape | None) -> Iterable[dict[str, Any]]:
    """What may be said in the query: texts, as all of it is."""
    for name, field in shape.load_fields.items() if shape else ():
        says = field.metadata["description"]
        yield {
            "name": field.data_key or name, "in": "query", "description": says, "schema": {"type": "string"},
        }  # fmt: skip


def _is_paged(route: Any) -> bool:
    return route.pages or (route.gives is not None and {"next", "results"} <= set(route.gives.fields))


def _refusals(route: Any) -> Iterable[type[errors.ApiError]]:
    """What the operation can be refused with."""
    yield errors.BadRequest
    if route.auth:
        yield errors.NotAuthenticated
        yield errors.Forbidden
    yield errors.NotFound
    if route.takes is not None or route.reads is not None:
        yield errors.TooLarge
    if route.limits or route.at_once:
        yield errors.Throttled
    yield errors.Unavailable
