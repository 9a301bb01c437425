"""The OpenAPI description of the interface, generated from the list of routes."""

import importlib.metadata
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import marshmallow
import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Response, current_app

from web.http import errors, fields, paging, permissions, serialization, xml
from web.http.openapi import examples
from web.http.openapi.descriptions import SENTENCES, describe_field
from web.http.openapi.split_schemas import find_schemas, list_objects, split
from web.http.openapi.tags import TAGS
from web.http.prepared import PreparedAnswer, prepare, respond

# The version of the interface (docs/contract.md, introduction), which the description carries. The page shows
# that of the program.
INTERFACE_VERSION = "1.1.0"

PATH = "/api/openapi.json"
DOCS = "/api/docs"

DESCRIPTION = f"""\
Tocsin {importlib.metadata.version("tocsin")} implements version {INTERFACE_VERSION} of the interface.

Most operations need a token: `Authorization: Bearer KEY`. With `Authorization: Token KEY`, Tocsin uses the
format that the published clients expect. The differences are:

* Notes and alerts of an incident, and alerts of an integration: an array with `Bearer`, a page with `Token`.
* The team of a tag or priority: a number with `Bearer`. With `Token`, answers to GET contain the team's id.
* The answer to an event contains its payload only with `Bearer`.
* With `Token`, PUT may omit required fields. PATCH may always omit them.
* With `Token`, a new service may omit `team_priority` and `sla`. `collation` 3 needs no policy then.

An answer with one object of the configuration has the number of the object as its `ETag`. With this `ETag`
in `If-Match`, a change is refused with 412 if somebody else has changed the object meanwhile.

If a request is refused because of its content, `errors` names each wrong field with the reason.

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

PREFER_PARAMETER = {
    "name": "Prefer",
    "in": "header",
    "description": "`wait=SECONDS`, at most 10: the answer comes when the alert is processed (RFC 7240).",
    "schema": {"type": "string"},
    "example": "wait=5",
}
IF_MATCH_PARAMETER = {
    "name": "If-Match",
    "in": "header",
    "description": "The ETag of the object as you have read it: it is changed only if it is still the same.",
    "schema": {"type": "string"},
    "example": '"3"',
}
ETAG_HEADER = {
    "ETag": {
        "description": "The number of the object, in quotation marks. Every change of the object raises it.",
        "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
    }
}
APPLIED_HEADER = {
    "Preference-Applied": {
        "description": "Present if the alert is processed: `incident` and `incident_created` are its result.",
        "schema": {"type": "string"},
    }
}

ERROR_TYPES: tuple[type[errors.ApiError], ...] = (
    errors.BadRequest,
    errors.NotAuthenticated,
    errors.Forbidden,
    errors.NotFound,
    errors.Conflict,
    errors.NumberDiffers,
    errors.TooLarge,
    errors.Throttled,
    errors.Unavailable,
)

# Formats of text. Only this interface has the last two: names of time zones, and conditions in JSON Logic.
FORMATS: tuple[tuple[type[fields.Text], str], ...] = (
    (fields.Email, "email"),
    (fields.TimeZone, "time-zone"),
    (fields.RuleJson, "json-logic"),
)

# What a description says about the size of values.
LIMITS = ("minLength", "maxLength", "minimum", "maximum")

_ARGUMENT = re.compile("<([a-z_]+)>")
_TYPES = {str: "string", bool: "boolean", int: "integer", dict: "object", list: "array", type(None): "null"}


def show() -> Response:
    """Return the OpenAPI description of this interface."""
    config = current_app.config
    return respond(_prepare(config["ROUTES"], config["SETTINGS"].public_url))


@lru_cache(maxsize=1)
def _prepare(routes: tuple[object, ...], public_url: str) -> PreparedAnswer:
    return prepare(serialization.JSON, serialize(routes, public_url))


def serialize(routes: tuple[object, ...], public_url: str) -> bytes:
    """Return the description of these routes in JSON."""
    return orjson.dumps(document(routes, public_url))


@lru_cache
def document(routes: tuple[Any, ...], public_url: str) -> dict[str, object]:
    """Build the OpenAPI 3.1 description of these routes."""
    plugin = MarshmallowPlugin(schema_name_resolver=_get_name)
    served = [route for route in routes if route.documented]
    spec = APISpec(
        "Tocsin",
        INTERFACE_VERSION,
        "3.1.0",
        [plugin],
        info={
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "x-tocsin-version": importlib.metadata.version("tocsin"),
        },
        servers=[{"url": public_url}],
        tags=[{"name": tag, "description": TAGS[tag]} for tag in sorted({route.tag for route in served})],
    )
    for field, format_ in (
        (fields.Moment, "date-time"),
        (fields.Date, "date"),
        (fields.QueryDay, "date"),
        (fields.Uuid, "uuid"),
    ):
        plugin.map_to_openapi_type(field, "string", format_)
    plugin.map_to_openapi_type(fields.Reference, "string", None)
    assert plugin.converter is not None
    plugin.converter.add_attribute_function(_describe_type)
    plugin.converter.add_attribute_function(describe_field)
    spec.components.security_scheme("bearerAuth", {"type": "http", "scheme": "bearer"})
    spec.components.schema("Error", ERROR)
    spec.components.schema("NumberDiffers", NUMBER_DIFFERS)
    for error_type in ERROR_TYPES:
        spec.components.response(error_type.__name__, _describe_error(error_type))
    describer = _Describer(spec, plugin.converter.field2property)
    for path, operations in _group_by_path(served):
        described = {route.method.lower(): describer.describe(route) for route in operations}
        spec.path(_ARGUMENT.sub(r"{\1}", path), operations=described)
    description: dict[str, Any] = spec.to_dict()
    split(description)
    bodies = [each.get("requestBody") for path in description["paths"].values() for each in path.values()]
    _remove_limits_of_responses(description["components"]["schemas"], bodies)
    _describe_lists_in_xml(description)
    return description


DETAIL = {"type": "string", "description": "Says what is wrong, for people."}
ERROR = {
    "type": "object",
    "required": ["detail"],
    "properties": {
        "detail": DETAIL,
        "errors": {
            "type": "object",
            "description": "The reasons by field, of a request that was refused because of its content.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}


NUMBER_DIFFERS = {
    "type": "object",
    "required": ["detail", "number", "current", "changed"],
    "properties": {
        "detail": DETAIL,
        "number": {"type": "integer", "description": "The number of the object as it is now."},
        "current": {"type": "object", "description": "The object as it is now, in the form of its GET."},
        "changed": {
            "type": "array",
            "description": "The fields that were changed since the number in the request.",
            "items": {
                "type": "object",
                "required": ["field", "by", "at"],
                "properties": {
                    "field": {"type": "string", "description": "The name of the field."},
                    "by": {"type": "string", "description": "Who changed it last."},
                    "at": {"type": "string", "format": "date-time", "description": "When that was."},
                },
            },
        },
    },
}


def _remove_limits_of_responses(schemas: Mapping[str, object], bodies: object) -> None:
    """Remove limits from schemas that only answers have: they are limits of requests.

    A name in an answer can be longer, for example if it was built from a name and a prefix.
    """
    for name in schemas.keys() - find_schemas(bodies, schemas):
        for value in list_objects(schemas[name]):
            for limit in LIMITS:
                value.pop(limit, None)


def _describe_lists_in_xml(description: object) -> None:
    """Say that a list is an element with an element per item (web/http/xml.py)."""
    for value in list_objects(description):
        items = value.get("items")
        if value.get("type") == "array" and isinstance(items, dict):
            value["xml"] = {"wrapped": True}
            # Not all tools read what stands beside a reference.
            value["items"] = {**({"allOf": [items]} if "$ref" in items else items), "xml": {"name": xml.ITEM}}


def _is_body_required(schema: marshmallow.Schema) -> bool:
    """Return whether a request without a body is refused: an empty body means an object without members."""
    return not schema.partial and any(field.required for field in schema.load_fields.values())


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
    for field_type, format_ in FORMATS:
        if isinstance(field, field_type):
            return {"format": format_}
    not_blank: dict[str, object] = (
        {"minLength": 1} if "blank" in field.error_messages and not field.allow_none else {}
    )
    if isinstance(field, fields.Reference):
        return {"maxLength": fields.REFERENCE_LIMIT, **not_blank}
    if isinstance(field, marshmallow.fields.String):
        return not_blank
    known = examples.find_example(field) if isinstance(field, marshmallow.fields.Function) else None
    if known is None:
        return {}
    kind = _TYPES[type(known[0])]
    if kind == "array":
        return {"type": kind, "items": {"type": "object"}}
    return {"type": ["string", "null"] if kind in ("string", "null") else kind}


def _describe_error(error_type: type[errors.ApiError]) -> dict[str, object]:
    body: dict[str, object] = {"detail": error_type.detail}
    if error_type is errors.NumberDiffers:
        changed = [{"field": "name", "by": "Alice", "at": "2026-03-04T12:00:00.000000Z"}]
        body |= {"number": 4, "current": {"name": "Disk"}, "changed": changed}
    schema = error_type.__name__ if error_type is errors.NumberDiffers else "Error"
    bodies = {serialization.JSON: body, serialization.XML: xml.render(body).decode()}
    answer: dict[str, object] = {
        "description": error_type.detail,
        "content": {kind: {"schema": schema, "example": example} for kind, example in bodies.items()},
    }
    headers = {
        errors.NotAuthenticated: ("WWW-Authenticate", "The expected scheme: `Token`.", {"type": "string"}),
        errors.Throttled: ("Retry-After", "Seconds to wait before the next request.", {"type": "integer"}),
    }
    if error_type in headers:
        name, text, kind = headers[error_type]
        answer["headers"] = {name: {"description": text, "schema": kind}}
    if error_type is errors.NumberDiffers:
        answer["headers"] = ETAG_HEADER
    return answer


def _group_by_path(served: Iterable[Any]) -> Iterable[tuple[str, list[Any]]]:
    paths: dict[str, list[Any]] = {}
    for route in served:
        paths.setdefault(route.path, []).append(route)
    return paths.items()


class _Describer:
    """Describes operations. Also adds their examples to the components of `spec`."""

    def __init__(self, spec: APISpec, describe_field: Callable[[Any], dict[str, object]]) -> None:
        self._components = spec.components
        self._describe_field = describe_field

    def describe(self, route: Any) -> dict[str, object]:
        described: dict[str, object] = {
            "operationId": route.name,
            "summary": route.summary,
            "description": " ".join(_list_sentences(route)),
            "tags": [route.tag],
            "parameters": [
                *_list_parameters(route),
                *self._list_query_parameters(route.query),
                *([PREFER_PARAMETER] if route.can_await else []),
                *([IF_MATCH_PARAMETER] if route.has_condition else []),
            ],
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
                schema, ("Body", examples.build_example(schema, for_request=True))
            )
            described["requestBody"] = {"required": _is_body_required(schema), "content": content}
        if route.doc_body is not None:
            content = self._describe_content(
                route.doc_body, ("Body", examples.build_example(route.doc_body, for_request=True))
            )
            described["requestBody"] = {
                "required": True,
                "content": {serialization.JSON: content[serialization.JSON]},
            }
        if route.deprecated:
            described["deprecated"] = True
        return described

    def _list_query_parameters(self, schema: fields.Schema | None) -> Iterable[dict[str, object]]:
        for name, field in schema.load_fields.items() if schema else ():
            described = self._describe_field(field)
            says = described.pop("description")
            # A query has no null.
            if isinstance(types := described.get("type"), list):
                described["type"] = next(kind for kind in types if kind != "null")
            yield {"name": field.data_key or name, "in": "query", "description": says, "schema": described}

    def _describe_response(self, route: Any) -> dict[str, object]:
        schema = route.response or route.doc_response
        if schema is None:
            return {"description": "The request succeeded."}
        example = examples.build_example(schema, for_request=False)
        if not route.many:
            content = self._describe_content(schema, ("", example))
            answer: dict[str, object] = {"description": "The request succeeded.", "content": content}
            if route.can_await:
                answer["headers"] = APPLIED_HEADER
            elif route.is_numbered:
                answer["headers"] = ETAG_HEADER
            return answer
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
    link: dict[str, object] = {"type": ["string", "null"]}
    parts: dict[str, dict[str, object]] = {
        "count": {"type": ["integer", "null"]},
        "next": link,
        "previous": link,
        "results": array,
    }
    described = {name: {**schema, "description": SENTENCES[name]} for name, schema in parts.items()}
    return {"type": "object", "properties": described, "required": list(parts), "additionalProperties": False}


def _list_sentences(route: Any) -> Iterable[str]:
    if route.details:
        yield route.details
    if route.permission not in PERMISSION_TEXTS:
        yield f"Needs the permission `{route.permission}` in the team."
        yield "Owners and admins have it in all teams."
    else:
        yield PERMISSION_TEXTS[route.permission]
    if route.rate_limits:
        rates = " and ".join(f"{count} requests in {seconds:g} s" for count, seconds in route.rate_limits)
        yield f"An account may send at most {rates}."
    if route.min_interval:
        yield f"For one object, at most one request in {route.min_interval.total_seconds():g} s is served."
    if route.concurrency_limit:
        limit = route.concurrency_limit
        these = f"requests {limit.applies_to}" if limit.applies_to else "of these requests"
        yield f"A web process serves at most {limit.max_requests} {these} at the same time."
        yield "An account has one at a time in all web processes."
        if limit.ends_with_client:
            yield "It ends when its client leaves."


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
    parameters = PAGE_PARAMETERS if route.has_pages else ()
    in_query = [
        {"name": name, "in": "query", "description": says, "schema": kind} for name, says, kind in parameters
    ]
    return in_path + in_query


def _list_errors(route: Any) -> Iterable[type[errors.ApiError]]:
    """Yield the errors that the operation can answer with."""
    yield errors.BadRequest
    if route.auth:
        yield errors.NotAuthenticated
        yield errors.Forbidden
        # Also instead of NotAuthenticated, after many invalid tokens of one address.
        yield errors.Throttled
    yield errors.NotFound
    if route.has_conflicts:
        yield errors.Conflict
    if route.has_condition:
        yield errors.NumberDiffers
    if route.body is not None or route.doc_body is not None:
        yield errors.TooLarge
    yield errors.Unavailable
