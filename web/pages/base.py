"""Render HTML pages. They must not be indexed, and send no referrer. All answers have more headers
(web/http/response_headers.py)."""

import base64
import hashlib
import re
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


def build_policy(style: str, forms: str = "'self'") -> str:
    """Return the policy of a page whose inline styles have this source: a nonce, or hashes."""
    return (
        f"default-src 'none'; style-src {style}; form-action {forms}; base-uri 'none'; frame-ancestors 'none'"
    )


_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def hash_styles(html: str) -> str:
    """Return the source of the styles of a page that is kept: a nonce would have to differ in each answer."""
    digests = [hashlib.sha256(style.encode()).digest() for style in _STYLE.findall(html)]
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
