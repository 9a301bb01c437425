"""The OpenAPI description of the interface, generated from the list of routes."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import marshmallow
import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Blueprint, Response, current_app
from flask_swagger_ui import get_swaggerui_blueprint

from web.http import errors, fields, openapi_examples, paging, permissions, serialization, xml
from web.http.response_headers import allow_docs

# The version of the interface, not of the program (docs/contract.md, introduction).
VERSION = "1.1.0"

PATH = "/api/openapi.json"
DOCS = "/api/docs"

DESCRIPTION = f"""\
Most operations need a token: `Authorization: Bearer KEY`. With `Authorization: Token KEY`, Tocsin uses the
format that the published clients expect. The differences are:

* Notes and alerts of an incident, and alerts of an integration: an array with `Bearer`, a page with `Token`.
* The team of a tag or priority: a number with `Bearer`. With `Token`, answers to GET contain the team's id.
* The answer to an event contains its payload only with `Bearer`.
* An error answer names the wrong fields in `errors` with `Token`, and if the request has `Prefer: errors`.
  Operations under `/api/tocsin/` always do this.
* With `Token`, PUT may omit required fields. PATCH may always omit them.

Answers are JSON, or XML if the request accepts it (`application/xml`, `text/xml`). Bodies can also be JSON or
XML, except alerts, which are JSON. Lists with pages take the parameters `page` and `page_size`; the largest
`page_size` is `{paging.MAX_SIZE}`.
"""

# How the description explains the permission of an operation (web/http/permissions.py). Permissions that are
# missing here are shown by name.
PERMISSION_TEXTS: Mapping[str, str] = {
    "": "Needs no token. The key in the path is enough to send alerts.",
    permissions.MEMBER: "All members of the account may use this.",
    permissions.OWN: "The user in the path, owners and admins may use this.",
    permissions.MANAGER: "Managers of the team, owners and admins may use this.",
    permissions.ADMIN: "Owners and admins may use this.",
}

# Descriptions of path parameters. A parameter that is missing here is the unique_id of the named object.
PATH_PARAMETERS: Mapping[str, str] = {
    "account_id": "The account's identifier of five characters.",
    "extension": "The name of the monitoring tool in addresses. It decides the format of the body; the body"
    " described here is that of `generic`.",
    "incident": "The incident's number or unique_id.",
    "integration_key": "The key of an integration or of a global router.",
    "trace_id": "The trace_id from the answer to the alert.",
    "username": "The user's username.",
}

PAGE_PARAMETERS = (
    ("page", "The number of the page, from 1.", {"type": "integer", "minimum": 1, "default": 1}),
    (
        "page_size",
        "The number of results per page.",
        {"type": "integer", "minimum": 1, "maximum": paging.MAX_SIZE, "default": paging.DEFAULT_SIZE},
    ),
)

ERROR_TYPES: tuple[type[errors.ApiError], ...] = (
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


def show() -> Response:
    """Return the OpenAPI description of this interface."""
    config = current_app.config
    return Response(
        orjson.dumps(document(config["ROUTES"], config["SETTINGS"].public_url)), mimetype=serialization.JSON
    )


def build_docs() -> Blueprint:
    """Build the page that shows the description. It loads nothing from other servers."""
    # The redirect URL is set because its default comes from the Host header, which the client controls.
    # Operations and models are collapsed, so that the page appears at once.
    config = {
        "app_name": "Tocsin",
        "oauth2RedirectUrl": f"{DOCS}/oauth2-redirect.html",
        "docExpansion": "none",
        "defaultModelsExpandDepth": -1,
        "validatorUrl": "none",
    }
    page: Blueprint = get_swaggerui_blueprint(DOCS, PATH, config=config)
    page.after_request(allow_docs)
    return page


@lru_cache
def document(routes: tuple[Any, ...], public_url: str) -> dict[str, object]:
    """Build the OpenAPI 3.1 description of these routes."""
    plugin = MarshmallowPlugin(schema_name_resolver=_get_name)
    served = [route for route in routes if route.documented]
    spec = APISpec(
        "Tocsin",
        VERSION,
        "3.1.0",
        [plugin],
        info={"description": DESCRIPTION, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        servers=[{"url": public_url}],
        tags=[{"name": tag} for tag in sorted({route.tag for route in served})],
    )
    for field, format_ in ((fields.Moment, "date-time"), (fields.Date, "date"), (fields.Uuid, "uuid")):
        plugin.map_to_openapi_type(field, "string", format_)
    plugin.map_to_openapi_type(fields.Reference, "string", None)
    assert plugin.converter is not None
    plugin.converter.add_attribute_function(_describe_type)
    spec.components.security_scheme("bearerAuth", {"type": "http", "scheme": "bearer"})
    spec.components.schema("Error", ERROR)
    for error_type in ERROR_TYPES:
        spec.components.response(error_type.__name__, _describe_error(error_type))
    describer = _Describer(spec)
    for path, operations in _group_by_path(served):
        described = {route.method.lower(): describer.describe(route) for route in operations}
        spec.path(_ARGUMENT.sub(r"{\1}", path), operations=described)
    description: dict[str, object] = spec.to_dict()
    return description


ERROR = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": {"type": "string"},
        "errors": {
            "type": "object",
            "description": "The errors by field. See above for when an answer contains them.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}


def _get_name(schema: object) -> str:
    """Return the name of a schema: its class, with "Changes" at the end for a partial schema."""
    name = (schema if isinstance(schema, type) else type(schema)).__name__.removesuffix("Schema")
    if getattr(schema, "exclude", None):
        name = f"{name}Plain"
    return f"{name}Changes" if getattr(schema, "partial", None) else name


def _describe_type(_: object, field: marshmallow.fields.Field[Any], **__: object) -> dict[str, object]:
    """Describe the type of fields that apispec does not know: team labels and computed fields."""
    if isinstance(field, fields.TeamLabel):
        return {"oneOf": [{"type": "integer"}, {"type": "string", "format": "uuid"}]}
    known = openapi_examples.find_example(field) if isinstance(field, marshmallow.fields.Function) else None
    if known is None:
        return {}
    kind = _TYPES[type(known[0])]
    return {"type": ["string", "null"] if kind in ("string", "null") else kind}


def _describe_error(error_type: type[errors.ApiError]) -> dict[str, object]:
    body = {"detail": error_type.detail}
    bodies = {serialization.JSON: body, serialization.XML: xml.render(body).decode()}
    answer: dict[str, object] = {
        "description": error_type.detail,
        "content": {kind: {"schema": "Error", "example": example} for kind, example in bodies.items()},
    }
    headers = {
        errors.NotAuthenticated: ("WWW-Authenticate", {"type": "string"}),
        errors.Throttled: ("Retry-After", {"type": "integer"}),
    }
    if error_type in headers:
        name, schema = headers[error_type]
        answer["headers"] = {name: {"schema": schema}}
    return answer


def _group_by_path(served: Iterable[Any]) -> Iterable[tuple[str, list[Any]]]:
    paths: dict[str, list[Any]] = {}
    for route in served:
        paths.setdefault(route.path, []).append(route)
    return paths.items()


class _Describer:
    """Describes operations. Also adds their examples to the components of `spec`."""

    def __init__(self, spec: APISpec) -> None:
        self._components = spec.components

    def describe(self, route: Any) -> dict[str, object]:
        described: dict[str, object] = {
            "operationId": route.name,
            "summary": route.summary.rstrip("."),
            "description": " ".join(_list_sentences(route)),
            "tags": [route.tag],
            "parameters": _list_parameters(route),
            "responses": {
                str(route.status): self._describe_response(route),
                **{str(error_type.status): error_type.__name__ for error_type in _list_errors(route)},
            },
            "security": [{"bearerAuth": []}] if route.auth else [],
            "x-needs": route.permission,
        }
        if route.body is not None:
            schema = type(route.body)(partial=True) if route.method == "PATCH" else route.body
            content = self._describe_content(
                schema, ("Body", openapi_examples.build_example(schema, for_request=True))
            )
            described["requestBody"] = {"required": True, "content": content}
        if route.doc_body is not None:
            content = self._describe_content(
                route.doc_body, ("Body", openapi_examples.build_example(route.doc_body, for_request=True))
            )
            described["requestBody"] = {
                "required": True,
                "content": {serialization.JSON: content[serialization.JSON]},
            }
        if route.deprecated:
            described["deprecated"] = True
        return described

    def _describe_response(self, route: Any) -> dict[str, object]:
        schema = route.response or route.doc_response
        if schema is None:
            return {"description": "The request succeeded."}
        example = openapi_examples.build_example(schema, for_request=False)
        if not route.many:
            content = self._describe_content(schema, ("", example))
            return {"description": "The request succeeded.", "content": content}
        array = {"type": "array", "items": schema}
        if not route.paged:
            return {
                "description": "The request succeeded.",
                "content": self._describe_content(array, ("List", [example]), of=schema),
            }
        pages = ("Page", {"count": 1, "next": None, "previous": None, "results": [example]})
        content = self._describe_content(
            {"oneOf": [array, _describe_page(array)]}, ("List", [example]), pages, of=schema
        )
        return {"description": "An array with `Bearer`, a page with `Token`.", "content": content}

    def _describe_content(
        self,
        schema: fields.Schema | dict[str, object],
        *samples: tuple[str, object],
        of: fields.Schema | None = None,
    ) -> dict[str, object]:
        """Describe a schema in JSON and XML. Each example is stored once, under the name of its schema."""
        content: dict[str, Any] = {
            kind: {"schema": schema, "examples": {}} for kind in (serialization.JSON, serialization.XML)
        }
        for what, example in samples:
            name = f"{_get_name(of or schema)}{what}"
            self._add_example(name, example)
            self._add_example(f"{name}.xml", xml.render(example).decode())
            content[serialization.JSON]["examples"][what or "Answer"] = name
            content[serialization.XML]["examples"][what or "Answer"] = f"{name}.xml"
        return content

    def _add_example(self, name: str, example: object) -> None:
        if name not in self._components.examples:
            self._components.example(name, {"value": example})


def _describe_page(array: dict[str, object]) -> dict[str, object]:
    link = {"type": ["string", "null"]}
    parts = {"count": {"type": ["integer", "null"]}, "next": link, "previous": link, "results": array}
    return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}


def _list_sentences(route: Any) -> Iterable[str]:
    if route.permission not in PERMISSION_TEXTS:
        yield f"Needs the permission `{route.permission}` in the team."
        yield "Owners and admins have it in all teams."
    else:
        yield PERMISSION_TEXTS[route.permission]
    if route.rate_limits:
        rates = " and ".join(f"{count} requests in {seconds:g} s" for count, seconds in route.rate_limits)
        yield f"An account may send at most {rates}."
    if route.concurrency_limit:
        count = route.concurrency_limit.max_requests
        yield f"A web process serves at most {count} of these requests at the same time."
        yield "An account has one at a time in all web processes. It ends when its client leaves."


def _list_parameters(route: Any) -> list[dict[str, object]]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARAMETERS.get(
                name, f"The unique_id of the {name.removesuffix('_id').replace('_', ' ')}."
            ),
            "schema": {"type": "string"},
        }
        for name in _ARGUMENT.findall(route.path)
    ]
    parameters = PAGE_PARAMETERS if _is_paged(route) else ()
    in_query = [
        {"name": name, "in": "query", "description": says, "schema": kind} for name, says, kind in parameters
    ]
    return in_path + in_query + list(_list_query_parameters(route.query))


def _list_query_parameters(schema: fields.Schema | None) -> Iterable[dict[str, object]]:
    """Describe the query parameters. All are strings."""
    for name, field in schema.load_fields.items() if schema else ():
        says = field.metadata["description"]
        yield {
            "name": field.data_key or name, "in": "query", "description": says, "schema": {"type": "string"},
        }  # fmt: skip


def _is_paged(route: Any) -> bool:
    return route.paged or (route.response is not None and {"next", "results"} <= set(route.response.fields))


def _list_errors(route: Any) -> Iterable[type[errors.ApiError]]:
    """Yield the errors that the operation can answer with."""
    yield errors.BadRequest
    if route.auth:
        yield errors.NotAuthenticated
        yield errors.Forbidden
    yield errors.NotFound
    if route.body is not None or route.doc_body is not None:
        yield errors.TooLarge
    if route.rate_limits or route.concurrency_limit:
        yield errors.Throttled
    yield errors.Unavailable
