"""Call operations of the interface from a page, in the name of the person who is signed in.

A page shows and does only what operations do: the same validation, permissions, limits and queries. So a page
cannot show or change what the interface refuses. An operation gets a request of its own, with the values of
a form as its body. It uses the connection and the time of the page's request.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import orjson
from flask import Response, current_app, g, request
from werkzeug.test import EnvironBuilder

from web.http.auth import viewer
from web.http.errors import ApiError, Forbidden
from web.http.fields import Schema
from web.server_interface import CLIENT_CHECK

Query = Mapping[str, str | int]
Answer = TypeVar("Answer")


class Operation(Protocol):
    """What this module needs of a route (web/routes.py)."""

    @property
    def name(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def permission(self) -> str: ...
    @property
    def view(self) -> Callable[..., object]: ...
    @property
    def response(self) -> Schema | None: ...
    @property
    def many(self) -> bool: ...


@lru_cache(maxsize=2)
def _index(routes: tuple[Operation, ...]) -> dict[str, Operation]:
    return {route.name: route for route in routes}


def call(name: str, body: object = None, query: Query | None = None, **ids: str) -> Any:
    """Return what the operation with this name answers, as plain values. Raises ApiError if it refuses.

    `ids` are those of its path.
    """
    route = _index(current_app.config["ROUTES"])[name]
    path = route.path
    for key, value in ids.items():
        path = path.replace(f"<{key}>", quote(value, safe=""))
    previous_viewer, previous_route = g.viewer, g.route
    g.viewer, g.route = replace(viewer(), permission=route.permission), route
    try:
        with current_app.request_context(_build_environ(route.method, path, body, query)):
            result = route.view(**ids)
            if isinstance(result, Response):
                return orjson.loads(result.get_data()) if result.get_data() else None
            return result if route.response is None else route.response.dump(result, many=route.many)
    finally:
        g.viewer, g.route = previous_viewer, previous_route


def call_if_allowed(name: str, empty: Answer, query: Query | None = None, **ids: str) -> Answer:
    """Return what a reading operation answers, or `empty` if the person may not read it."""
    try:
        answer: Answer = call(name, None, query, **ids)
    except Forbidden:
        return empty
    return answer


def _build_environ(method: str, path: str, body: object, query: Query | None) -> dict[str, object]:
    builder = EnvironBuilder(
        path,
        method=method,
        query_string={key: str(value) for key, value in (query or {}).items()},
        data=None if body is None else orjson.dumps(body),
        content_type=None if body is None else "application/json",
    )
    outer = {key: request.environ[key] for key in (CLIENT_CHECK, "REMOTE_ADDR") if key in request.environ}
    return {**builder.get_environ(), **outer}


def describe_refusal(error: ApiError) -> list[str]:
    """Return a refusal in sentences: for each wrong field its reason, or else the detail."""
    found = [f"{_name_field(name)}: {' '.join(reasons)}" for name, reasons in error.fields.items()]
    return found or [error.detail]


def _name_field(name: str) -> str:
    return name.replace("_", " ").capitalize()
