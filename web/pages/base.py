"""Render HTML pages. They must not be indexed, and send no referrer. All answers have more headers
(web/http/response_headers.py)."""

import secrets

from flask import Response, make_response, render_template

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}


def render_page(template: str, code: int, **values: object) -> Response:
    """Render a page with an inline style. The page can load and run nothing else, and cannot be framed."""
    nonce = secrets.token_urlsafe(16)
    response = make_response(render_template(template, nonce=nonce, **values), code)
    response.headers.update(HEADERS)
    response.headers["Content-Security-Policy"] = build_policy(f"'nonce-{nonce}'")
    return response


def build_policy(style: str) -> str:
    """Return the policy of a page whose inline style has this source: a nonce or a hash."""
    return (
        f"default-src 'none'; style-src {style}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
