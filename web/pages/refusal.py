"""The page that a browser gets instead of a refusal in JSON, also if the server refuses the request itself.

The server refuses because a body is late or no thread is free. So its page needs no application, no store and
no time: it is rendered once for each status.
"""

from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit
from wsgiref.types import WSGIEnvironment

from jinja2 import Environment, PackageLoader, StrictUndefined
from werkzeug.wrappers import Request

from runtime.settings import Settings
from web.http import response_headers, serialization
from web.http.openapi import document
from web.pages import base
from web.pages.look.style import read_style
from web.server_interface import ALERT_PATHS, BuildRefusal, Headers


def wants_page(asked: Request) -> bool:
    """Return whether a refusal of this request must be a page: a browser asks, and it sends no alert."""
    sends_alert = asked.path.startswith(ALERT_PATHS) and asked.method not in ("GET", "HEAD")
    return not sends_alert and serialization.is_browser(asked)


def list_links(settings: Settings) -> dict[str, str]:
    """Return where the pages lead, for their templates."""
    prefix = urlsplit(settings.public_url).path
    return {"start": f"{prefix}/", "docs": f"{prefix}{document.DOCS}/", "readiness": f"{prefix}/readyz"}


def create_builder(settings: Settings) -> BuildRefusal:
    """Return the function with which the server builds its pages."""

    @lru_cache(maxsize=16)
    def render(status: int, detail: str) -> tuple[Headers, bytes]:
        return _render(status, detail, list_links(settings))

    def build(environ: WSGIEnvironment, status: int, detail: str) -> tuple[Headers, bytes] | None:
        return render(status, detail) if wants_page(Request(environ)) else None

    return build


def _render(status: int, detail: str, links: dict[str, str]) -> tuple[Headers, bytes]:
    templates = Environment(loader=PackageLoader("web.pages"), autoescape=True, undefined=StrictUndefined)
    refusal = {"detail": detail, "errors": {}}
    # The health is not known here, and to find it out could take seconds.
    text = templates.get_template("refused.html").render(
        status=HTTPStatus(status), refusal=refusal, nonce="", health="", read_style=read_style, **links
    )
    headers = {
        **response_headers.HEADERS,
        **response_headers.PRIVATE_HEADERS,
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": base.build_policy(base.hash_styles(text)),
    }
    return list(headers.items()), text.encode()
