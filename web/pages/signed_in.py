"""Sessions of browsers: find the person of a page's request, sign people in, and sign them out.

A line of PAGES in web/routes.py says which permission its page needs. Its view calls `auth.viewer()`, as
operations do, and loads rows with web/http/access.py. A page accepts no token, and operations no cookie.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from urllib.parse import quote

from flask import Response, g, request

from models.domain.enums import Way
from models.sign_in import audit, sessions
from models.sign_in.sessions import Browser
from models.store.store import STORE_ERRORS, store
from models.tables.accounts import User
from models.tables.sign_in import Session
from web.http.auth import RECORD_LOCK_S, Viewer, now
from web.http.errors import Forbidden, NotAuthenticated
from web.http.failed_authentication import get_network
from web.http.limits.inputs import PAGE_BYTES
from web.http.permissions import ADMIN
from web.pages import clients, forms
from web.pages.base import redirect_to

SIGN_IN = "/sign-in/"
# The purpose of the cookie with the secret of the session.
COOKIE = "session"
# A script sends this header with its requests. It gets 401 instead of the sign-in page.
SCRIPT_HEADER = "X-Requested-With"
ENDED = "The session has ended. Sign in again."
CHANGED = "The ways in which you sign in have just changed. Sign in again."


class WayRemoved(Forbidden):
    """Another request has removed or used the way to sign in since it was checked."""


def authenticate(at: datetime, permission: str) -> Viewer | Response:
    """Return the viewer of this page's request, or the redirect to the sign-in page.

    Raise Forbidden for a page of admins, and for a form that is not from a page of this session. The rights
    are those that are stored now.
    """
    secret = forms.read_cookie(COOKIE)
    session = sessions.find(secret, at) if secret is not None else None
    if session is None or secret is None:
        return _ask_to_sign_in()
    g.session, g.session_token = session, session.form_token or forms.derive_token(secret)
    if request.method not in ("GET", "HEAD"):
        forms.check_token()
    viewer = Viewer(session.user, session.user.account, permission, way=Way.PAGE)
    _record_use(session, secret, at)
    if permission == ADMIN and not viewer.is_admin:
        raise Forbidden
    return viewer


def has_cookie() -> bool:
    """Return whether the browser has a session, which may have ended."""
    return forms.read_cookie(COOKIE) is not None


def get_session() -> Session:
    """Return the session of this request."""
    found: Session = g.session
    return found


def get_browser() -> Browser:
    """Return what is known of the browser of this request."""
    return Browser(request.headers.get("User-Agent", ""), get_network(request.remote_addr or ""))


def is_recent() -> bool:
    """Return whether the person of this request has signed in a few minutes ago."""
    return sessions.is_recent(get_session(), now())


def ask_again(path: str) -> Response:
    """Redirect to the sign-in page, which leads to this path afterwards."""
    return redirect_to(f"{SIGN_IN}?again=1&next={quote(path, safe='/')}")


def require_current() -> None:
    """Lock the person of this request. Raise NotAuthenticated if the session has ended meanwhile.

    Needs a write transaction.
    """
    session = get_session()
    if not sessions.lock_person(session.user) or not sessions.exists(session):
        raise NotAuthenticated(detail=ENDED)


def start(
    user: User,
    method: str,
    is_valid: Callable[[], bool],
    *,
    detail: str = "",
    proof_age: timedelta | None = sessions.JUST_NOW,
) -> None:
    """Start a session in this browser. Its session of before ends.

    Nobody who knew a cookie of before the sign-in knows the new one. `is_valid` says whether the way to sign
    in still exists: another request can have removed it since it was checked. Then raise WayRemoved.
    """
    browser = get_browser()
    with store().write_transaction():
        if not sessions.lock_person(user) or not is_valid():
            raise WayRemoved(detail=CHANGED)
        _end_current(now())
        secret = sessions.start(user, method, browser, now(), proof_age=proof_age)
        audit.record(user, "signed_in", now(), client=browser.client, detail=detail or method)
    _set_cookie(secret)
    clients.remember(user)


def sign_out() -> Response:
    """End the session of this browser."""
    session = get_session()
    with store().write_transaction():
        sessions.end(session.user, session.unique_id)
        audit.record(session.user, "signed_out", now(), client=get_browser().client)
    forms.set_cookie(COOKIE, "", 0)
    return redirect_to(SIGN_IN)


def _end_current(at: datetime) -> None:
    secret = forms.read_cookie(COOKIE)
    session = sessions.find(secret, at) if secret is not None else None
    if session is not None:
        sessions.end(session.user, session.unique_id)


def _ask_to_sign_in() -> Response:
    if request.headers.get(SCRIPT_HEADER):
        raise NotAuthenticated(detail=ENDED)
    if request.method in ("GET", "HEAD"):
        path = request.full_path if request.query_string else request.path
    else:
        # A form was sent, and nothing was changed. The form can name the page on which it is. Only a session
        # may send a longer one.
        request.max_content_length = PAGE_BYTES
        path = forms.find_next(request.form.get("back"))
    return redirect_to(f"{SIGN_IN}?next={quote(path, safe='/')}")


def _record_use(session: Session, secret: str, at: datetime) -> None:
    """Store the last use from time to time, and give the session a new secret after a change of rights.

    A poll gets none: it comes at any time, also while the person sends a form.
    """
    if not _is_poll() and sessions.is_renewal_due(session, secret):
        with store().write_transaction():
            renewed = sessions.renew(session, g.session_token, at)
        if renewed is not None:
            _set_cookie(renewed)
    elif sessions.is_use_due(session, at):
        # The page must be shown even if the store cannot record the use.
        with suppress(*STORE_ERRORS), store().write_transaction(lock_s=RECORD_LOCK_S):
            sessions.record_use(session, at)


def _is_poll() -> bool:
    return request.method == "GET" and SCRIPT_HEADER in request.headers


def _set_cookie(secret: str) -> None:
    forms.set_cookie(COOKIE, secret, int(sessions.ABSOLUTE.total_seconds()))
