"""The Flask application. Each request has one store connection, one viewer and one point in time."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from io import BytesIO

from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import MethodNotAllowed

from models.store.store import connection
from runtime.settings import Settings
from web.event_apis import alertmanager, opsgenie, pagerduty, victorops
from web.http import auth, error_handlers, serialization
from web.http.limits.inputs import LimitedRequest, limit_headers
from web.http.limits.places import hold_place
from web.http.limits.query_names import OWN_PATH, require_known
from web.http.response_headers import add_headers
from web.http.writing import format_etag
from web.ingest import alerts_by_get, events
from web.ingest.fast_path import FastPath
from web.operations import health, metrics
from web.pages import forms, signed_in, start, theme
from web.pages.look import bar, filters
from web.pages.sign_in import by_provider
from web.routes import PAGES, ROUTES, Route

# For all operations except those that accept alerts: these set request.max_content_length themselves. The
# limit of a page is in its line of web/routes.py.
BODY_LIMIT = 1024 * 1024

INGEST_VIEWS = (
    events.create_by_key,
    events.create,
    events.create_by_application,
    events.ping,
    alerts_by_get.create,
    pagerduty.enqueue,
    pagerduty.create_event,
    opsgenie.create,
    opsgenie.change,
    victorops.alert,
    alertmanager.push,
)

# A GET of these does something, so they answer no HEAD: programs that look at a link send it.
ACTING_VIEWS = (*INGEST_VIEWS, by_provider.begin, by_provider.finish)

# A body of more bytes is dear work.
MAX_CHEAP_BYTES = 64 * 1024

# All methods are registered, so that the dispatcher also answers requests with a method that is not served.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def create_app(settings: Settings) -> Flask:
    """Build the application. Call open_store() before the first request."""
    app = Flask("web", static_folder=None, template_folder="pages/templates")
    app.request_class = LimitedRequest
    app.config["SETTINGS"] = settings
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
    # A path without its last slash gets an answer, not a redirect (contract 1.1).
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    error_handlers.register(app)
    app.after_request(add_headers)
    # Runs before the function above.
    app.after_request(start.show_to_browsers)
    app.config["ROUTES"] = ROUTES
    app.config[start.HEALTH] = health.report
    app.register_blueprint(health.blueprint)
    forms.register(app)
    filters.register(app)
    bar.register(app)
    theme.register(app)
    for path, routes in group_by_path((*ROUTES, *PAGES)).items():
        view = build_dispatcher(routes)
        app.add_url_rule(path, path, view, methods=METHODS, provide_automatic_options=False)
    app.wsgi_app = FastPath(  # type: ignore[method-assign]
        limit_headers(app.wsgi_app), events.commits, events.large_bodies
    )
    metrics.count_refusals(app, {route.path for route in ROUTES if route.view in INGEST_VIEWS})
    return app


def get_fast_path(app: Flask) -> FastPath:
    """Return the fast path of an application that create_app built."""
    assert isinstance(app.wsgi_app, FastPath)
    return app.wsgi_app


def group_by_path(routes: tuple[Route, ...]) -> dict[str, dict[str, Route]]:
    found: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in routes:
        found[route.path][route.method] = route
    return found


def build_dispatcher(routes: Mapping[str, Route]) -> Callable[..., Response]:
    if "GET" in routes and routes["GET"].view not in ACTING_VIEWS:
        routes = {**routes, "HEAD": routes["GET"]}
    # An integration must be set up for a method that the description of the path leaves out.
    is_described = any(route.documented for route in routes.values())
    methods = [method for method, route in routes.items() if route.documented or not is_described]
    allowed = [*methods, "OPTIONS"]

    def dispatch(**ids: str) -> Response:
        route = routes.get(request.method)
        if request.method == "HEAD" and route is not None:
            # The view answers as to GET. The server leaves out the body.
            request.method = "GET"
        if route is not None:
            return serve(route, ids)
        if request.method == "OPTIONS":
            return Response(headers={"Allow": ", ".join(allowed)})
        raise MethodNotAllowed(allowed)

    return dispatch


def serve(route: Route, ids: dict[str, str]) -> Response:
    """Authenticate the viewer, call the view and serialize its result with the route's response schema."""
    g.route = route
    request.max_content_length = route.max_bytes
    if route.guest is not None and not signed_in.has_cookie():
        return current_app.make_response(route.guest())
    with connection() if route.needs_store else nullcontext():
        if route.auth == "token":
            g.viewer = auth.authenticate(auth.now(), route.permission)
        elif route.auth == "session":
            if request.method == "GET" and "If-None-Match" in request.headers:
                # A poll: mostly nothing has changed.
                auth.use_recent_time()
            found = signed_in.authenticate(auth.now(), route.permission)
            if isinstance(found, Response):
                return found
            g.viewer = found
        elif route.auth == "form" and route.method == "POST":
            forms.check_token()
        if route.path.startswith(OWN_PATH) and request.method == "GET":
            require_known(request.args, route.query_names)
        with hold_place(g.viewer.account.account_identifier) if _is_dear(route) else nullcontext():
            result = route.view(**ids)
            if isinstance(result, Response | tuple):
                return current_app.make_response(result)
            response = serialization.build_response(serialize(route, result), route.status)
            if route.is_numbered:
                response.headers["ETag"] = format_etag(result.number)
            return response


def _is_dear(route: Route) -> bool:
    """Return whether this request of a known account must hold a place while it computes."""
    if "viewer" not in g:
        return False
    return route.is_dear or _measure_body() > MAX_CHEAP_BYTES


def _measure_body() -> int:
    """Return the size of the body; for a chunked one, what the server received.

    A client may acknowledge in chunks, and must not wait for a place.
    """
    received = request.environ["wsgi.input"]
    if request.content_length is None and isinstance(received, BytesIO):
        return received.getbuffer().nbytes
    is_chunked = "HTTP_TRANSFER_ENCODING" in request.environ
    # The server asks whether to receive a chunked body only when it is large.
    return request.content_length or (MAX_CHEAP_BYTES + 1 if is_chunked else 0)


def serialize(route: Route, result: object) -> object:
    return result if route.response is None else route.response.dump(result, many=route.many)
