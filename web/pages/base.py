"""Render HTML pages. They must not be indexed, and send no referrer. All answers have more headers
(web/http/response_headers.py)."""

import base64
import hashlib
import re
import secrets
from urllib.parse import urlsplit

from flask import Response, current_app, make_response, redirect, render_template

from web.http.response_headers import PRIVATE_HEADERS
from web.pages.compression import compress_page


def render_page(template: str, code: int, **values: object) -> Response:
    """Render a page with an inline style. The page can load nothing else, and cannot be framed.

    With the value `push`, it runs the script of push.html, and with `passkeys` that of passkeys.html. They
    can send requests to this host only. Other pages run nothing.
    """
    nonce = secrets.token_urlsafe(16)
    response = make_response(render_template(template, nonce=nonce, **values), code)
    response.headers.update(PRIVATE_HEADERS)
    response.headers["Content-Security-Policy"] = build_policy(f"'nonce-{nonce}'")
    if values.get("push") is not None or values.get("passkeys") is not None:
        scripts = f"script-src 'nonce-{nonce}'; worker-src 'self'; connect-src 'self'"
        response.headers["Content-Security-Policy"] += f"; {scripts}"
    return compress_page(response)


def build_url(path: str) -> str:
    """Return the path of a page below that of the public URL."""
    return f"{urlsplit(current_app.config['SETTINGS'].public_url).path.rstrip('/')}{path}"


def redirect_to(path: str) -> Response:
    """Redirect to a page of this host, which the browser requests by GET."""
    return redirect_away(build_url(path))


def redirect_away(url: str) -> Response:
    """Redirect to an address that a setting of the operator names."""
    response = make_response(redirect(url, 303))
    response.headers.update(PRIVATE_HEADERS)
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
