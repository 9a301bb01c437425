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
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    )
    return response
