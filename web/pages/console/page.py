"""Render the pages of signed-in people: the frame, the headers, and answers to polls."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from urllib.parse import urlencode

from flask import Response, make_response, render_template, request

from models.domain.channels import DELIVERY_CHANNELS
from models.tables.accounts import get_display_name
from pipeline.messages.times import format_time
from web.http.auth import now, viewer
from web.http.errors import ApiError, describe_refusal
from web.http.fields import parse_moment
from web.http.response_headers import PRIVATE_HEADERS
from web.pages import forms
from web.pages.base import build_url, redirect_to
from web.pages.compression import compress_page, vary_by_encoding
from web.pages.static_files import get_path
from web.pages.theme import get_theme

# What channels are called in sentences. A stored message can have a channel that was removed.
CHANNEL_TITLES = {spec.name: spec.title for spec in DELIVERY_CHANNELS.values()}

# What a page may load: files of this host. Styles and scripts are files, never parts of the page.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self';"
    " manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def build_etag(*parts: object) -> str:
    """Return the ETag of a page that shows these values to this person."""
    user = viewer().user
    shown = (parts, user.id, user.role, user.time_zone, get_theme(), get_path("tocsin.css"))
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:24]


def is_known(etag: str) -> bool:
    """Return whether the browser has the page with this ETag already."""
    return request.headers.get("If-None-Match", "").strip().removeprefix("W/").strip('"') == etag


def answer_unchanged(etag: str) -> Response:
    response = Response(status=304)
    _set_etag(response, etag)
    return response


def _set_etag(response: Response, etag: str) -> None:
    """Set a weak ETag: tokens of forms differ in each answer, and the compressed page has the same ETag."""
    response.set_etag(etag, weak=True)
    vary_by_encoding(response)


def render(
    template: str,
    code: int = 200,
    *,
    etag: str = "",
    has_secret: bool = False,
    more: Mapping[str, object] | None = None,
    **values: object,
) -> Response:
    """Render a page. With an ETag, its browser polls for changes. `more` are more values.

    A page with a secret that is the same each time is not compressed.
    """
    text = render_template(
        f"console/{template}",
        prefix=build_url(""),
        static=get_path,
        path=request.path,
        me=get_display_name(viewer().user),
        etag=etag,
        moment=format_moment,
        channel_titles=CHANNEL_TITLES,
        now=now(),
        **(more or {}),
        **values,
    )
    response = make_response(text, code)
    response.headers.update(PRIVATE_HEADERS)
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Content-Security-Policy"] = POLICY
    if etag:
        _set_etag(response, etag)
    return response if has_secret else compress_page(response)


def redirect_done(path: str, text: str) -> Response:
    """Redirect to a page of this host, which says what was done."""
    return redirect_to(f"{path}?{urlencode(forms.build_done(text))}")


def refuse(error: ApiError, heading: str, back: str) -> Response:
    """Say why an operation refused what a form asked for. `back` is the path of the page with the form."""
    return render("refused.html", error.status, heading=heading, reasons=describe_refusal(error), back=back)


def format_moment(at: object) -> str:
    """Return a time in the time zone that the person chose, which Mine names; empty for None."""
    return "" if at is None else format_time(_read(at), viewer().user.time_zone, names_zone=False)


def format_moment_for_all(at: datetime) -> str:
    """Return a time in the person's time zone, for other readers too."""
    return format_time(at, viewer().user.time_zone)


def _read(at: object) -> datetime:
    return at if isinstance(at, datetime) else parse_moment(str(at))


def read_form(names: Sequence[str]) -> dict[str, str]:
    """Return the fields of the form that have a value."""
    return {name: value for name in names if (value := request.form.get(name, "").strip())}
