"""The page at /, and the page that a browser gets instead of a refusal in JSON: what this is, whether it is
healthy, and where to go next. Both need no login and show nothing of any account."""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Protocol

from flask import Response, current_app, g, request

from web.http import serialization
from web.http.errors import NotFound
from web.pages import signed_in
from web.pages.base import render_page
from web.pages.refusal import list_links, wants_page

# State of a part of the installation -> what it means. A part in state "ok" is not mentioned.
PROBLEMS = {
    "database": "The database cannot be written. Alerts are refused, and their senders must send them again.",
    "broker": "Redis does not answer. Alerts are stored, and workers find them in the database.",
    "clock": "The clock process does not run. Periodic jobs are late.",
    "services": "A process that hangs has locked services: their notifications wait. See /readyz.",
    "mail": "No mail relay is set, so nobody gets e-mails. See TOCSIN_SMTP_HOST in the documentation.",
}
# Status of the installation -> its name on the page, and the class of the style that has its colour.
STATUSES = {
    "ready": ("healthy", "resolved"),
    "degraded": ("healthy, with limits", "acknowledged"),
    "paused": ("a restored copy: it accepts alerts and sends nothing until it is resumed", "acknowledged"),
    "unavailable": ("not healthy", "triggered"),
}

# The key of the application's config with the function that returns the health.
HEALTH = "HEALTH"
# Headers that the page sets itself.
OWN_HEADERS = frozenset({"content-type", "content-length", "content-security-policy"})


class Health(Protocol):
    """What web/operations/health.py reports."""

    @property
    def status(self) -> str: ...
    @property
    def parts(self) -> Mapping[str, str]: ...
    @property
    def dead_letters(self) -> int | None: ...


def show() -> Response:
    """Show what this is. Clients of the interface get 404, because it has nothing here."""
    if serialization.prefers_data():
        raise NotFound
    return _render("start.html", 200)


def show_to_browsers(response: Response) -> Response:
    """Replace a refusal by a page if a browser asks; clients of the interface get JSON or XML."""
    if response.status_code < 400 or response.mimetype == "text/html" or not wants_page(request):
        return response
    if request.path == "/healthz":
        # It must not wait for the store, but the page says whether the store works.
        return response
    refusal = g.get("refusal", {})
    status = HTTPStatus(response.status_code)
    page = _render("refused.html", status, status=status, refusal=refusal, is_member=signed_in.has_cookie())
    for name, value in response.headers:
        if name.lower() not in OWN_HEADERS:
            page.headers.add(name, value)
    return page


def _render(template: str, code: int, **values: object) -> Response:
    find_health: Callable[[], Health] = current_app.config[HEALTH]
    report = find_health()
    word, style = STATUSES[report.status]
    return render_page(
        template,
        code,
        health=word,
        style=style,
        problems=list(_list_problems(report)),
        **list_links(current_app.config["SETTINGS"]),
        **values,
    )


def _list_problems(report: Health) -> Iterator[str]:
    for part, state in report.parts.items():
        if state not in ("ok", "unknown"):
            yield PROBLEMS[part]
    if report.dead_letters:
        yield f"Alerts that Tocsin could not process: {report.dead_letters:,}. See tocsin dead-letters."
