"""The interface's description of itself, made from the list of routes that serves it."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import orjson
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Blueprint, Response, current_app
from flask_swagger_ui import get_swaggerui_blueprint

from web import errors, shapes, wire

# The version of the interface that is served, not of the program (interface, section Versioning).
VERSION = "1.1.0"

PATH = "/api/openapi.json"
DOCS = "/api/docs"

_ARGUMENT = re.compile("<([a-z_]+)>")

# What any operation can be refused with; 401 and 413 need no word of their own there.
REFUSALS: tuple[type[errors.ApiError], ...] = (
    errors.BadRequest,
    errors.NotAuthenticated,
    errors.Forbidden,
    errors.NotFound,
)


def view() -> Response:
    """This description."""
    config = current_app.config
    return Response(
        orjson.dumps(document(config["ROUTES"], config["SETTINGS"].public_url)), mimetype=wire.JSON
    )


def docs() -> Blueprint:
    """The page that shows the description; everything it loads comes from here."""
    # Said here, since it would else be made from the Host header, which anybody can choose.
    config = {"app_name": "Tocsin", "oauth2RedirectUrl": f"{DOCS}/oauth2-redirect.html"}
    page: Blueprint = get_swaggerui_blueprint(DOCS, PATH, config=config)
    return page


@lru_cache
def document(routes: tuple[Any, ...], public_url: str) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    plugin = MarshmallowPlugin(schema_name_resolver=_name)
    spec = APISpec("Tocsin", VERSION, "3.1.0", [plugin], servers=[{"url": public_url}])
    for field, format_ in ((shapes.Moment, "date-time"), (shapes.Day, "date"), (shapes.Uuid, "uuid")):
        plugin.map_to_openapi_type(field, "string", format_)
    plugin.map_to_openapi_type(shapes.Reference, "string", None)
    spec.components.security_scheme("bearerAuth", {"type": "http", "scheme": "bearer"})
    spec.components.schema("Error", {"type": "object", "properties": {"detail": {"type": "string"}}})
    for refusal in REFUSALS:
        spec.components.response(refusal.__name__, _refusal(refusal))
    for path, operations in _by_path(route for route in routes if route.documented):
        spec.path(_ARGUMENT.sub(r"{\1}", path), operations=operations)
    described: dict[str, Any] = spec.to_dict()
    return described


def _name(schema: Any) -> str:
    """Schemas go by their class; those of which any field may be missing are changes."""
    name = (schema if isinstance(schema, type) else type(schema)).__name__.removesuffix("Shape")
    if getattr(schema, "exclude", None):
        name = f"{name}Plain"
    return f"{name}Changes" if getattr(schema, "partial", None) else name


def _refusal(refusal: type[errors.ApiError]) -> dict[str, Any]:
    return {
        "description": refusal.detail,
        "content": {kind: {"schema": "Error"} for kind in (wire.JSON, wire.XML)},
    }


def _by_path(served: Iterable[Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    paths: dict[str, dict[str, Any]] = {}
    for route in served:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return paths.items()


def _operation(route: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.says.rstrip("."),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _ARGUMENT.findall(route.path)
        ],
        "responses": {
            str(route.status): _answer(route),
            **{str(refusal.status): refusal.__name__ for refusal in REFUSALS},
        },
        "security": [{"bearerAuth": []}] if route.auth else [],
    }
    if route.takes is not None:
        described["requestBody"] = {"required": True, "content": _content(_taken(route))}
    if route.deprecated:
        described["deprecated"] = True
    return described


def _taken(route: Any) -> Any:
    return type(route.takes)(partial=True) if route.method == "PATCH" else route.takes


def _answer(route: Any) -> dict[str, Any]:
    given = route.gives or route.shows
    if given is None:
        return {"description": "Done."}
    shape = {"type": "array", "items": given} if route.many else given
    return {"description": "Done.", "content": _content(shape)}


def _content(shape: Any) -> dict[str, Any]:
    return {kind: {"schema": shape} for kind in (wire.JSON, wire.XML)}
