"""What every page of ours is: plain HTML with a style of its own, which nothing may add to, keep or quote."""

import secrets
from typing import Any

from flask import Response, make_response, render_template

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


def render_page(template: str, code: int, **values: Any) -> Response:
    """A page whose only style is its own; nothing else may load, run, or frame it."""
    nonce = secrets.token_urlsafe(16)
    response = make_response(render_template(template, nonce=nonce, **values), code)
    response.headers.update(HEADERS)
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    )
    return response
