"""Forms of pages: each has a token that only pages of this host can know (CSRF), and a safe way back.

The token is derived from a secret in a cookie: the first one of the session, and that of a form before the
sign-in. Each answer shows it masked in another way, because the length of compressed pages lets others guess
a text that is always the same. The token is a field of the form, or a header of a script's request. Other
hosts can read neither.
"""

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

from flask import Flask, Response, current_app, g, request

from models.store.ids import digest, make_token
from web.http.errors import Forbidden
from web.pages.base import build_url

FIELD = "csrf"
HEADER = "X-CSRF-Token"

NEXT_LIMIT = 1_000
DONE_LIMIT = 300
# A form that is open for longer needs a reload.
FORM_COOKIE_S = 24 * 3600
# Hexadecimal digits before the digest of a masked token.
SALT_DIGITS = 32


def register(app: Flask) -> None:
    """Give all templates `csrf_token()` and `page_url(path)`, and set the cookies after a view."""
    app.jinja_env.globals |= {"csrf_token": get_token, "page_url": build_url}
    app.after_request(_set_cookies)


def get_token() -> str:
    """Return the masked token of the forms of this answer."""
    if "shown_token" not in g:
        g.shown_token = mask_token(_find_token() or derive_token(_start_secret()))
    return str(g.shown_token)


def mask_token(token: str) -> str:
    """Return a text that proves a token and differs each time: a random salt, and the HMAC of it."""
    return _mask(token, secrets.token_hex(SALT_DIGITS // 2))


def check_token() -> None:
    """Raise Forbidden if the form is not from a page that this browser got."""
    if not has_valid_token():
        raise Forbidden(detail="This form is too old. Go back, load the page again, and repeat it.")


def has_valid_token() -> bool:
    """Return whether the form is from a page that this browser got."""
    token = _find_token()
    if token is None:
        # The body of a stranger is not read.
        return False
    sent = request.headers.get(HEADER) or request.form.get(FIELD, "")
    return hmac.compare_digest(sent.encode(), _mask(token, sent[:SALT_DIGITS]).encode())


def get_cookie_name(purpose: str) -> str:
    """Return the name of a cookie. On https, the prefix lets no other host and no plain page set it."""
    return f"__Host-tocsin-{purpose}" if _is_secure() else f"tocsin-{purpose}"


def read_cookie(purpose: str) -> str | None:
    """Return the value of one of our cookies."""
    return request.cookies.get(get_cookie_name(purpose)) or None


def set_cookie(purpose: str, value: str, max_age_s: int) -> None:
    """Set a cookie with this answer. "": remove it."""
    g.setdefault("new_cookies", {})[purpose] = (value, max_age_s if value else 0)


def build_done(text: str) -> dict[str, str]:
    """Return the parameters of an address with which a page of this session says what was done."""
    return {"done": text, "proof": _prove(text)}


def read_done() -> str:
    """Return what the page says was done; "" for a text that is not ours: anybody can write an address."""
    text = request.args.get("done", "")[:DONE_LIMIT]
    is_own = hmac.compare_digest(request.args.get("proof", "").encode(), _prove(text).encode())
    return text if is_own else ""


def find_next(text: str | None) -> str:
    """Return a path of this host to which a person goes after the sign-in; "/" for everything else.

    Browsers read a backslash as a slash, and leave out control characters, so paths with them are refused.
    """
    text = text or ""
    is_path = text.startswith("/") and not text.startswith("//") and len(text) <= NEXT_LIMIT
    if not is_path or not text.isascii() or not text.isprintable() or "\\" in text or " " in text:
        return "/"
    parts = urlsplit(text)
    if parts.scheme or parts.netloc or parts.path.startswith("//"):
        return "/"
    return text


def _prove(text: str) -> str:
    return digest(f"done:{_find_token()}:{text[:DONE_LIMIT]}")[:32]


def derive_token(secret: str) -> str:
    """Return the token of the forms of a browser with this secret in a cookie."""
    return digest(f"csrf:{secret}")


def _mask(token: str, salt: str) -> str:
    return salt + hmac.new(token.encode(), salt.encode(), hashlib.sha256).hexdigest()


def _find_token() -> str | None:
    """Return the token of the session that this request has, or else that of its form."""
    if "session_token" in g:
        token: str = g.session_token
        return token
    secret = g.get("form_secret") or read_cookie("form")
    return derive_token(secret) if secret else None


def _start_secret() -> str:
    g.form_secret = make_token()
    set_cookie("form", g.form_secret, FORM_COOKIE_S)
    return str(g.form_secret)


def _is_secure() -> bool:
    return str(current_app.config["SETTINGS"].public_url).startswith("https:")


def _set_cookies(response: Response) -> Response:
    for purpose, (value, max_age_s) in g.get("new_cookies", {}).items():
        response.set_cookie(
            get_cookie_name(purpose), value, max_age=max_age_s, path="/", secure=_is_secure(),
            httponly=True, samesite="Lax",
        )  # fmt: skip
    return response
